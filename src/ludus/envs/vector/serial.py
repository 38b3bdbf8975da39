"""The serial backend: all envs in this process, one after the other. The fastest for cheap envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from ludus.envs.vector.base import ChunkedVectorEnv
from ludus.envs.vector.batch import StepArrays
from ludus.envs.vector.chunk import Entry, Env, EnvChunk, EnvFn
from ludus.errors import UserError


class SerialVectorEnv(ChunkedVectorEnv):
    """Run one env per function in `env_fns`. Raises EnvFault for an exception of an env."""

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        env_id: str = "",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        if not env_fns:
            raise UserError(
                "a vector env needs at least one env", where="n_envs", fix="set n_envs to 1 or more"
            )
        mode = AutoresetMode(autoreset_mode)
        self._chunk = EnvChunk(env_fns, env_id=env_id, autoreset_mode=mode)
        facts = self._chunk.facts()
        self._batch = StepArrays(facts.observation_space, facts.action_space, len(env_fns))
        self._chunk.attach(self._batch)
        self._describe(facts, len(env_fns), env_id, mode)

    @property
    def envs(self) -> list[Env]:
        """The envs themselves; empty after `close`."""
        return self._chunk.envs

    def _step_chunks(self) -> list[Entry]:
        return self._chunk.step(self._actions)

    def _ask_chunks(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        share = () if per_env is None else (per_env,)
        answers: list[Any] = getattr(self._chunk, method)(*share, *args)
        return answers

    def _seed_of(self, index: int) -> int | None:
        return self._chunk.seeds[index]

    def close_extras(self, **kwargs: Any) -> None:
        self._chunk.close()
