"""The compiled running normalisation is the one of `policies/observations.py`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ludus.algorithms.backends.numba.rollouts import normalize_observations, normalize_rewards
from ludus.policies.observations import ObservationNormalizer, RewardNormalizer


@pytest.mark.parametrize("shape", [(3,), (), (2, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_are_seen_as_by_the_reference(shape: tuple[int, ...], dtype: Any) -> None:
    space = gym.spaces.Box(-np.inf, np.inf, shape, dtype)
    plain, fast = ObservationNormalizer(space), ObservationNormalizer(space)
    fast.kernel = normalize_observations
    rng = np.random.default_rng(1)
    for step in range(50):
        batch = (rng.normal(size=(6, *shape)) * 10 ** (step % 4) + 5).astype(dtype)
        before = batch.copy()
        one, other = plain.update_and_normalize(batch), fast.update_and_normalize(batch)
        assert isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        assert one.dtype == other.dtype == np.float32 and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(batch, before)
    for name, buffer in plain.named_buffers():
        np.testing.assert_allclose(buffer.numpy(), fast.get_buffer(name).numpy(), rtol=1e-9)


def test_an_extreme_observation_is_clipped() -> None:
    fast = ObservationNormalizer(gym.spaces.Box(-np.inf, np.inf, (1,)))
    fast.kernel = normalize_observations
    for _ in range(100):
        fast.update_and_normalize(np.array([[0.0], [1.0]], dtype=np.float32))
    seen = fast.update_and_normalize(np.array([[1e6], [0.5]], dtype=np.float32))
    assert isinstance(seen, np.ndarray)
    assert seen[0, 0] == 10.0


def test_dict_observations_keep_to_the_reference() -> None:
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Discrete(3)})
    fast = ObservationNormalizer(space)
    fast.kernel = normalize_observations
    seen = fast.update_and_normalize({"a": np.ones((4, 2), dtype=np.float32), "b": np.arange(4) % 3})
    assert isinstance(seen, dict)
    np.testing.assert_array_equal(seen["b"], np.arange(4) % 3)


def test_rewards_are_seen_as_by_the_reference() -> None:
    plain, fast = RewardNormalizer(5, gamma=0.9), RewardNormalizer(5, gamma=0.9)
    fast.kernel = normalize_rewards
    rng = np.random.default_rng(2)
    for step in range(100):
        rewards = rng.normal(size=5) * 3 + 1
        ended, valid = rng.random(5) < 0.1, rng.random(5) < 0.9
        if step == 50:
            valid[:] = False
        np.testing.assert_allclose(
            plain.update_and_scale(rewards, ended, valid),
            fast.update_and_scale(rewards, ended, valid),
            rtol=1e-6,
        )
    one, other = plain.state_dict(), fast.state_dict()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9)
