"""Values that `device: auto` and `precision: auto` resolve to."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.config.schema import TrainerConfig
from ludus.training.resolve import choose_device, choose_precision

VECTOR = gym.spaces.Box(-1, 1, (24,))
IMAGE = gym.spaces.Box(0, 255, (84, 84, 4), np.uint8)


def chosen(
    algorithm: str = "PPO", space: gym.Space[Any] = VECTOR, n_envs: int = 8, **hyperparams: Any
) -> str:
    config = TrainerConfig(algorithm=algorithm, env="CartPole-v1", n_envs=n_envs, hyperparams=hyperparams)
    return choose_device(config, space)


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.usefixtures("_gpu")
def test_a_gpu_gets_what_keeps_it_busy() -> None:
    small = {"policy_net_arch": [64, 64], "value_net_arch": [64, 64]}
    assert chosen(batch_size=64, **small) == "cpu"
    assert chosen("DQN", batch_size=32, **small) == "cpu"
    assert chosen(n_envs=1024, n_steps=128, batch_size=16_384, **small) == "cuda"
    assert chosen("SAC", batch_size=256, policy_net_arch=[256, 256], value_net_arch=[256, 256]) == "cuda"
    assert chosen(space=IMAGE, batch_size=64, **small) == "cuda"
    assert chosen(space=gym.spaces.Dict({"a": VECTOR}), batch_size=64, **small) == "cuda"


def test_without_a_gpu_it_is_the_cpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert chosen(space=IMAGE) == "cpu"


def test_precision_follows_the_device_and_what_is_seen() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert choose_precision("auto", cpu, IMAGE) == "float32"
    assert choose_precision("auto", gpu, VECTOR) == "tf32"
    assert choose_precision("auto", gpu, IMAGE) == "bfloat16"
    assert choose_precision("auto", gpu, gym.spaces.Dict({"a": VECTOR, "b": IMAGE})) == "bfloat16"
    assert choose_precision("float32", gpu, IMAGE) == "float32"
