"""A learner that is saved and loaded continues with the same bytes, for every algorithm and kind of space."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import OBS, learner, rollout, same_bytes, transitions, weights_of
from safetensors.torch import load, save

from ludus.policies.observations import RewardNormalizer

DICT = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,), np.float32), "b": spaces.Discrete(3)})
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
MANY = spaces.MultiDiscrete([2, 3])
BITS = spaces.MultiBinary(3)
SMALL_CNN = {"policy": {"features_dim": 4}}
PPO = {"n_steps": 8, "batch_size": 4, "n_epochs": 2}
LATE = {"learning_starts": 0, "batch_size": 8, "gradient_steps": 2}

CASES: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "PPO, discrete": ("PPO", OBS, spaces.Discrete(3), PPO),
    "PPO, multi-discrete": ("PPO", OBS, MANY, PPO),
    "PPO, multi-binary": ("PPO", OBS, BITS, PPO),
    "PPO, box": ("PPO", OBS, BOX, PPO),
    "PPO, dict": ("PPO", DICT, spaces.Discrete(3), PPO | {"normalize_obs": True}),
    "PPO, images": ("PPO", IMAGE, spaces.Discrete(3), PPO | SMALL_CNN),
    "PPO, shared net": ("PPO", OBS, BOX, PPO | {"policy": {"share_net": True}}),
    "A2C, discrete": ("A2C", OBS, spaces.Discrete(3), {}),
    "A2C, Adam": ("A2C", OBS, spaces.Discrete(3), {"use_rms_prop": False}),
    "A2C, multi-discrete": ("A2C", OBS, MANY, {}),
    "A2C, multi-binary": ("A2C", OBS, BITS, {}),
    "A2C, box": ("A2C", OBS, BOX, {}),
    "A2C, dict": ("A2C", DICT, spaces.Discrete(3), {}),
    "A2C, images": ("A2C", IMAGE, spaces.Discrete(3), SMALL_CNN),
    "DQN": ("DQN", OBS, spaces.Discrete(3), LATE | {"target_update_interval": 20}),
    "DQN, double, dueling": ("DQN", OBS, spaces.Discrete(3), LATE | {"double": True, "dueling": True}),
    "DQN, dict": ("DQN", DICT, spaces.Discrete(3), LATE | {"normalize_obs": True}),
    "DQN, images": ("DQN", IMAGE, spaces.Discrete(3), LATE | SMALL_CNN),
    "SAC": ("SAC", OBS, BOX, LATE | {"target_update_interval": 3}),
    "SAC, dict": ("SAC", DICT, BOX, LATE | {"normalize_obs": True}),
    "SAC, images": ("SAC", IMAGE, BOX, LATE | SMALL_CNN),
}


def experience(made: Any, algorithm: str, number: int) -> Any:
    if algorithm in ("PPO", "A2C"):
        return rollout(made, number)
    masks = np.random.default_rng(number).random((16, 3)) < 0.7 if algorithm == "DQN" else None
    return transitions(made, number, next_masks=masks)


def everything(made: Any) -> dict[str, torch.Tensor]:
    return {f"policy.{n}": t for n, t in weights_of(made.policy).items()} | {
        f"learner.{n}": t.clone() for n, t in made.tensors().items()
    }


@pytest.mark.parametrize("name", list(CASES))
def test_a_reloaded_learner_makes_the_same_next_updates(name: str) -> None:
    algorithm, observation_space, action_space, settings = CASES[name]
    made = learner(algorithm, observation_space, action_space, **settings)
    for number in range(2):
        made.update(experience(made, algorithm, number), 0.1 * number)

    policy_file = save(weights_of(made.policy))
    learner_file = save({n: t.contiguous() for n, t in made.tensors().items()})
    values = json.loads(json.dumps(made.values()))
    plain, tensors = made.context.streams.state_dict()
    plain, streams_file = json.loads(json.dumps(plain)), save(tensors)

    other = learner(algorithm, observation_space, action_space, weights=99, **settings)
    other.update(
        experience(other, algorithm, 50), 0.9
    )  # it has a past of its own, which must not shine through
    other.policy.load_state_dict(load(policy_file))
    other.load(load(learner_file), values)
    other.context.streams.load_state_dict(plain, load(streams_file))
    assert same_bytes(everything(made), everything(other))

    for number in range(2, 5):
        ahead = experience(made, algorithm, number)
        first, second = made.update(ahead, 0.1 * number), other.update(ahead, 0.1 * number)
        assert first == second
        assert all(np.isfinite(value) for value in first.values())
    assert same_bytes(everything(made), everything(other))
    assert made.values() == other.values()
    assert not same_bytes(weights_of(made.policy), load(policy_file))


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
def test_replayed_rewards_are_scaled_by_the_collectors_statistics(algorithm: str) -> None:
    normalizer = RewardNormalizer(2)
    for reward in (1000.0, -1000.0, 500.0):
        normalizer.update(np.array([reward, -reward]), np.array([True, True]))
    plain = learner(algorithm, **LATE)
    scaled = learner(algorithm, reward_normalizer=normalizer, **LATE)
    t = transitions(plain)
    small = transitions(plain, rewards=normalizer.scale(t.rewards).astype(np.float64))
    scaled.update(t, 0.0)
    plain.update(small, 0.0)
    for name, weight in weights_of(plain.policy).items():
        torch.testing.assert_close(weights_of(scaled.policy)[name], weight, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
def test_a_warm_start_takes_the_weights_and_nothing_else(algorithm: str) -> None:
    teacher, pupil = learner(algorithm), learner(algorithm, weights=5)
    pupil.warm_start(weights_of(teacher.policy))
    assert same_bytes(weights_of(pupil.policy), weights_of(teacher.policy))
    if algorithm == "DQN":
        assert same_bytes(weights_of(pupil.target), weights_of(teacher.policy))
    if algorithm == "SAC":
        assert same_bytes(weights_of(pupil.target), weights_of(teacher.policy.critic))
    assert not any("optimizer." in name for name in pupil.tensors())
