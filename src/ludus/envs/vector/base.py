"""Base class of the serial and process backends: a vector env over chunks of envs that write into one batch.

An episode that ends is reset in the same step (Gymnasium's SAME_STEP): the returned observation starts the next
episode, `infos["final_obs"]` holds the last observation and `infos["final_info"]` its info.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ludus.envs.vector.batch import StepArrays, copy_row, copy_rows
from ludus.envs.vector.chunk import Entry, EnvFacts
from ludus.envs.vector.contract import StepResult, VectorBackend, WrapperStates, seed_per_env
from ludus.errors import CheckpointError
from ludus.types import Array, Observation


class ChunkedVectorEnv(VectorBackend):
    """Steps chunks of envs; a subclass decides where the chunks run.

    Returned arrays are copies. `infos["action_mask"]` is a bool array (n_envs, n_actions) for the returned
    observations; once any env has given a mask in its info, every reset and step has it.
    """

    _batch: StepArrays

    def _describe(self, facts: EnvFacts, n_envs: int, env_id: str) -> None:
        """Set the public attributes of a VectorEnv. The constructor of a subclass calls it once."""
        self.num_envs = n_envs
        self.env_id = env_id
        self.single_observation_space = facts.observation_space
        self.single_action_space = facts.action_space
        self.observation_space = batch_space(facts.observation_space, n_envs)
        self.action_space = batch_space(facts.action_space, n_envs)
        self.metadata = {**facts.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = facts.render_mode

    @abstractmethod
    def _step_chunks(self) -> list[Entry]:
        """Run `EnvChunk.step` in every chunk."""

    @abstractmethod
    def _ask_chunks(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        """Call a method of every chunk and join the lists they return.

        `per_env`, if given, has one element per env; each chunk gets its share as first argument.
        """

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every env. A seed s gives env i the seed s + i, a list its element."""
        self._require_open()
        entries = self._ask_chunks("reset", seed_per_env(seed, self.num_envs), options)
        return copy_rows(self._batch.obs), self._infos(entries)

    def step(self, actions: Any) -> StepResult:
        """Step every env. Raises ValueError or TypeError for actions that do not fit the space."""
        self._require_open()
        batch = self._batch
        rows = batch.actions
        if isinstance(rows, dict):
            for key, array in rows.items():
                _put(array, actions[key])
        else:
            _put(rows, actions)
        entries = self._step_chunks()
        return (
            copy_rows(batch.obs),
            batch.rewards.copy(),
            batch.terminations.copy(),
            batch.truncations.copy(),
            self._infos(entries),
        )

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return, for each env, the attribute `name` of its wrappers or itself; a callable is called."""
        self._require_open()
        return tuple(self._ask_chunks("call", None, name, args, kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return the attribute `name` of each env; as in Gymnasium, a method is called."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        self._require_open()
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"{len(values)} values for {self.num_envs} envs")
        self._ask_chunks("set_attr", values, name)

    def render(self) -> tuple[Any, ...]:
        """Return one frame per env, of the kind that `render_mode` names."""
        self._require_open()
        return tuple(self._ask_chunks("render", None))

    def wrapper_states(self) -> WrapperStates:
        """Return, for each env, `state_dict()` of every wrapper that has it and `load_state_dict`, outermost first."""
        self._require_open()
        return self._ask_chunks("wrapper_states", None)

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Restore the result of `wrapper_states`. Raises CheckpointError if envs or wrappers differ."""
        self._require_open()
        if len(states) != self.num_envs:
            raise CheckpointError(
                f"wrapper states of {len(states)} envs were saved, but there are {self.num_envs}",
                where=f"the envs of {self.env_id}",
                fix="resume with the number of envs the run was started with",
            )
        self._ask_chunks("load_wrapper_states", states)

    def rebuild(self) -> None:
        """Close every env and build a new one; wrapper states are kept. Call `reset` next.

        Afterwards a seeded reset depends on the seed alone, also for envs that remember earlier episodes.
        """
        self._require_open()
        self._ask_chunks("rebuild", None)

    def _infos(self, entries: list[Entry]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for index, final_info, info in entries:
            if final_info is not None:
                final_obs = copy_row(self._batch.final_obs, index)
                infos = self._add_info(infos, {"final_obs": final_obs, "final_info": final_info}, index)
            if info:
                infos = self._add_info(infos, info, index)
        if self._batch.masked[0]:
            infos["action_mask"] = self._batch.masks.copy()
        return infos

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was used after close()")


def _put(rows: Array, actions: Any) -> None:
    actions = np.asarray(actions)
    # numpy would silently broadcast one action to all envs
    if actions.shape != rows.shape:
        raise ValueError(f"actions have shape {actions.shape}, the action space says {rows.shape}")
    np.copyto(rows, actions, casting="same_kind")
