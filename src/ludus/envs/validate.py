"""Checks an env for training and lists every problem, each with its fix."""

from __future__ import annotations

import copy
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.envs.catalog import find_gym_spec
from ludus.envs.episode_reports import REPORT
from ludus.envs.make import EnvFactory, EnvSpec
from ludus.envs.masks import MASK_KEY, checked_mask, sample_legal
from ludus.envs.user_code import report_problem
from ludus.envs.wrappers import Env
from ludus.errors import UserError, describe_error, printable
from ludus.types import BoolArray

_STEPS = 500
_REPLAYED_STEPS = 100
_SEED = 0

_RAISED = object()  # the result of a call that raised; None is a wrong result that envs do return
_PLAIN_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_STEP_FIX = "return obs, reward, terminated, truncated, info (gymnasium's five values)"
_RESET_FIX = "def reset(self, *, seed=None, options=None): ... return obs, info"
_REPORT_FIX = 'info["episode"] = {"r": return, "l": length}; info["episode_report"] = {"kind": NAME, ...}'
_SEED_FIX = "call super().reset(seed=seed) first and draw all randomness from self.np_random"


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an env: an `error` breaks training, a `warning` makes it worse or unrepeatable."""

    severity: Literal["error", "warning"]
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.what}\n  fix: {self.fix}"


@dataclass
class _Findings:
    problems: list[Problem] = field(default_factory=list)

    def add(self, severity: Literal["error", "warning"], where: str, what: str, fix: str) -> None:
        # one report per kind: `what` holds values that differ at every step
        if not any((known.where, known.fix) == (where, fix) for known in self.problems):
            self.problems.append(Problem(severity, where, what, fix))

    def error(self, where: str, what: str, fix: str) -> None:
        self.add("error", where, what, fix)

    def warning(self, where: str, what: str, fix: str) -> None:
        self.add("warning", where, what, fix)


def validate_environment(
    env_or_id: str | EnvSpec | EnvFactory | Env, raise_on_error: bool = False, quiet: bool = False
) -> list[Problem]:
    """Play the env for a few hundred random steps and return every problem found, printed unless `quiet`.

    Takes an id, an EnvSpec, a factory, or an env (which stays open, reset or stepped an unknown number of
    times). An unknown id raises the error of `check_env_exists`. Errors of the env are problems in the list.
    With `raise_on_error`, raises UserError if the list contains an error.
    """
    found = _Findings()
    env = _built(env_or_id, found)
    if env is not _RAISED:
        try:
            _check(env, found)
        finally:
            if env is not env_or_id and isinstance(env, gym.Env):
                _guarded(found, "close", env.close)
    errors = [problem for problem in found.problems if problem.severity == "error"]
    if not quiet:
        for problem in found.problems:
            print(printable(str(problem), keep="\n\t"))
        print(f"{len(errors)} errors, {len(found.problems) - len(errors)} warnings")
    if errors and raise_on_error:
        raise UserError(
            f"the env has {len(errors)} errors:\n" + "\n".join(str(problem) for problem in errors),
            where=str(env_or_id),
            fix="fix them in the order listed: the first often causes the others",
        )
    return found.problems


def _built(env_or_id: str | EnvSpec | EnvFactory | Env, found: _Findings) -> Any:
    if isinstance(env_or_id, str):
        spec = find_gym_spec(env_or_id)  # without our wrappers, which would hide what they fix
        return _guarded(found, "construction", lambda: gym.make(spec, disable_env_checker=True))
    if callable(env_or_id):
        return _guarded(found, "construction", env_or_id)
    return env_or_id


def _check(env: Any, found: _Findings) -> None:
    if not isinstance(env, gym.Env):
        old = any(base.__module__.split(".")[0] == "gym" for base in type(env).__mro__)
        kind = "the old gym package's Env" if old else f"a {type(env).__name__}"
        found.error("class", f"it is {kind}, not a gymnasium.Env", "derive it from gymnasium.Env")
    has_spaces = _check_spaces(env, found)
    _check_rendering(env, found)
    if not has_spaces:
        return
    env.action_space.seed(_SEED)
    trajectory = _play(env, found)
    if trajectory is not None and len(trajectory.seen) > 0:
        _check_repeats(env, trajectory, found)


# ---------------------------------------- declarations


def _check_spaces(env: Env, found: _Findings) -> bool:
    """Report problems of the declared spaces. Returns False if one is missing, so that no step is possible."""
    complete = True
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            found.error(name, "it is not declared", f"set self.{name} in __init__ to a gymnasium space")
            complete = False
    if not complete:
        return False
    observation, action = env.observation_space, env.action_space
    parts = dict(observation.items()) if isinstance(observation, spaces.Dict) else {"": observation}
    for key, part in parts.items():
        if not isinstance(part, _PLAIN_SPACES):
            found.error(
                f"observation_space[{key!r}]" if key else "observation_space",
                f"{type(part).__name__} is not supported",
                "use Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of them "
                "(the wrapper FlattenObservation makes one Box of anything)",
            )
    if not isinstance(action, _PLAIN_SPACES):
        found.error(
            "action_space",
            f"{type(action).__name__} is not supported",
            "use Discrete, MultiDiscrete, MultiBinary or Box",
        )
    if isinstance(action, spaces.Box):
        if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
            found.warning(
                "action_space",
                "its bounds are not finite, so actions can be neither clipped nor squashed",
                "declare the range the env really uses",
            )
        elif not np.array_equal(action.low, -action.high):
            found.warning(
                "action_space",
                f"its bounds are not symmetric around 0 (low {action.low}, high {action.high})",
                "add the wrapper {RescaleAction: {min_action: -1.0, max_action: 1.0}}",
            )
    return True


def _check_rendering(env: Env, found: _Findings) -> None:
    metadata = getattr(env, "metadata", None)
    modes = metadata.get("render_modes") if isinstance(metadata, Mapping) else None
    if modes is None:
        found.warning(
            "metadata",
            "no render modes are declared, so videos cannot be recorded",
            'set metadata = {"render_modes": ["rgb_array"], "render_fps": 30}, or [] when it cannot be drawn',
        )
    elif getattr(env, "render_mode", None) not in (None, *modes):
        found.warning(
            "render_mode",
            f"{env.render_mode!r} is not among the declared modes {list(modes)}",
            "add it to metadata['render_modes']",
        )


# ---------------------------------------- play


@dataclass
class _Trajectory:
    first: Any
    actions: list[Any] = field(default_factory=list)
    seen: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)


def _play(env: Env, found: _Findings) -> _Trajectory | None:
    """Play random actions with every check; None if the first reset failed."""
    started = _reset(env, found, "reset", seed=_SEED)
    if started is None:
        return None
    obs, info = started
    trajectory = _Trajectory(copy.deepcopy(obs))
    ended = False
    for _ in range(_STEPS):
        before = copy.deepcopy(obs)
        action = sample_legal(env.action_space, _mask(env, obs, info, found))
        result = _step(env, action, found)
        if result is None:
            return trajectory
        if not _same(obs, before):
            found.warning(
                "step: observation",
                "the array returned before was changed by the next step",
                "return a new array (a copy) every time",
            )
        obs, reward, terminated, truncated, info = result
        trajectory.actions.append(action)
        trajectory.seen.append((copy.deepcopy(obs), reward, terminated, truncated))
        if terminated or truncated:
            ended = True
            restarted = _reset(env, found, "reset after an episode's end", seed=None)
            if restarted is None:
                return trajectory
            obs, info = restarted
    if not ended and getattr(getattr(env, "spec", None), "max_episode_steps", None) is None:
        found.warning(
            "episode",
            f"it did not end within {_STEPS} random steps, and the env has no time limit",
            "set max_episode_steps, or check the condition that ends it",
        )
    return trajectory


def _check_repeats(env: Env, trajectory: _Trajectory, found: _Findings) -> None:
    """Replay the first actions from the same seed and compare what comes back."""
    spec = getattr(env, "spec", None)
    severity: Literal["error", "warning"] = (
        "warning" if spec is not None and spec.nondeterministic else "error"
    )
    again = _reset(env, found, "reset", seed=_SEED)
    if again is None:
        return
    if not _same(again[0], trajectory.first):
        found.add(severity, "reset", f"two resets with seed {_SEED} start differently", _SEED_FIX)
        return
    steps = zip(trajectory.actions, trajectory.seen[:_REPLAYED_STEPS], strict=False)
    for number, (action, seen) in enumerate(steps, start=1):
        result = _step(env, action, found)
        if result is None:
            return
        for name, now, then in zip(
            ("observation", "reward", "terminated", "truncated"), result, seen, strict=False
        ):
            if not _same(now, then):
                what = f"after the same seed and actions, {name} differs at step {number}"
                found.add(severity, "step", what, _SEED_FIX)
                return
        if (result[2] or result[3]) and _reset(env, found, "reset after an episode's end", seed=None) is None:
            return


def _reset(env: Env, found: _Findings, where: str, seed: int | None) -> tuple[Any, dict[str, Any]] | None:
    """Return the result of reset as (obs, info), also for the old API; None if it raised."""
    result = _guarded(found, where, lambda: env.reset() if seed is None else env.reset(seed=seed))
    if result is _RAISED:
        return None
    info: dict[str, Any] = {}
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        obs, info = result
    else:
        kind = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"one {type(result).__name__}"
        found.error(where, f"it returned {kind} instead of (obs, info)", _RESET_FIX)
        obs = result
    _check_value(obs, env.observation_space, "reset: observation", found)
    return obs, info


def _step(env: Env, action: Any, found: _Findings) -> tuple[Any, Any, Any, Any, dict[str, Any]] | None:
    """Return the result of step as five values, also for the old API; None if it is not usable."""
    result = _guarded(found, "step", lambda: env.step(action))
    if result is _RAISED:
        return None
    if not isinstance(result, tuple) or len(result) not in (4, 5):
        size = f"{len(result)} values" if isinstance(result, tuple) else f"one {type(result).__name__}"
        found.error("step", f"it returned {size}", _STEP_FIX)
        return None
    if len(result) == 4:
        _report_four_values(found)
        obs, reward, done, info = result
        result = (obs, reward, done, False, info)
    obs, reward, terminated, truncated, info = result
    _check_value(obs, env.observation_space, "step: observation", found)
    if not isinstance(reward, int | float | np.integer | np.floating | np.bool_):
        found.error("step: reward", f"it is a {type(reward).__name__}, not a number", "return a float")
    elif not math.isfinite(reward):
        found.error("step: reward", f"it is {reward}", "return a finite number")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            found.error(f"step: {name}", f"it is a {type(flag).__name__}, not a bool", "return bool(...)")
    if not isinstance(info, dict):
        found.error(
            "step: info", f"it is a {type(info).__name__}, not a dict", "return {} when there is nothing"
        )
        info = {}
    problem = report_problem(info.get("episode"), info.get(REPORT))
    if problem:
        found.error("step: info", problem, _REPORT_FIX)
    return obs, reward, terminated, truncated, info


def _mask(env: Env, obs: Any, info: Mapping[str, Any], found: _Findings) -> BoolArray | None:
    if isinstance(obs, dict) and MASK_KEY in obs:
        where, mask = f'obs["{MASK_KEY}"]', obs[MASK_KEY]
    elif isinstance(env, gym.Env) and env.has_wrapper_attr("action_masks"):
        where, mask = (
            "env.action_masks()",
            _guarded(found, "action_masks", env.get_wrapper_attr("action_masks")),
        )
    else:
        where, mask = f'info["{MASK_KEY}"]', info.get(MASK_KEY)
    if mask is None or mask is _RAISED:
        return None
    try:
        return checked_mask(mask, env.action_space, where=where)
    except (ValueError, UserError) as error:
        fix = (
            "one entry per action, True where legal (MultiDiscrete: the parts joined), at least one True each"
        )
        found.error("action mask", str(error).splitlines()[0], fix)
        return None


def _guarded(found: _Findings, where: str, call: Callable[[], Any]) -> Any:
    """Return the result of the call; `_RAISED`, with the problem reported, if the env raised."""
    try:
        return call()
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever the user's env raises is reported, and the checks continue
        if isinstance(error, TypeError) and "unexpected keyword argument 'seed'" in str(error):
            found.error(where, "it does not take a seed", _RESET_FIX)
        elif isinstance(error, ValueError) and "(expected 5, got 4)" in str(error):
            _report_four_values(found)  # a Gymnasium wrapper expected five values and got four
        else:
            own_frame = error.__traceback__
            trace = traceback.format_exception(type(error), error, own_frame.tb_next if own_frame else None)
            what = f"it raised {describe_error(error)}\n{''.join(trace).rstrip()}"
            found.error(where, what, "see the traceback above")
        return _RAISED


def _report_four_values(found: _Findings) -> None:
    found.error(
        "step",
        "it returned 4 values (obs, reward, done, info): the old gym API, where time-outs look like ends",
        _STEP_FIX,
    )


# ---------------------------------------- values


def _check_value(value: Any, space: spaces.Space[Any], where: str, found: _Findings) -> None:
    """Report how `value` differs from what `space` declares."""
    match space:
        case spaces.Dict():
            if not isinstance(value, Mapping):
                found.error(
                    where, f"it is a {type(value).__name__}, but the space is a Dict", "return a dict"
                )
                return
            if set(value) != set(space.spaces):
                what = f"its keys are {sorted(value)}, the space has {sorted(space.spaces)}"
                found.error(where, what, "return exactly the keys of the space")
            for key in set(value) & set(space.spaces):
                _check_value(value[key], space[key], f"{where}[{key!r}]", found)
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            _check_array(value, space, where, found)
        case _:
            if not space.contains(value):
                found.error(where, f"{value!r} is not in {space}", f"return a value of {space}")


def _check_array(value: Any, space: spaces.Space[Any], where: str, found: _Findings) -> None:
    if not isinstance(value, np.ndarray | np.generic):
        fix = f"return np.array(..., dtype=np.{space.dtype})"
        found.error(where, f"it is a {type(value).__name__}, not a numpy array", fix)
    array = np.asarray(value)
    if array.shape != space.shape:
        found.error(
            where, f"its shape is {array.shape}, the space has {space.shape}", "make the shapes agree"
        )
        return
    if array.dtype != space.dtype and isinstance(value, np.ndarray | np.generic):
        castable = space.dtype is not None and np.can_cast(array.dtype, space.dtype, "same_kind")
        add = found.warning if castable else found.error
        add(
            where,
            f"its dtype is {array.dtype}, the space has {space.dtype}",
            f"return dtype np.{space.dtype}",
        )
    if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
        return
    if np.isnan(array).any():
        positions = np.argwhere(np.isnan(array)).tolist()[:3]
        found.error(where, f"it holds NaN at {positions}", "find the division or overflow that makes it")
        return
    if isinstance(space, spaces.Box):
        outside = np.argwhere((array < space.low) | (array > space.high))
        if len(outside):
            index = tuple(outside[0])
            low, high = space.low[index], space.high[index]
            what = f"{len(outside)} values are out of bounds, such as {array[index]} at {outside[0].tolist()}"
            found.error(
                where, f"{what}, where the space has [{low}, {high}]", "widen the space or clip the values"
            )
    elif not space.contains(array.astype(space.dtype)):
        found.error(where, f"{array} is not in {space}", f"return values of {space}")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    try:
        return np.array_equal(left, right, equal_nan=True)
    except TypeError:  # not numbers: text, objects
        return bool(np.all(left == right))
