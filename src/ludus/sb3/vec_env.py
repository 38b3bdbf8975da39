"""Ludus's envs as the VecEnv that SB3 steps: same backends, faults, seeds and barriers as the native engine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from ludus.envs.masks import mask_size
from ludus.rollout.stepper import Stepper, take
from ludus.types import Array, EpisodeRecord

_MASKS = "action_masks"


class StepperVecEnv(VecEnv):
    """A VecEnv over a stepper, which is set when there is one: to play with a policy none is needed.

    `reset` begins anew; after `next_barrier` was set, once from that barrier. Episodes that end are added to
    `episodes`. The stepper's envs must reset in the step in which an episode ends.
    """

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], n_envs: int
    ) -> None:
        self.stepper: Stepper | None = None
        self.next_barrier: int | None = None
        self.episodes: list[EpisodeRecord] = []
        self._actions: Any = None
        # copies: SB3 samples from the action space, and its wrappers change the observation space
        super().__init__(n_envs, copy.deepcopy(observation_space), copy.deepcopy(action_space))

    def reset(self) -> Any:
        stepper = self._require_stepper()
        if self.next_barrier is not None:
            stepper.barrier(self.next_barrier)
            self.next_barrier = None
        else:
            stepper.restart()
        return stepper.obs

    def step_async(self, actions: Array) -> None:
        self._actions = actions.astype(self.action_space.dtype, copy=False)  # a MultiBinary's come as floats

    def step_wait(self) -> VecEnvStepReturn:
        stepper = self._require_stepper()
        before = stepper.obs
        step = stepper.step(self._actions)
        # an env that was replaced after a fault ends its episode as if the time had run out
        dones = step.ended | ~step.valid
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(dones).tolist():
            last = step.final_obs[index] if step.valid[index] else take(before, index)
            infos[index] = {
                "terminal_observation": last,
                "TimeLimit.truncated": not step.terminated[index],
            }
        self.episodes += step.episodes
        if len(step.episodes) == step.ended.sum():  # else a wrapper cut only a part of an episode
            for index, episode in zip(np.flatnonzero(step.ended).tolist(), step.episodes, strict=True):
                infos[index]["episode"] = {"r": episode.reward, "l": episode.length}
                if episode.success is not None:
                    infos[index]["is_success"] = episode.success
        return stepper.obs, step.rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        if self.stepper is not None:
            self.stepper.envs.close()

    def action_masks(self) -> list[Array]:
        """Per env: which actions are legal; all of them where the env says nothing."""
        masks = self._require_stepper().masks
        if masks is None:
            masks = np.ones((self.num_envs, mask_size(self.action_space)), dtype=bool)
        return list(masks)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "render_mode":
            return self._chosen([None] * self.num_envs, indices)
        if attr_name == _MASKS and isinstance(self.action_space, spaces.Discrete | spaces.MultiDiscrete):
            return self._chosen([self.action_masks] * self.num_envs, indices)
        envs: Any = self._require_stepper().envs
        return self._chosen(envs.get_attr(attr_name), indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        envs: Any = self._require_stepper().envs
        envs.set_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == _MASKS:
            return self._chosen(self.action_masks(), indices)
        envs: Any = self._require_stepper().envs
        return self._chosen(envs.call(method_name, *method_args, **method_kwargs), indices)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return self._chosen([False] * self.num_envs, indices)

    def _chosen(self, values: Sequence[Any], indices: Any) -> list[Any]:
        return [values[index] for index in self._get_indices(indices)]

    def _require_stepper(self) -> Stepper:
        assert self.stepper is not None, "only a learner with a collector has envs"
        return self.stepper
