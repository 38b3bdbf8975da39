"""Games that are written as batched kernels: which they are, and the vector env of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

from ludus.envs.vector import classic
from ludus.errors import ConfigError

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

_BALATRO = "ludus/Balatro-v0"


def unsupported_reason(spec: EnvSpec) -> str | None:
    """None when a batched game can stand in for the envs of `spec`, else the reason."""
    if spec.id != _BALATRO:
        return classic.unsupported_reason(spec)
    from ludus.games.balatro import vector as balatro  # its kernels take a second to load

    return balatro.unsupported_reason(spec)


def make_batched(spec: EnvSpec, n_envs: int) -> VectorEnv[Any, Any, Any]:
    """The vector env of `spec`; raises ConfigError where there is none."""
    if spec.id != _BALATRO:
        return classic.BatchedVectorEnv(spec, n_envs)
    from ludus.games.balatro.vector import BalatroVectorEnv

    reason = unsupported_reason(spec)
    if reason is not None:
        raise ConfigError(f"vector: batched cannot be used: {reason}", key="vector", fix="use vector: auto")
    return BalatroVectorEnv.of_spec(spec, n_envs)
