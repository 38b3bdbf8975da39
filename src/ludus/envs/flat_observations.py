"""Tuple and nested Dict observations as one flat Dict, which networks read.

The parts are named by their path: `"0"`, `"1"` for the parts of a Tuple, `"arm.angle"` for the angle in the Dict `arm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from ludus.envs.wrappers import Env, EnvironmentWrapper
from ludus.errors import UserError

SEPARATOR = "."


def is_nested(space: gym.Space[Any]) -> bool:
    """Return True for a Tuple, and for a Dict with a Tuple or Dict inside."""
    if isinstance(space, spaces.Dict):
        return any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space.values())
    return isinstance(space, spaces.Tuple)


def flat_space(space: gym.Space[Any]) -> spaces.Dict:
    """Return a nested space as a flat Dict. UserError if two parts get the same name."""
    parts: dict[str, gym.Space[Any]] = {}
    for name, part in _leaves(space, ""):
        if name in parts:
            raise UserError(
                f"two parts of the observation are called '{name}'",
                where="observation_space",
                fix=f"rename a key: '{SEPARATOR}' joins the keys of nested Dicts",
            )
        parts[name] = part
    return spaces.Dict(parts)


def flat_observation(obs: Any, space: gym.Space[Any]) -> Any:
    """Return a nested observation, or a batch, as the flat Dict `space` has it; any other as it is."""
    if not isinstance(space, spaces.Dict) or not isinstance(obs, Mapping | tuple):
        return obs
    if isinstance(obs, Mapping) and all(key in obs for key in space.spaces):
        return obs
    return dict(_values(obs, "", space))


class FlatDictObservation(EnvironmentWrapper):
    """Give a Tuple or nested Dict observation as a flat Dict."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = flat_space(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        obs, info = self.env.reset(seed=seed, options=options)
        return flat_observation(obs, self.observation_space), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return flat_observation(obs, self.observation_space), reward, terminated, truncated, info


def _leaves(space: gym.Space[Any], prefix: str) -> Iterator[tuple[str, gym.Space[Any]]]:
    for key, part in _items(space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else {}):
        if isinstance(part, spaces.Dict | spaces.Tuple):
            yield from _leaves(part, f"{prefix}{key}{SEPARATOR}")
        else:
            yield f"{prefix}{key}", part


def _values(obs: Any, prefix: str, space: spaces.Dict) -> Iterator[tuple[str, Any]]:
    for key, part in _items(obs):
        name = f"{prefix}{key}"
        if name not in space.spaces and isinstance(part, Mapping | tuple):
            yield from _values(part, f"{name}{SEPARATOR}", space)
        else:
            yield name, part


def _items(parts: Any) -> Iterator[tuple[str, Any]]:
    named = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
    return ((str(key), part) for key, part in named)
