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
from ludus.rollout.step_infos import step_infos
from ludus.rollout.stepper import Stepper
from ludus.training.training_envs import TrainingEnvs
from ludus.types import Array, EpisodeRecord

_MASKS = "action_masks"


class StepperVecEnv(VecEnv):
    """A VecEnv over a stepper. Without a stepper it only has spaces, which is enough to play with a policy.

    `reset` starts new episodes; if `next_barrier` is set, from that barrier, once. Finished episodes are added to
    `episodes`. The stepper's envs must reset in the step in which an episode ends.
    """

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], n_envs: int
    ) -> None:
        self.stepper: Stepper | None = None
        self.next_barrier: int | None = None
        self.episodes: list[EpisodeRecord] = []
        self.keeps_infos = False
        """If True, `step` returns the envs' own infos; SB3 itself needs the ends of episodes only."""
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

    def step_async(self, actions: Any) -> None:
        # a list, as SB3's own accept; a MultiBinary's come as floats
        self._actions = np.asarray(actions).astype(self.action_space.dtype, copy=False)

    def step_wait(self) -> VecEnvStepReturn:
        stepper = self._require_stepper()
        step = stepper.step(self._actions)
        self.episodes += step.episodes
        # an env that was replaced after a fault ends its episode as if the time had run out
        dones = step.ended | ~step.valid
        infos = step_infos(stepper.last_step()[0], step, dones, own=self.keeps_infos)
        return stepper.obs, step.rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        if self.stepper is not None:
            self.stepper.envs.close()

    def action_masks(self) -> list[Array]:
        """Return the legal actions of each env; all actions if the env has no mask."""
        masks = self._require_stepper().masks
        if masks is None:
            masks = np.ones((self.num_envs, mask_size(self.action_space)), dtype=bool)
        return list(masks)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "render_mode":
            return self._chosen([None] * self.num_envs, indices)
        if attr_name == _MASKS and isinstance(self.action_space, spaces.Discrete | spaces.MultiDiscrete):
            return self._chosen([self.action_masks] * self.num_envs, indices)
        return self._training_envs().get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        self._training_envs().set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == _MASKS:
            return self._chosen(self.action_masks(), indices)
        return self._training_envs().env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return self._chosen([False] * self.num_envs, indices)

    def _chosen(self, values: Sequence[Any], indices: Any) -> list[Any]:
        return [values[index] for index in self._get_indices(indices)]

    def _training_envs(self) -> TrainingEnvs:
        return TrainingEnvs(self._require_stepper().envs)

    def _require_stepper(self) -> Stepper:
        assert self.stepper is not None, "only a learner with a collector has envs"
        return self.stepper
