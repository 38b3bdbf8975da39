"""A chunk: envs in one process that write their results into rows of a batch.

The serial backend owns one chunk with all envs; every worker process owns one with its share. All env code runs
here, so the backends have the same results and report faults in the same way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from ludus.envs.user_code import close_env, flag_problem, user_traceback
from ludus.envs.vector.batch import StepArrays, mask_width
from ludus.errors import CheckpointError, EnvFault, UserError, describe_error, fault_class
from ludus.types import Observation

Env = gym.Env[Any, Any]
EnvFn = Callable[[], Env]

Entry = tuple[int, dict[str, Any] | None, dict[str, Any], tuple[Any, Any] | None]
"""The infos of one env: its index, the final info of an episode that was reset, its info, and objects.

The objects are what has no row in the batch: the observation, and the final observation of the reset episode (of a
Dict space: the keys without one). None if all have rows.
"""

_MASK = "action_mask"


class SpacesDiffer(UserError, RuntimeError):
    """The envs of a vector env have different spaces. Gymnasium raises RuntimeError for it."""


@dataclass(frozen=True)
class EnvFacts:
    """Facts about the envs that a vector env needs before the first reset."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None


class EnvChunk:
    """Builds `env_fns` as the envs `first_index`, `first_index + 1`, … and runs them one after the other.

    An exception of env code becomes an EnvFault with the env's own traceback; a UserError is raised unchanged. Call
    `attach` before `reset` and `step`.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        first_index: int = 0,
        env_id: str = "",
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        self.env_id = env_id
        self._same_step = autoreset_mode is AutoresetMode.SAME_STEP
        self._next_step = autoreset_mode is AutoresetMode.NEXT_STEP
        self.seeds: list[int | None] = [None] * len(env_fns)
        self.first_index = first_index
        self._env_fns = env_fns
        self.envs: list[Env] = []
        self._build()

    def _build(self) -> None:
        try:
            for position, env_fn in enumerate(self._env_fns):
                try:
                    env = env_fn()
                except BaseException as error:  # the user's constructor may raise anything
                    raise self._fault(position, "the constructor", error) from None
                if not isinstance(env, gym.Env):
                    raise UserError(
                        f"the function that makes an env returned {type(env).__name__}, not a gymnasium.Env",
                        where=getattr(env_fn, "__name__", "env"),
                        fix="return a new env at each call",
                    )
                self.envs.append(env)
                self._check_same_spaces(position)
        except BaseException:
            self.close()
            raise

    def rebuild(self) -> list[None]:
        """Close every env and build a new one in its place; only wrapper states are kept."""
        states = self.wrapper_states()
        self.close()
        self._build()
        self.load_wrapper_states(states)
        return []

    def facts(self) -> EnvFacts:
        env = self.envs[0]
        return EnvFacts(env.observation_space, env.action_space, dict(env.metadata), env.render_mode)

    def attach(self, batch: StepArrays) -> None:
        """Write results into `batch` from now on."""
        self._batch = batch
        self._mask_width = mask_width(self.envs[0].action_space)
        self._masked = False
        space = self.envs[0].observation_space
        self._as_objects = not batch.has_obs
        parts = space.items() if isinstance(space, gym.spaces.Dict) and batch.has_obs else ()
        self._number_keys = [key for key, part in parts if isinstance(part, gym.spaces.Discrete)]
        self._is_number = isinstance(space, gym.spaces.Discrete)
        # Gymnasium's own envs check an int far faster than a NumPy scalar; other envs may call .item() on it
        self._plain_ints = isinstance(self.envs[0].action_space, gym.spaces.Discrete) and all(
            type(env.unwrapped).__module__.startswith("gymnasium.") for env in self.envs
        )
        # a worker that died may have left its masks here
        batch.masks[self.first_index : self.first_index + len(self.envs)] = True

    def reset(
        self,
        seeds: Sequence[int | None],
        options: dict[str, Any] | None,
        chosen: Sequence[bool] | None = None,
    ) -> list[Entry]:
        """Reset every env, or those that are `chosen` (one element per env of the batch).

        Returns an entry for each of them whose info is not empty or whose observation has no row.
        """
        entries: list[Entry] = []
        for position, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            index = self.first_index + position
            if chosen is not None and not chosen[index]:
                continue
            if seed is not None:
                self.seeds[position] = seed
            self._batch.terminations[index] = False
            self._batch.truncations[index] = False
            obs, info = self._reset_env(position, env, seed, options)
            if self._as_objects:
                entries.append((index, None, info, (obs, None)))
            elif info:
                entries.append((index, None, info, None))
        return entries

    def step(self, actions: Iterable[Any] | None = None) -> list[Entry]:
        """Step every env with its action row, or its element of `actions`, and reset those whose episode ended.

        Returns an entry for each env whose episode ended, whose info is not empty, or whose observation has no row.
        """
        batch, first = self._batch, self.first_index
        obs_rows, rewards = batch.obs, batch.rewards
        row_shape = None if isinstance(obs_rows, dict) else obs_rows.shape[1:]
        terminations, truncations = batch.terminations, batch.truncations
        as_objects, next_step = self._as_objects, self._next_step
        entries: list[Entry] = []
        actions = self._own_actions() if actions is None else actions
        for position, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            index = first + position
            if next_step and (terminations[index] or truncations[index]):
                rewards[index] = 0.0
                terminations[index] = truncations[index] = False
                obs, info = self._reset_env(position, env, None, None)
                if info or as_objects:
                    entries.append((index, None, info, (obs, None) if as_objects else None))
                continue
            try:
                obs, reward, terminated, truncated, info = env.step(action)
                rewards[index] = float(reward)  # numpy would turn None into NaN
                terminations[index] = terminated
                truncations[index] = truncated
                if terminated or truncated:
                    self._check_flags(position, terminated, truncated)
                if (terminated or truncated) and self._same_step:
                    entries.append(self._end_episode(position, env, obs, info))
                    continue
                if type(obs) is np.ndarray and obs.shape == row_shape:
                    obs_rows[index] = obs  # type: ignore[index]  # only plain arrays have a row shape
                elif not as_objects:
                    self._store(position, obs_rows, obs)
                if info or self._masked:
                    info = self._take_mask(position, info)
                if as_objects:
                    entries.append((index, None, info, (copy.deepcopy(obs), None)))
                elif info:
                    entries.append((index, None, info, None))
            except BaseException as error:  # the user's step may raise or return anything
                raise self._fault(position, "step()", error) from None
        return entries

    def _end_episode(self, position: int, env: Env, obs: Any, info: dict[str, Any]) -> Entry:
        """Reset an env in the step that ended its episode. Returns its entry, with the final observation and info."""
        final_info = dict(info)  # the env may write its next info into the same dict
        final: Any = None
        if self._as_objects:
            final = copy.deepcopy(obs)
        else:
            self._store(position, self._batch.final_obs, obs)
            if self._is_number:
                final = copy.copy(obs)  # rows hold NumPy's numbers; Gymnasium returns the env's own
            elif self._number_keys:
                final = {key: copy.copy(obs[key]) for key in self._number_keys}
        first_obs, info = self._reset_env(position, env, None, None)
        objects = (first_obs, final) if self._as_objects or final is not None else None
        return self.first_index + position, final_info, info, objects

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the attribute `name` of each env; a callable is called."""
        return self.call_chosen([True] * len(self.envs), name, args, kwargs)

    def call_chosen(
        self, chosen: Sequence[bool], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Any]:
        """As `call`, with None for the envs that are not chosen, whose attribute is not looked up."""

        def get_or_call(env: Env) -> Any:
            attribute = env.get_wrapper_attr(name)
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        pairs = zip(self.envs, chosen, strict=True)
        return [
            self._guarded(i, name, get_or_call, env) if yes else None for i, (env, yes) in enumerate(pairs)
        ]

    def set_attr(self, values: Sequence[Any], name: str) -> list[None]:
        for position, (env, value) in enumerate(zip(self.envs, values, strict=True)):
            self._guarded(position, f"setting {name}", env.set_wrapper_attr, name, value)
        return []

    def render(self) -> list[Any]:
        return [self._guarded(i, "render()", env.render) for i, env in enumerate(self.envs)]

    def wrapper_states(self) -> list[list[dict[str, Any]]]:
        """Return, for each env, the state of every layer that has one, outermost wrapper first."""
        return [
            [self._guarded(i, "state_dict()", layer.state_dict) for layer in _stateful_layers(env)]
            for i, env in enumerate(self.envs)
        ]

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> list[None]:
        """Restore the result of `wrapper_states`. Raises CheckpointError if the layers differ."""
        for position, (env, own_states) in enumerate(zip(self.envs, states, strict=True)):
            layers = list(_stateful_layers(env))
            if len(layers) != len(own_states):
                raise CheckpointError(
                    f"{len(own_states)} wrapper states were saved, but the env has {len(layers)} to load",
                    where=f"env {self.first_index + position} ({self.env_id})",
                    fix="resume with the wrappers the run was started with",
                )
            for layer, state in zip(layers, own_states, strict=True):
                self._guarded(position, "load_state_dict()", layer.load_state_dict, state)
        return []

    def close(self) -> None:
        """Close every env. An env that fails to close is logged."""
        for position, env in enumerate(self.envs):
            close_env(env, f"env {self.first_index + position} ({self.env_id})")
        self.envs = []

    def _reset_env(
        self, position: int, env: Env, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset an env. Returns its observation if it has no row, else None, and its info."""
        try:
            # an env without the parameter `options` works as long as nobody passes any
            result = env.reset(seed=seed) if options is None else env.reset(seed=seed, options=options)
            obs, info = result
            if self._as_objects:
                return copy.deepcopy(obs), self._take_mask(position, info)
            self._check_dtypes(position, obs)
            self._store(position, self._batch.obs, obs)
            return None, self._take_mask(position, info)
        except BaseException as error:  # the user's reset may raise or return anything
            raise self._fault(position, "reset()", error) from None

    def _own_actions(self) -> Iterable[Any]:
        """Return one action per env, in memory that the env may keep: scalars, rows, or dicts of rows."""
        actions = self._batch.actions
        own = slice(self.first_index, self.first_index + len(self.envs))
        if isinstance(actions, dict):
            copies = {key: array[own].copy() for key, array in actions.items()}
            return [{key: rows[i] for key, rows in copies.items()} for i in range(len(self.envs))]
        return actions[own].tolist() if self._plain_ints else actions[own].copy()

    def _store(self, position: int, rows: Observation, obs: Any) -> None:
        if isinstance(rows, dict):
            try:
                for key, array in rows.items():
                    self._store(position, array, obs[key])
            except (KeyError, IndexError, TypeError):
                raise self._bad_obs(position, "does not hold every key of its space") from None
            return
        # numpy would silently broadcast a smaller observation into the row
        row_shape = rows.shape[1:]
        shape = obs.shape if type(obs) is np.ndarray else np.shape(obs)
        if shape != row_shape:
            raise self._bad_obs(position, f"has shape {shape}, its space says {row_shape}")
        rows[self.first_index + position] = obs

    def _check_dtypes(self, position: int, obs: Any) -> None:
        rows = self._batch.obs
        pairs = ((rows[k], obs[k]) for k in rows if k in obs) if isinstance(rows, dict) else [(rows, obs)]
        for array, value in pairs:
            dtype = np.asarray(value).dtype
            if not np.can_cast(dtype, array.dtype, "same_kind"):
                raise self._bad_obs(position, f"is of {dtype}, its space says {array.dtype}")

    def _take_mask(self, position: int, info: dict[str, Any]) -> dict[str, Any]:
        """Copy the mask from `info` into the env's row and return the other infos; `info` is not changed."""
        index = self.first_index + position
        if not self._mask_width or _MASK not in info:
            self._batch.masks[index] = True
            return info
        mask = np.asarray(info[_MASK], dtype=np.bool_).reshape(-1)
        if mask.size != self._mask_width:
            raise self._fault(position, f"an action mask has {mask.size} entries, not {self._mask_width}")
        self._masked = True
        self._batch.masked[0] = True
        self._batch.masks[index] = mask
        return {key: value for key, value in info.items() if key != _MASK}

    def _check_flags(self, position: int, terminated: Any, truncated: Any) -> None:
        """Raise EnvFault if a flag that ended an episode is no flag: Python takes the text "False" for true."""
        problem = flag_problem(terminated, truncated)
        if problem:
            raise self._fault(position, problem)

    def _check_same_spaces(self, position: int) -> None:
        env, model = self.envs[position], self.envs[0]
        check_same_spaces(
            self.first_index + position,
            (env.observation_space, env.action_space),
            (model.observation_space, model.action_space),
        )

    def _guarded(self, position: int, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as error:  # the user's code may raise anything
            raise self._fault(position, doing, error) from None

    def _bad_obs(self, position: int, what: str) -> BaseException:
        return self._fault(position, f"an observation {what}")

    def _fault(self, position: int, doing: str, error: BaseException | None = None) -> BaseException:
        """Return the error to raise for a fault of an env: an EnvFault, unless it is a UserError or Ctrl-C.

        Also for SystemExit: an env that calls `sys.exit(0)` must not end the process as if all was well.
        """
        if isinstance(error, UserError | EnvFault | KeyboardInterrupt):
            return error
        return fault_class(error)(
            doing if error is None else f"{doing} raised {describe_error(error)}",
            worker=self.first_index + position,
            env_id=self.env_id,
            seed=self.seeds[position],
            user_traceback="" if error is None else user_traceback(error),
        )


def check_same_spaces(index: int, spaces: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Raise SpacesDiffer unless env `index` has the (observation, action) spaces of env 0."""
    for kind, space, model in zip(("observation", "action"), spaces, expected, strict=True):
        if space != model:
            raise SpacesDiffer(
                f"the {kind} space of env {index} is {space}, but that of the first env is {model}",
                where="the env functions of a vector env",
                fix="make all envs of a vector env alike",
            )


def _stateful_layers(env: Env) -> Iterator[Any]:
    layer = env
    while True:
        # of the class: a wrapper that forwards attributes would report those of the env it wraps
        if all(callable(getattr(type(layer), name, None)) for name in ("state_dict", "load_state_dict")):
            yield layer
        if not isinstance(layer, gym.Wrapper):
            return
        layer = layer.env
