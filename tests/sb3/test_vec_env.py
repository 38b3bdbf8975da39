"""The VecEnv of `engine: sb3` behaves as SB3's own, and SB3's checker accepts the envs that Ludus brings."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

from ludus.envs.make import EnvSpec, make_env
from ludus.envs.vector.serial import SerialVectorEnv
from ludus.rollout.stepper import Stepper
from ludus.sb3.vec_env import StepperVecEnv


def test_actions_may_be_a_list_as_in_sb3s_own() -> None:
    serial = SerialVectorEnv([partial(gym.make, "CartPole-v1")] * 2)
    envs = StepperVecEnv(serial.single_observation_space, serial.single_action_space, 2)
    envs.stepper = Stepper(serial, lambda barrier, index: index)
    envs.reset()
    obs, rewards, dones, infos = envs.step([envs.action_space.sample() for _ in range(2)])
    assert obs.shape == (2, 4) and rewards.tolist() == [1.0, 1.0] and not np.any(dones) and infos == [{}, {}]
    envs.close()


@pytest.mark.parametrize(
    "spec",
    [EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"}), EnvSpec("CartPole-v1", frame_stack=2)],
    ids=lambda spec: spec.id,
)
def test_sb3s_checker_accepts_the_env(spec: EnvSpec) -> None:
    check_env(make_env(spec), skip_render_check=True)
