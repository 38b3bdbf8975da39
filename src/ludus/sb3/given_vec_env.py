"""A VecEnv of Stable-Baselines3 that a user trains on, as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ludus.envs.vector.contract import MakesSingleEnv, StepResult
from ludus.errors import UserError
from ludus.types import Observation


def as_vector_env(env: Any) -> VectorEnv[Any, Any, Any] | None:
    """Return `env` as a vector env if it is a VecEnv; None for anything else. UserError for a VecNormalize."""
    if "stable_baselines3" not in sys.modules:
        return None  # SB3 is not imported: `env` cannot be a VecEnv
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_wrapper

    if not isinstance(env, VecEnv):
        return None
    if unwrap_vec_wrapper(env, VecNormalize) is not None:
        raise UserError(
            "VecNormalize keeps statistics that no checkpoint could save",
            where="create_trainer(env, …)",
            fix="give the VecEnv inside it; normalize_obs and normalize_reward do the same",
        )
    return GivenVecEnv(env)


class GivenVecEnv(VectorEnv[Any, Any, Any], MakesSingleEnv):
    """Steps `vec_env`, which resets an env in the step in which its episode ends."""

    def __init__(self, vec_env: Any) -> None:
        self.vec_env = vec_env
        self.num_envs = vec_env.num_envs
        self.single_observation_space = vec_env.observation_space
        self.single_action_space = vec_env.action_space
        self.observation_space = batch_space(vec_env.observation_space, self.num_envs)
        self.action_space = batch_space(vec_env.action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._has_masks = bool(vec_env.has_attr("action_masks"))

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every env. Of several seeds the first counts: a VecEnv gives env i the seed s + i."""
        if seed is not None:
            self.vec_env.seed(int(seed) if isinstance(seed, int) else int(seed[0]) % 2**31)
        obs = self.vec_env.reset()
        infos: dict[str, Any] = {}
        for index, info in enumerate(getattr(self.vec_env, "reset_infos", [])):
            infos = self._add_info(infos, info, index)
        return obs, self._with_masks(infos)

    def step(self, actions: Any) -> StepResult:
        obs, rewards, dones, given = self.vec_env.step(actions)
        truncated = np.array([bool(info.get("TimeLimit.truncated")) for info in given]) & dones
        infos: dict[str, Any] = {}
        for index, info in enumerate(given):
            if dones[index]:
                last = {key: value for key, value in info.items() if key != "terminal_observation"}
                ending = {"final_obs": info["terminal_observation"], "final_info": last}
                infos = self._add_info(infos, ending, index)
            else:
                infos = self._add_info(infos, info, index)
        terminated = np.asarray(dones, dtype=bool) & ~truncated
        return obs, np.asarray(rewards, dtype=np.float64), terminated, truncated, self._with_masks(infos)

    def _with_masks(self, infos: dict[str, Any]) -> dict[str, Any]:
        if self._has_masks:
            infos["action_mask"] = np.stack(self.vec_env.env_method("action_masks")).astype(bool)
            infos["_action_mask"] = np.ones(self.num_envs, dtype=bool)
        return infos

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each env."""
        return tuple(self.vec_env.get_attr(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute: a list or tuple has one value per env."""
        given = values if isinstance(values, list | tuple) else [values] * self.num_envs
        for index, value in enumerate(given):
            self.vec_env.set_attr(name, value, index)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each env."""
        return tuple(self.vec_env.env_method(name, *args, **kwargs))

    def single_factory(self) -> Callable[[], gym.Env[Any, Any]] | None:
        """Return a function that copies the first env, if it is in this process and has the VecEnv's spaces."""
        from stable_baselines3.common.vec_env import DummyVecEnv

        if not isinstance(self.vec_env, DummyVecEnv):
            return None
        first = self.vec_env.envs[0]
        try:
            copy.deepcopy(first)
        except Exception:  # an env's parts may raise anything
            return None
        return lambda: copy.deepcopy(first)

    def close_extras(self, **kwargs: Any) -> None:
        self.vec_env.close()
