"""Action masks: which actions are legal, in any of the three conventions for envs.

`env.action_masks()`, `info["action_mask"]`, or `obs["action_mask"]` in a Dict space. A mask is a bool array,
True where an action is legal: `n` long for Discrete(n), for MultiDiscrete the parts joined, `sum(nvec)` long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.envs.wrappers import Env, EnvironmentWrapper, StepResult
from ludus.errors import UserError
from ludus.types import Array, BoolArray

MASK_KEY = "action_mask"
_METHOD = "action_masks"


def mask_size(action_space: spaces.Space[Any]) -> int:
    """Return the size of a mask over `action_space`. Raises UserError for a space that cannot be masked."""
    return sum(_parts(action_space))


def declares_masks(env: Env) -> bool:
    """Return whether the env declares masks with a method or in its observation space."""
    space = env.observation_space
    return (isinstance(space, spaces.Dict) and MASK_KEY in space.spaces) or env.has_wrapper_attr(_METHOD)


def has_masks(env: Env) -> bool:
    """Return whether the env gives masks in any convention. Resets an env that declares none, to see its info."""
    if not isinstance(env.action_space, spaces.Discrete | spaces.MultiDiscrete):
        return False
    return declares_masks(env) or MASK_KEY in env.reset()[1]


def take_mask(obs: Any, observation_space: spaces.Space[Any]) -> tuple[Any, Any]:
    """Separate the mask from `obs`. Return the observation in `observation_space`, and the mask or None.

    Like `ActionMaskWrapper`, unwrap a Dict of one remaining key if the space is not a Dict.
    """
    if not isinstance(obs, Mapping) or MASK_KEY not in obs:
        return obs, None
    rest = {key: part for key, part in obs.items() if key != MASK_KEY}
    if isinstance(observation_space, spaces.Dict):
        return (obs, None) if MASK_KEY in observation_space.spaces else (rest, obs[MASK_KEY])
    return next(iter(rest.values())) if len(rest) == 1 else rest, obs[MASK_KEY]


def checked_mask(mask: Any, action_space: spaces.Space[Any], *, where: str) -> BoolArray:
    """Return `mask` as a flat bool array. Raises ValueError for a wrong size or if no action is legal."""
    flat = np.asarray(mask).astype(bool).reshape(-1)
    parts = _parts(action_space)
    if flat.size != sum(parts):
        raise ValueError(
            f"the action mask from {where} has {flat.size} entries, but {action_space} needs {sum(parts)}"
        )
    for index, part in enumerate(np.split(flat, np.cumsum(parts)[:-1])):
        if not part.any():
            component = f" for component {index}" if len(parts) > 1 else ""
            raise ValueError(
                f"the action mask from {where} ({flat.size} entries) leaves no legal action{component}"
            )
    return flat


def part_starts(action_space: spaces.Space[Any]) -> Array | None:
    """Return where the parts of a MultiDiscrete begin in its masks; None for a space of one part."""
    if not isinstance(action_space, spaces.MultiDiscrete):
        return None
    return np.concatenate([[0], np.cumsum(action_space.nvec.reshape(-1))[:-1]])


def first_blocked(masks: BoolArray, starts: Array | None) -> int | None:
    """Return the first row of `masks` with no legal action, or with a part that has none; None if there is no such row.

    `starts` is what `part_starts` returns.
    """
    free = masks.any(axis=1) if starts is None else np.logical_or.reduceat(masks, starts, axis=1).all(axis=1)
    return None if free.all() else int(np.argmin(free))


def sample_legal(action_space: spaces.Space[Any], mask: BoolArray | None) -> Any:
    """Return a random legal action, drawn from the action space's own generator."""
    if mask is None:
        return action_space.sample()
    split = np.split(np.asarray(mask, dtype=np.int8), np.cumsum(_parts(action_space))[:-1])
    return action_space.sample(tuple(split) if isinstance(action_space, spaces.MultiDiscrete) else split[0])


class ActionMaskWrapper(EnvironmentWrapper):
    """Convert the three conventions into one: `info["action_mask"]`, a checked bool array, at reset and step.

    In the Dict convention the mask leaves the observation and its space; if a single key `observation` or `obs`
    remains, it becomes the observation. Raises UserError if the env provides no mask.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        mask_size(env.action_space)
        self._unwrapped_key: str | None = None
        space = env.observation_space
        self._in_observation = isinstance(space, spaces.Dict) and MASK_KEY in space.spaces
        self._by_method = not self._in_observation and env.has_wrapper_attr(_METHOD)
        if isinstance(space, spaces.Dict) and self._in_observation:
            rest = {key: part for key, part in space.items() if key != MASK_KEY}
            if len(rest) == 1 and next(iter(rest)) in ("observation", "obs"):
                self._unwrapped_key = next(iter(rest))
                self.observation_space = rest[self._unwrapped_key]
            else:
                self.observation_space = spaces.Dict(rest)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(obs, info, terminal=False)

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        obs, info = self._with_mask(obs, info, terminal=terminated)
        return obs, reward, terminated, truncated, info

    def _with_mask(self, obs: Any, info: dict[str, Any], *, terminal: bool) -> tuple[Any, dict[str, Any]]:
        if self._in_observation:
            mask, where = obs[MASK_KEY], f'obs["{MASK_KEY}"]'
            obs = {key: part for key, part in obs.items() if key != MASK_KEY}
            if self._unwrapped_key is not None:
                obs = obs[self._unwrapped_key]
        elif self._by_method:
            mask, where = self.env.get_wrapper_attr(_METHOD)(), f"env.{_METHOD}()"
        elif MASK_KEY in info:
            mask, where = info[MASK_KEY], f'info["{MASK_KEY}"]'
        else:
            raise UserError(
                "the env gives no action mask",
                where=str(self.env),
                fix='implement env.action_masks(), or return info["action_mask"] or obs["action_mask"]',
            )
        if terminal and not np.any(mask):
            # no action is chosen after the end, but a masked softmax over the last observation must be finite
            mask = np.ones(mask_size(self.action_space), dtype=bool)
        return obs, {**info, MASK_KEY: checked_mask(mask, self.action_space, where=where)}


def _parts(action_space: spaces.Space[Any]) -> list[int]:
    if isinstance(action_space, spaces.Discrete):
        return [int(action_space.n)]
    if isinstance(action_space, spaces.MultiDiscrete):
        return [int(n) for n in action_space.nvec.reshape(-1)]
    raise UserError(
        f"actions of {action_space} cannot be masked",
        where="action mask",
        fix="masks work with Discrete and MultiDiscrete action spaces",
    )
