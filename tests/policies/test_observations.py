"""Observations reach the network in the right dtype, and normalisation follows VecNormalize's formulas."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.errors import UserError
from ludus.policies.observations import (
    ObservationNormalizer,
    RewardNormalizer,
    check_observation,
    is_byte_space,
    is_image_space,
    normalizable,
    to_tensor,
)

IMAGE = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
VECTOR = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
MIXED = gym.spaces.Dict({"camera": IMAGE, "speed.x": VECTOR, "type": gym.spaces.Discrete(3)})


def test_to_tensor_changes_the_dtype_of_floats_only() -> None:
    obs = {
        "float64": np.ones((2, 3)),
        "uint8": np.ones((2, 3), np.uint8),
        "int64": np.ones(2, np.int64),
        "int8": np.ones((2, 3), np.int8),
        "bool": np.ones((2, 3), np.bool_),
    }
    tensors = to_tensor(obs, "cpu")
    assert isinstance(tensors, dict)
    assert [tensors[key].dtype for key in obs] == [
        torch.float32,
        torch.uint8,
        torch.int64,
        torch.int64,
        torch.bool,
    ]


@pytest.mark.filterwarnings("error")
def test_read_only_and_reversed_arrays_become_tensors() -> None:
    locked = np.arange(3, dtype=np.float32)
    locked.flags.writeable = False
    assert torch.equal(torch.tensor([0.0, 1.0, 2.0]), to_tensor(locked, "cpu"))
    assert torch.equal(torch.tensor([2.0, 1.0, 0.0]), to_tensor(locked[::-1], "cpu"))


def test_images_are_three_dimensional_full_range_bytes() -> None:
    assert is_image_space(IMAGE)
    assert not is_image_space(VECTOR)
    assert not is_image_space(gym.spaces.Box(0, 1, (84, 84, 3), np.uint8))
    ram = gym.spaces.Box(0, 255, (128,), np.uint8)
    assert is_byte_space(ram)
    assert not is_image_space(ram)


def test_float_boxes_and_nothing_else_are_normalisable() -> None:
    assert normalizable(VECTOR) == [""]
    assert normalizable(MIXED) == ["speed.x"]
    assert normalizable(IMAGE) == []
    assert normalizable(gym.spaces.Discrete(3)) == []


def test_statistics_of_batches_are_those_of_all_data_together() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal([3.0, -1.0], [2.0, 0.1], (1000, 2))
    normalizer = ObservationNormalizer(VECTOR)
    for batch in np.split(data, [1, 10, 400]):
        normalizer.update(batch)
    # The prior: weight 1e-4 at mean 0 with variance 1.
    total = 1000 + 1e-4
    mean = data.sum(0) / total
    var = (1e-4 * (1.0 + mean**2) + ((data - mean) ** 2).sum(0)) / total
    state = normalizer.state_dict()
    np.testing.assert_allclose(state["moments.obs.mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(state["moments.obs.var"], var, rtol=1e-12)
    assert state["moments.obs.count"].item() == total
    assert all(buffer.dtype == torch.float64 for buffer in state.values())


def test_normalisation_by_hand() -> None:
    normalizer = ObservationNormalizer(VECTOR, clip=2.0, epsilon=0.0)
    normalizer.load_state_dict(
        {
            "moments.obs.mean": torch.tensor([1.0, 2.0], dtype=torch.float64),
            "moments.obs.var": torch.tensor([4.0, 0.25], dtype=torch.float64),
            "moments.obs.count": torch.tensor(7.0, dtype=torch.float64),
        }
    )
    obs = np.array([[2.0, 2.25], [-99.0, 99.0]], np.float32)
    scaled = normalizer.normalize(obs)
    assert isinstance(scaled, np.ndarray)
    np.testing.assert_array_equal(scaled, np.array([[0.5, 0.5], [-2.0, 2.0]], np.float32))
    assert scaled.dtype == np.float32
    assert obs[1, 0] == -99.0


def test_other_keys_of_a_dict_pass_untouched() -> None:
    normalizer = ObservationNormalizer(MIXED)
    obs = {"camera": np.ones((4, 84, 84, 3), np.uint8), "speed.x": np.ones((4, 2)), "type": np.arange(4) % 3}
    normalizer.update(obs)
    scaled = normalizer.normalize(obs)
    assert isinstance(scaled, dict)
    assert list(scaled) == list(obs)
    assert scaled["camera"] is obs["camera"]
    assert scaled["type"] is obs["type"]
    assert scaled["speed.x"].dtype == np.float32


def test_statistics_survive_a_move_a_cast_a_copy_and_a_reload() -> None:
    normalizer = ObservationNormalizer(VECTOR)
    normalizer.update(np.array([[1.0, 2.0], [3.0, 8.0]]))
    normalizer.to("meta").half()
    twin = copy.deepcopy(normalizer)
    reloaded = ObservationNormalizer(VECTOR)
    reloaded.load_state_dict(normalizer.state_dict())
    for other in (twin, reloaded):
        other.update(np.array([[0.0, 0.0]]))
    normalizer.update(np.array([[0.0, 0.0]]))
    obs = np.array([[1.5, -2.5]], np.float32)
    for other in (twin, reloaded):
        np.testing.assert_array_equal(other.normalize(obs), normalizer.normalize(obs))
    assert normalizer.state_dict()["moments.obs.mean"].device.type == "cpu"


def test_reward_scaling_follows_vec_normalize() -> None:
    normalizer = RewardNormalizer(2, gamma=0.5, clip=10.0, epsilon=1e-8)
    normalizer.update(np.array([1.0, 3.0]), np.array([False, True]))
    # Returns (1, 3): mean 2, variance 1, merged with the prior of weight 1e-4.
    count = 2 + 1e-4
    mean = 2.0 * 2 / count
    var = (1.0 * 1e-4 + 1.0 * 2 + 2.0**2 * 1e-4 * 2 / count) / count
    np.testing.assert_allclose(normalizer.scale(np.array([1.0, -2.0])), np.array([1.0, -2.0]) / var**0.5)
    # Second step: returns (1 * 0.5 + 2, 0 + 4), the done env having started again.
    normalizer.update(np.array([2.0, 4.0]), np.array([False, False]))
    np.testing.assert_allclose(normalizer.returns, [2.5, 4.0])
    batch_mean, batch_var, delta = 3.25, 0.5625, 3.25 - mean
    var = (var * count + batch_var * 2 + delta**2 * count * 2 / (count + 2)) / (count + 2)
    np.testing.assert_allclose(normalizer.scale(np.array([1.0])), [1.0 / (var + 1e-8) ** 0.5], rtol=1e-6)
    assert batch_mean == np.mean(normalizer.returns)


def test_scaled_rewards_are_clipped() -> None:
    normalizer = RewardNormalizer(1, clip=5.0)
    assert normalizer.scale(np.array([100.0, -100.0])).tolist() == [5.0, -5.0]


def test_resumed_reward_normaliser_continues_exactly() -> None:
    rng = np.random.default_rng(1)
    first, second = RewardNormalizer(3), RewardNormalizer(3)
    for _ in range(5):
        first.update(rng.normal(size=3), rng.random(3) < 0.3)
    second.load_state_dict(first.state_dict())
    rewards, dones = rng.normal(size=3), np.array([False, True, False])
    for normalizer in (first, second):
        normalizer.update(rewards, dones)
    np.testing.assert_array_equal(first.scale(rewards), second.scale(rewards))
    np.testing.assert_array_equal(first.returns, second.returns)
    first.reset_returns()
    assert not first.returns.any()
    assert second.returns.any()


def test_single_observations_are_distinguished_from_batches() -> None:
    space = gym.spaces.Box(-1, 1, (4,), np.float32)
    assert check_observation(space, np.zeros(4)) and check_observation(space, [0, 0, 0, 0])
    assert not check_observation(space, np.zeros((3, 4), np.float32))
    both = gym.spaces.Dict({"a": space, "b": gym.spaces.Discrete(3)})
    assert check_observation(both, {"a": np.zeros(4), "b": 1})
    assert not check_observation(both, {"a": np.zeros((2, 4)), "b": np.array([1, 2]), "action_mask": 0})


@pytest.mark.parametrize(
    ("obs", "what"),
    [
        (np.zeros(3), r"the observation has shape \(3,\); expected \(4,\)"),
        (np.float32(0.5), r"has shape \(\); expected \(4,\)"),
        (np.zeros((2, 1)), r"has shape \(2, 1\); expected \(4,\)"),
        (np.zeros((1, 1, 4)), r"has shape \(1, 1, 4\)"),
        (["a", "b", "c", "d"], "is of type <U1; expected numbers"),
        ([[1, 2, 3, 4], [1]], "is not an array"),
        (np.array([0, np.nan, 0, 0]), r"has nan at \[1\]"),
        (np.array([[0, 0, 0, 0], [0, 0, 0, np.inf]]), r"has inf at \[1, 3\]"),
    ],
)
def test_invalid_observation_raises_with_the_expected_shape(obs: Any, what: str) -> None:
    with pytest.raises(UserError, match=what) as caught:
        check_observation(gym.spaces.Box(-1, 1, (4,), np.float32), obs)
    assert caught.value.where == "predict(obs)" and caught.value.fix


def test_a_dict_observation_names_the_part_that_is_wrong() -> None:
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (4,), np.float32), "b": gym.spaces.Discrete(3)})
    with pytest.raises(UserError, match=r"the observation has no 'b'; expected the keys \['a', 'b'\]"):
        check_observation(space, {"a": np.zeros(4)})
    with pytest.raises(UserError, match="the observation has no 'a'"):
        check_observation(space, np.zeros(4))
    with pytest.raises(UserError, match=r"observation\['a'\] has shape \(2,\)"):
        check_observation(space, {"a": np.zeros(2), "b": 1})
    with pytest.raises(UserError, match="some parts are one observation, others a batch"):
        check_observation(space, {"a": np.zeros((2, 4)), "b": 1})
