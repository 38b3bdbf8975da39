"""Wrappers of Ludus, and the base class for custom wrappers."""

from __future__ import annotations

import inspect
from collections import deque
from numbers import Real
from typing import Any, Self, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics

from ludus.errors import NONE, ConfigError, UserError, require_types
from ludus.types import Array

Env = gym.Env[Any, Any]
StepResult = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class EnvironmentWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Base of custom wrappers: override `reset(**kwargs)` and `step(action)`, and call `self.env` inside.

    Name one in a config as `wrappers: ["my_module:MyWrapper"]`, or register it with `register_wrapper`. Gymnasium can
    build the env again from `env.spec`, because the arguments of the constructor are recorded.
    """

    def __init__(self, env: Env) -> None:
        require_types(type(self).__name__, env=(env, (gym.Env,)))
        gym.Wrapper.__init__(self, env)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        wrapper = super().__new__(cls)
        RecordConstructorArgs.__init__(wrapper, _disable_deepcopy=True, **_options(wrapper, args, kwargs))
        return wrapper


def _options(wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a wrapper's constructor by name, without the env, which is the first."""
    signature = inspect.signature(type(wrapper).__init__)
    try:
        given = signature.bind(wrapper, *args, **kwargs).arguments
    except TypeError:
        return {}  # the constructor will raise it, or a copy is made, which has no arguments
    named = dict(list(given.items())[2:])
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update(named.pop(name, {}))
    return named


class RewardScalingWrapper(EnvironmentWrapper):
    """Multiplies every reward by `scale`, then clips it to [-clip, clip] when `clip` is given."""

    def __init__(self, env: Env, scale: float = 1.0, clip: float | None = None) -> None:
        super().__init__(env)
        require_types("RewardScalingWrapper", scale=(scale, (Real,)), clip=(clip, (Real, NONE)))
        if clip is not None and clip <= 0:
            raise ConfigError(f"clip must be above 0, not {clip}", where="wrapper RewardScaling")
        self.scale = scale
        self.clip = clip

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        scaled = float(reward) * self.scale
        if self.clip is not None:
            scaled = min(max(scaled, -self.clip), self.clip)
        return obs, scaled, terminated, truncated, info


class FrameSkip(EnvironmentWrapper):
    """Repeats each action `skip` times; the rewards are summed and the end of an episode stops the repetition."""

    def __init__(self, env: Env, skip: int) -> None:
        super().__init__(env)
        if skip < 1:
            raise ConfigError(f"skip must be 1 or more, not {skip}", where="wrapper FrameSkip")
        self.skip = skip

    def step(self, action: Any) -> StepResult:
        total = 0.0
        for _ in range(self.skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class FrameStack(EnvironmentWrapper):
    """Stacks the last `k` observations, the newest last; a reset fills the stack with the first one.

    Images are stacked on the channel axis: (H, W, C) becomes (H, W, C*k) and (H, W) becomes (H, W, k).
    Vectors are joined: (n,) becomes (k*n,). In a Dict space every image is stacked and all else keeps only
    its newest value. Raises ConfigError for a space in which nothing can be stacked.
    """

    def __init__(self, env: Env, k: int) -> None:
        super().__init__(env)
        if k < 1:
            raise ConfigError(f"k must be 1 or more, not {k}", where="wrapper FrameStack")
        self.k = k
        space = env.observation_space
        if isinstance(space, spaces.Dict):
            self._stacked_keys = [key for key, part in space.items() if _is_image(part)]
            parts = {key: self._stacked_space(p) if _is_image(p) else p for key, p in space.items()}
            self.observation_space = spaces.Dict(parts)
        else:
            self._stacked_keys = []
            self.observation_space = self._stacked_space(space)
        if isinstance(space, spaces.Dict) and not self._stacked_keys:
            raise ConfigError(
                "no part of the Dict observation is an image, so there is nothing to stack",
                where="frame_stack",
                fix="set frame_stack: 1, or flatten the observation with the wrapper FlattenObservation",
            )
        self._frames: dict[str, deque[Array]] = {key: deque(maxlen=k) for key in self._stacked_keys or [""]}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        obs, info = self.env.reset(seed=seed, options=options)
        for frames in self._frames.values():
            frames.clear()
        return self._push(obs), info

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._push(obs), reward, terminated, truncated, info

    def _push(self, obs: Any) -> Any:
        if not self._stacked_keys:
            return self._push_part("", obs)
        return {key: self._push_part(key, part) if key in self._frames else part for key, part in obs.items()}

    def _push_part(self, key: str, part: Array) -> Array:
        frames = self._frames[key]
        frame = np.array(part)  # a copy: the env may reuse its buffer
        if frame.ndim == 2:
            frame = frame[..., None]
        frames.extend([frame] * (1 if frames else self.k))
        return np.concatenate(frames, axis=-1)

    def _stacked_space(self, space: spaces.Space[Any]) -> spaces.Box:
        if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2, 3):
            raise ConfigError(
                f"frames of the observation space {space} cannot be stacked",
                where="frame_stack",
                fix="frame_stack works on vectors, on images (H, W) or (H, W, C), and on Dicts of them",
            )
        low, high = (b[..., None] if b.ndim == 2 else b for b in (space.low, space.high))
        return spaces.Box(
            np.concatenate([low] * self.k, axis=-1),
            np.concatenate([high] * self.k, axis=-1),
            dtype=space.dtype.type,
        )


def _is_image(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) in (2, 3)


class ClipAction(gym.ActionWrapper[Any, Any, Any], RecordConstructorArgs):
    """Clips Box actions to their bounds, and keeps declaring those bounds (gymnasium's own declares ±inf)."""

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        if not isinstance(env.action_space, spaces.Box):
            raise ConfigError(
                f"actions of {env.action_space} cannot be clipped; only Box actions can",
                where="wrapper ClipAction",
                fix="remove the wrapper",
            )
        self._low, self._high = env.action_space.low, env.action_space.high

    def action(self, action: Any) -> Any:
        return np.clip(action, self._low, self._high)


class EpisodeReport(EnvironmentWrapper):
    """Puts the raw episode into `info["episode"]` also when a wrapper, not the env, ended it.

    It is read from the innermost RecordEpisodeStatistics; UserError without one. Ends marked `info["life_lost"]` are
    not ends of the episode, and stay unreported.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        recorder = find_recorder(env)
        if recorder is None:
            raise UserError(
                "no wrapper records the episodes", where=str(env), fix="wrap it in RecordEpisodeStatistics"
            )
        self._recorder = recorder

    def so_far(self) -> tuple[float, int]:
        """Return reward and length of the raw episode up to now."""
        return float(self._recorder.episode_returns), int(self._recorder.episode_lengths)

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if (terminated or truncated) and "episode" not in info and not info.get("life_lost"):
            info["episode"] = {
                "r": self._recorder.episode_returns,
                "l": self._recorder.episode_lengths,
            }
        return obs, reward, terminated, truncated, info


def find_recorder(env: Env) -> RecordEpisodeStatistics[Any, Any] | None:
    """Return the innermost RecordEpisodeStatistics around an env, None without one."""
    found = None
    while isinstance(env, gym.Wrapper):
        if isinstance(env, RecordEpisodeStatistics):
            found = env
        env = env.env
    return found


def mujoco_preset(env: Env) -> Env:
    """The `mujoco` wrapper: Dict observations flattened, actions clipped. Normalisation is the trainer's."""
    if isinstance(env.observation_space, spaces.Dict | spaces.Tuple):
        env = FlattenObservation(env)
    return ClipAction(env)
