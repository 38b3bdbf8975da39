"""A pytest plugin that puts the VecEnv of `engine: sb3` in the place of DummyVecEnv, in Stable-Baselines3's own tests.

`pytest -p sb3_plugin --outcomes FILE tests/test_save_load.py`. Tests that build no vector env are left out.
"""

from __future__ import annotations

from typing import Any

import pytest
import stable_baselines3.common.base_class
import stable_baselines3.common.env_util
import stable_baselines3.common.vec_env
from outcomes import Outcomes, begin

from ludus.envs.vector.serial import SerialVectorEnv
from ludus.rollout.stepper import Stepper
from ludus.sb3.vec_env import StepperVecEnv


class InPlace(StepperVecEnv):
    """VecEnv that `engine: sb3` trains on: Ludus's serial backend, through its stepper."""

    def __init__(self, env_fns: Any) -> None:
        begin({})
        serial = SerialVectorEnv(env_fns)
        super().__init__(serial.single_observation_space, serial.single_action_space, len(env_fns))
        self.envs = serial.envs
        self.stepper = Stepper(serial, lambda barrier, index: 1000 * barrier + index, rebuild=False)

    def reset(self) -> Any:
        if any(seed is not None for seed in self._seeds):
            self._require_stepper().restart(list(self._seeds))  # type: ignore[arg-type]  # all or none
            self._reset_seeds()
            return self._require_stepper().obs
        return super().reset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes")


def pytest_configure(config: pytest.Config) -> None:
    common = stable_baselines3.common
    for place in (common.vec_env, common.vec_env.dummy_vec_env, common.base_class, common.env_util):
        place.DummyVecEnv = InPlace  # type: ignore[misc, assignment]
    config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))
