"""The training envs as callbacks of Stable-Baselines3 know them: `get_attr`, `set_attr` and `env_method`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from ludus.envs.vector.contract import CallsSomeEnvs
from ludus.errors import UserError

Indices = int | Iterable[int] | None


class TrainingEnvs:
    """A view of the vector env that training steps, with the names of Stable-Baselines3's `VecEnv`.

    `observation_space` and `action_space` are those of one env. Every other attribute is the vector env's own.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        self.envs = envs
        self.num_envs: int = envs.num_envs
        self.observation_space: gym.Space[Any] = envs.single_observation_space
        self.action_space: gym.Space[Any] = envs.single_action_space

    def __getattr__(self, name: str) -> Any:
        return getattr(self.envs, name)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of each env, or of those in `indices`. A method is called, as in Gymnasium."""
        values = self._required("get_attr")(attr_name)
        return [values[index] for index in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of each env, or of those in `indices`, to `value`."""
        if indices is None:
            self._required("set_attr")(attr_name, [value] * self.num_envs)
        else:
            self.env_method("set_wrapper_attr", attr_name, value, indices=indices)

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """Call a method of each env, or of those in `indices`; return the results."""
        if indices is None:
            return list(self._required("call")(method_name, *args, **kwargs))
        if not isinstance(self.envs, CallsSomeEnvs):
            raise self._no_env_objects("env_method(…, indices=…)")
        return self.envs.call_some(self._chosen(indices), method_name, *args, **kwargs)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Return False for each env: Ludus keeps the statistics of episodes itself, without a `Monitor`."""
        return [False for _ in self._chosen(indices)]

    def _chosen(self, indices: Indices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)

    def _required(self, method: str) -> Any:
        found = getattr(self.envs, method, None)  # Gymnasium declares it for some of its vector envs only
        if found is None:
            raise self._no_env_objects(method)
        return found

    def _no_env_objects(self, method: str) -> UserError:
        return UserError(
            f"{type(self.envs).__name__} has no single env objects to ask",
            where=f"training_env.{method}",
            fix="train with vector: serial or vector: process",
        )
