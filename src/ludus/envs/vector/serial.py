"""The serial backend: all envs in this process, one after the other. The fastest for cheap envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ludus.envs.vector.base import ChunkedVectorEnv
from ludus.envs.vector.batch import StepArrays
from ludus.envs.vector.chunk import Entry, EnvChunk, EnvFn
from ludus.errors import UserError


class SerialVectorEnv(ChunkedVectorEnv):
    """Run one env per function in `env_fns`. Raises EnvFault for an exception of an env."""

    def __init__(self, env_fns: Sequence[EnvFn], *, env_id: str = "") -> None:
        if not env_fns:
            raise UserError(
                "a vector env needs at least one env", where="n_envs", fix="set n_envs to 1 or more"
            )
        self._chunk = EnvChunk(env_fns, env_id=env_id)
        facts = self._chunk.facts()
        try:
            self._batch = StepArrays(facts.observation_space, facts.action_space, len(env_fns))
        except UserError:
            self._chunk.close()
            raise
        self._chunk.attach(self._batch)
        self._describe(facts, len(env_fns), env_id)

    def _step_chunks(self) -> list[Entry]:
        return self._chunk.step()

    def _ask_chunks(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        share = () if per_env is None else (per_env,)
        answers: list[Any] = getattr(self._chunk, method)(*share, *args)
        return answers

    def close_extras(self, **kwargs: Any) -> None:
        self._chunk.close()
