"""Many envs as one `gymnasium.vector.VectorEnv`: `serial` in this process, `process` in workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ludus.errors import UnknownName
from ludus.plugins import load

if TYPE_CHECKING:
    from ludus.envs.vector.base import ChunkedVectorEnv
    from ludus.envs.vector.chunk import EnvFn

_BACKENDS = {
    "serial": "ludus.envs.vector.serial:SerialVectorEnv",
    "process": "ludus.envs.vector.process:ProcessVectorEnv",
}


def make_vector(env_fns: Sequence[EnvFn], backend: str, env_id: str = "", **options: Any) -> ChunkedVectorEnv:
    """A vector env of the backend named; `options` are those of its class. Raises UnknownName."""
    if backend not in _BACKENDS:
        raise UnknownName("vector backend", backend, _BACKENDS, where="vector", fix="use serial or process")
    envs: ChunkedVectorEnv = load(_BACKENDS[backend])(env_fns, env_id=env_id, **options)
    return envs
