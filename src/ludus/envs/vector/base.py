"""Base class of the serial and process backends: a vector env over chunks of envs that write into one batch.

By default an episode that ends is reset in the same step (Gymnasium's SAME_STEP): the returned observation starts the
next episode, `infos["final_obs"]` holds the last observation and `infos["final_info"]` its info. NEXT_STEP resets it in
the next step, whose action is ignored. DISABLED leaves it to the caller: `reset(options={"reset_mask": ended})`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ludus.envs.vector.batch import StepArrays, copy_row, copy_rows
from ludus.envs.vector.chunk import Entry, EnvFacts
from ludus.envs.vector.contract import (
    CallsSomeEnvs,
    StepResult,
    VectorBackend,
    WrapperStates,
    check_shape,
    seed_per_env,
    split_reset_mask,
)
from ludus.errors import CheckpointError, EnvFault, describe_error
from ludus.types import Array, Observation


class ChunkedVectorEnv(VectorBackend, CallsSomeEnvs):
    """Steps chunks of envs; a subclass decides where the chunks run.

    Returned arrays are copies. `infos["action_mask"]` is a bool array (n_envs, n_actions) for the returned
    observations; once any env has given a mask in its info, every reset and step has it.
    """

    _batch: StepArrays
    _actions: list[Any] | None = None
    """The actions of the step for a space without rows, else None."""

    def _describe(self, facts: EnvFacts, n_envs: int, env_id: str, autoreset_mode: AutoresetMode) -> None:
        """Set the public attributes of a VectorEnv. The constructor of a subclass calls it once."""
        self.num_envs = n_envs
        self.env_id = env_id
        self.single_observation_space = facts.observation_space
        self.single_action_space = facts.action_space
        self.observation_space = batch_space(facts.observation_space, n_envs)
        self.action_space = batch_space(facts.action_space, n_envs)
        self.autoreset_mode = autoreset_mode
        self.metadata = {**facts.metadata, "autoreset_mode": autoreset_mode}
        self.render_mode = facts.render_mode
        self._objects: list[Any] = [None] * n_envs  # the observations of a space without rows

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]  # as in Gymnasium's own
        """The seed of each env's random generator."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]  # as Gymnasium's own
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random generator of each env; of an env in another process, a copy."""
        return self.get_attr("np_random")

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
        """Start an episode in every env. A seed s gives env i the seed s + i, a list its element.

        `options["reset_mask"]`, a bool array, names the envs to reset; the others continue. All else is the envs'.
        """
        self._require_open()
        chosen, options = split_reset_mask(options, self.num_envs)
        args = (options,) if chosen is None else (options, chosen.tolist())
        entries = self._ask_chunks("reset", seed_per_env(seed, self.num_envs), *args)
        infos = self._infos(entries)
        return self._observations(), infos

    def step(self, actions: Any) -> StepResult:
        """Step every env. Raises ValueError or TypeError for actions that do not fit the space."""
        self._require_open()
        self._take_actions(actions)
        entries = self._step_chunks()
        batch, infos = self._batch, self._infos(entries)
        return (
            self._observations(),
            batch.rewards.copy(),
            batch.terminations.copy(),
            batch.truncations.copy(),
            infos,
        )

    def _take_actions(self, actions: Any) -> None:
        batch = self._batch
        if self.autoreset_mode is AutoresetMode.DISABLED:
            ended = np.flatnonzero(batch.terminations | batch.truncations)
            if len(ended):
                raise ResetNeeded(f"the episodes of envs {ended.tolist()} have ended: reset them first")
        rows = batch.actions
        if not batch.has_actions:
            self._actions = list(iterate(self.action_space, actions))
            if len(self._actions) != self.num_envs:
                raise ValueError(f"{len(self._actions)} actions for {self.num_envs} envs")
        elif isinstance(rows, dict):
            for key, array in rows.items():
                _put(array, actions[key])
        else:
            _put(rows, actions)

    def _observations(self) -> Any:
        """Return a copy of the current observations: arrays, or what Gymnasium makes of a space without rows."""
        if self._batch.has_obs:
            return copy_rows(self._batch.obs)
        space = self.single_observation_space
        empty: Any = create_empty_array(space, n=self.num_envs, fn=np.zeros)
        return copy.deepcopy(concatenate(space, self._objects, empty))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return, for each env, the attribute `name` of its wrappers or itself; a callable is called."""
        self._require_open()
        return tuple(self._ask_chunks("call", None, name, args, kwargs))

    def call_some(self, indices: Sequence[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        self._require_open()
        chosen = [False] * self.num_envs
        for index in indices:
            chosen[index] = True
        answers = self._ask_chunks("call_chosen", chosen, name, args, kwargs)
        return [answers[index] for index in indices]

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
        has_obs = self._batch.has_obs
        for index, final_info, info, objects in entries:
            if not has_obs and objects is not None:
                self._objects[index] = objects[0]
            try:
                if final_info is not None:
                    final_obs = self._final_obs(index, objects)
                    infos = self._add_info(infos, {"final_obs": final_obs, "final_info": final_info}, index)
                if info:
                    infos = self._add_info(infos, info, index)
            except Exception as error:  # an env's info may be no dict, or a dict that contains itself
                raise EnvFault(
                    f"its info cannot be joined with those of the other envs: {describe_error(error)}",
                    worker=index,
                    env_id=self.env_id,
                    seed=self._seed_of(index),
                ) from None
        if self._batch.masked[0]:
            infos["action_mask"] = self._batch.masks.copy()
            infos["_action_mask"] = np.ones(self.num_envs, dtype=np.bool_)
        return infos

    def _final_obs(self, index: int, objects: tuple[Any, Any] | None) -> Any:
        """Return the last observation of an episode that was reset in this step."""
        if objects is None:
            return copy_row(self._batch.final_obs, index)
        if self._batch.has_obs and isinstance(self._batch.final_obs, dict):
            return copy_row(self._batch.final_obs, index) | objects[1]
        return objects[1]

    @abstractmethod
    def _seed_of(self, index: int) -> int | None:
        """Return the seed of the last seeded reset of an env, for error messages."""


def _put(rows: Array, actions: Any) -> None:
    actions = np.asarray(actions)
    check_shape(actions, rows.shape)  # numpy would silently broadcast one action to all envs
    np.copyto(rows, actions, casting="same_kind")
