"""A chunk: envs in one process that write their results into rows of a batch.

The serial backend owns one chunk with all envs; every worker process owns one with its share. All env code runs
here, so the backends have the same results and report faults in the same way.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ludus.envs.vector.batch import StepArrays, mask_width
from ludus.errors import CheckpointError, EnvFault, LudusError, UserError
from ludus.types import Observation

Env = gym.Env[Any, Any]
EnvFn = Callable[[], Env]

Entry = tuple[int, dict[str, Any] | None, dict[str, Any]]
"""The infos of one env: its index, the final info of an episode that ended, its info."""

_log = logging.getLogger("ludus.envs")
_OWN_FOLDER = str(Path(__file__).parent)
_MASK = "action_mask"


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

    def __init__(self, env_fns: Sequence[EnvFn], *, first_index: int = 0, env_id: str = "") -> None:
        self.env_id = env_id
        self._seeds: list[int | None] = [None] * len(env_fns)
        self.first_index = first_index
        self._env_fns = env_fns
        self._envs: list[Env] = []
        self._build()

    def _build(self) -> None:
        try:
            for position, env_fn in enumerate(self._env_fns):
                try:
                    env = env_fn()
                except Exception as error:  # the user's constructor may raise anything
                    raise self._fault(position, "the constructor", error) from None
                self._envs.append(env)
                self._check_same_spaces(position)
        except LudusError:
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
        env = self._envs[0]
        return EnvFacts(env.observation_space, env.action_space, dict(env.metadata), env.render_mode)

    def attach(self, batch: StepArrays) -> None:
        """Write results into `batch` from now on."""
        self._batch = batch
        self._mask_width = mask_width(self._envs[0].action_space)
        self._masked = False
        # Gymnasium's own envs check an int far faster than a NumPy scalar; other envs may call .item() on it
        self._plain_ints = isinstance(self._envs[0].action_space, gym.spaces.Discrete) and all(
            type(env.unwrapped).__module__.startswith("gymnasium.") for env in self._envs
        )
        # a worker that died may have left its masks here
        batch.masks[self.first_index : self.first_index + len(self._envs)] = True

    def reset(self, seeds: Sequence[int | None], options: dict[str, Any] | None) -> list[Entry]:
        """Reset every env. Returns an entry for each env whose info is not empty."""
        entries: list[Entry] = []
        for position, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            if seed is not None:
                self._seeds[position] = seed
            info = self._reset_env(position, env, seed, options)
            if info:
                entries.append((self.first_index + position, None, info))
        return entries

    def step(self) -> list[Entry]:
        """Step every env with its action row and reset those whose episode ended.

        Returns an entry for each env whose episode ended or whose info is not empty.
        """
        batch, first = self._batch, self.first_index
        obs_rows, rewards = batch.obs, batch.rewards
        row_shape = None if isinstance(obs_rows, dict) else obs_rows.shape[1:]
        terminations, truncations = batch.terminations, batch.truncations
        entries: list[Entry] = []
        for position, (env, action) in enumerate(zip(self._envs, self._own_actions(), strict=True)):
            index = first + position
            try:
                obs, reward, terminated, truncated, info = env.step(action)
                rewards[index] = float(reward)  # numpy would turn None into NaN
                terminations[index] = terminated
                truncations[index] = truncated
                if terminated or truncated:
                    self._store(position, batch.final_obs, obs)
                    final_info = dict(info)  # the env may write its next info into the same dict
                    entries.append((index, final_info, self._reset_env(position, env, None, None)))
                    continue
                if type(obs) is np.ndarray and obs.shape == row_shape:
                    obs_rows[index] = obs  # type: ignore[index]  # only plain arrays have a row shape
                else:
                    self._store(position, obs_rows, obs)
                if info or self._masked:
                    info = self._take_mask(position, info)
                    if info:
                        entries.append((index, None, info))
            except Exception as error:  # the user's step may raise or return anything
                raise self._fault(position, "step()", error) from None
        return entries

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the attribute `name` of each env; a callable is called."""

        def get_or_call(env: Env) -> Any:
            attribute = env.get_wrapper_attr(name)
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return [self._guarded(i, name, get_or_call, env) for i, env in enumerate(self._envs)]

    def set_attr(self, values: Sequence[Any], name: str) -> list[None]:
        for position, (env, value) in enumerate(zip(self._envs, values, strict=True)):
            self._guarded(position, f"setting {name}", env.set_wrapper_attr, name, value)
        return []

    def render(self) -> list[Any]:
        return [self._guarded(i, "render()", env.render) for i, env in enumerate(self._envs)]

    def wrapper_states(self) -> list[list[dict[str, Any]]]:
        """Return, for each env, the state of every layer that has one, outermost wrapper first."""
        return [
            [self._guarded(i, "state_dict()", layer.state_dict) for layer in _stateful_layers(env)]
            for i, env in enumerate(self._envs)
        ]

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> list[None]:
        """Restore the result of `wrapper_states`. Raises CheckpointError if the layers differ."""
        for position, (env, own_states) in enumerate(zip(self._envs, states, strict=True)):
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
        for position, env in enumerate(self._envs):
            try:
                env.close()
            except Exception as error:  # the other envs must still be closed
                text = user_traceback(error)
                _log.warning(
                    "env %d (%s) failed to close:\n%s", self.first_index + position, self.env_id, text
                )
        self._envs = []

    def _reset_env(
        self, position: int, env: Env, seed: int | None, options: dict[str, Any] | None
    ) -> dict[str, Any]:
        try:
            # an env without the parameter `options` works as long as nobody passes any
            result = env.reset(seed=seed) if options is None else env.reset(seed=seed, options=options)
            obs, info = result
            self._check_dtypes(position, obs)
            self._store(position, self._batch.obs, obs)
            return self._take_mask(position, info)
        except Exception as error:  # the user's reset may raise or return anything
            raise self._fault(position, "reset()", error) from None

    def _own_actions(self) -> Iterable[Any]:
        """Return one action per env, in memory that the env may keep: scalars, rows, or dicts of rows."""
        actions = self._batch.actions
        own = slice(self.first_index, self.first_index + len(self._envs))
        if isinstance(actions, dict):
            copies = {key: array[own].copy() for key, array in actions.items()}
            return [{key: rows[i] for key, rows in copies.items()} for i in range(len(self._envs))]
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

    def _check_same_spaces(self, position: int) -> None:
        env, model = self._envs[position], self._envs[0]
        check_same_spaces(
            self.first_index + position,
            (env.observation_space, env.action_space),
            (model.observation_space, model.action_space),
        )

    def _guarded(self, position: int, doing: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # the user's code may raise anything
            raise self._fault(position, doing, error) from None

    def _bad_obs(self, position: int, what: str) -> LudusError:
        return self._fault(position, f"an observation {what}")

    def _fault(self, position: int, doing: str, error: Exception | None = None) -> LudusError:
        """Return the error to raise for a fault of an env: a UserError or EnvFault itself, else an EnvFault."""
        if isinstance(error, UserError | EnvFault):
            return error
        return EnvFault(
            doing if error is None else f"{doing} raised {type(error).__name__}: {error}",
            worker=self.first_index + position,
            env_id=self.env_id,
            seed=self._seeds[position],
            user_traceback="" if error is None else user_traceback(error),
        )


def check_same_spaces(index: int, spaces: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Raise UserError unless env `index` has the (observation, action) spaces of env 0."""
    for kind, space, model in zip(("observation", "action"), spaces, expected, strict=True):
        if space != model:
            raise UserError(
                f"the {kind} space of env {index} is {space}, but that of the first env is {model}",
                where="the env functions of a vector env",
                fix="make all envs of a vector env alike",
            )


def user_traceback(error: BaseException) -> str:
    """Return the traceback of `error` without the leading frames of this package."""
    report = traceback.TracebackException.from_exception(error)
    while report.stack and report.stack[0].filename.startswith(_OWN_FOLDER):
        del report.stack[0]
    return "".join(report.format())


def _stateful_layers(env: Env) -> Iterator[Any]:
    layer = env
    while True:
        # of the class: a wrapper that forwards attributes would report those of the env it wraps
        if all(callable(getattr(type(layer), name, None)) for name in ("state_dict", "load_state_dict")):
            yield layer
        if not isinstance(layer, gym.Wrapper):
            return
        layer = layer.env
