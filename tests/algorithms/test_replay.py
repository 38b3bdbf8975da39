"""The replay buffer keeps the newest transitions whole, raw and in order, and draws from them evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner, same_bytes, transitions

from ludus.algorithms.replay import ReplayBatch, ReplayBuffer
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.experience import Transitions

LINE = spaces.Box(-1e6, 1e6, (1,), np.float32)


def numbered(first: int, count: int, **fields: Any) -> Transitions:
    """Transitions in which every field contains the number of the transition."""
    n = np.arange(first, first + count)
    return Transitions(
        **{
            "steps": count,
            "episodes": [],
            "obs": n[:, None].astype(np.float64),
            "actions": n % 3,
            "rewards": 10.0 * n,
            "next_obs": (n + 1)[:, None].astype(np.float64),
            "terminated": n % 2 == 0,
            "masks": None,
            "next_masks": None,
            **fields,
        }
    )


def drawn(buffer: ReplayBuffer, n: int = 4000, **kwargs: Any) -> ReplayBatch:
    policy = learner("DQN", LINE).policy
    return buffer.sample(n, np.random.default_rng(0), policy, kwargs.get("reward_normalizer"))


def test_the_newest_transitions_stay_and_all_their_fields_belong_together() -> None:
    buffer = ReplayBuffer(7)
    number = 0
    for count in (3, 1, 5, 2, 7, 4, 0, 6):  # over the edge at every offset, in the middle and exactly
        buffer.add(numbered(number, count))
        number += count
        held = range(max(0, number - 7), number)
        assert buffer.size == len(held)
        batch = drawn(buffer, 300)
        numbers = batch.obs[:, 0]
        assert set(numbers.tolist()) == set(held)
        assert torch.equal(batch.actions, (numbers % 3).long())
        assert torch.equal(batch.rewards, 10 * numbers)
        assert torch.equal(batch.next_obs[:, 0], numbers + 1)
        assert torch.equal(batch.terminated, numbers % 2 == 0)
        assert batch.next_masks is None


def test_draws_are_even_before_the_buffer_is_full_and_after() -> None:
    buffer = ReplayBuffer(10)
    for first, held in ((0, range(4)), (4, range(2, 12))):
        buffer.add(numbered(first, 4 if first == 0 else 8))
        counts = np.bincount(drawn(buffer, 8000).obs[:, 0].long().numpy(), minlength=12)[list(held)]
        assert counts.sum() == 8000
        expected = 8000 / len(held)
        np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(expected))


def test_dict_observations_and_masks_come_back_as_they_went_in() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2), np.uint8), "place": spaces.Discrete(50)})
    dqn = learner("DQN", space)
    n = np.arange(9)

    def obs(numbers: Any) -> dict[str, Any]:
        return {"image": np.tile(numbers[:, None, None], (1, 2, 2)).astype(np.uint8), "place": numbers}

    masks = np.stack([n % 2 == 0, n % 3 == 0, np.ones(9, bool)], axis=1)
    buffer = ReplayBuffer(5)
    buffer.add(numbered(0, 9, obs=obs(n), next_obs=obs(n + 1), next_masks=masks))
    batch = buffer.sample(200, np.random.default_rng(0), dqn.policy, None)
    place = batch.obs["place"]
    assert set(place.tolist()) == {4, 5, 6, 7, 8}
    assert batch.obs["image"].dtype == torch.uint8
    assert torch.equal(batch.obs["image"][:, 1, 0].long(), place)
    assert torch.equal(batch.next_obs["place"], place + 1)
    assert batch.next_masks is not None
    assert torch.equal(batch.next_masks, torch.as_tensor(masks)[place])


def test_a_first_mask_that_comes_late_leaves_everything_before_legal() -> None:
    buffer = ReplayBuffer(8)
    buffer.add(numbered(0, 3))
    buffer.add(numbered(3, 2, next_masks=np.array([[True, False, False]] * 2)))
    buffer.add(numbered(5, 1))
    batch = drawn(buffer)
    assert batch.next_masks is not None
    masked = (batch.obs[:, 0] == 3) | (batch.obs[:, 0] == 4)
    assert masked.any() and not batch.next_masks[masked][:, 1:].any()
    assert batch.next_masks[~masked].all()


def test_rewards_and_observations_are_normalised_by_the_statistics_of_the_day() -> None:
    buffer = ReplayBuffer(8)
    buffer.add(numbered(0, 8))
    dqn = learner("DQN", LINE, normalize_obs=True)
    normalizer = RewardNormalizer(1)
    for scale in (1.0, 100.0):
        dqn.policy.obs_normalizer.update(scale * np.arange(8.0)[:, None])
        normalizer.update(np.array([50.0 * scale]), np.array([True]))
        batch = buffer.sample(50, np.random.default_rng(0), dqn.policy, normalizer)
        raw = buffer.sample(50, np.random.default_rng(0), learner("DQN", LINE).policy, None)
        expected = dqn.policy.obs_normalizer.normalize(raw.obs.numpy())
        np.testing.assert_allclose(batch.obs.numpy(), expected, atol=1e-6)
        following = dqn.policy.obs_normalizer.normalize(raw.next_obs.numpy())
        np.testing.assert_allclose(batch.next_obs.numpy(), following, atol=1e-6)
        np.testing.assert_allclose(batch.rewards.numpy(), normalizer.scale(raw.rewards.numpy()), atol=1e-6)
        assert batch.rewards.dtype == torch.float32


@pytest.mark.parametrize("count", [0, 3, 7, 12])
def test_a_reloaded_buffer_continues_as_if_never_saved(count: int) -> None:
    buffer, other = ReplayBuffer(7), ReplayBuffer(7)
    other.add(numbered(500, 5))  # whatever it held before is gone
    if count:
        buffer.add(numbered(0, min(count, 7)))
        buffer.add(numbered(min(count, 7), count - min(count, 7)))
    saved = {name: tensor.clone() for name, tensor in buffer.tensors().items()}
    other.load(saved)
    assert same_bytes(buffer.tensors(), other.tensors())
    for each in (buffer, other):
        each.add(numbered(100, 5))
    assert same_bytes(buffer.tensors(), other.tensors())
    assert torch.equal(drawn(buffer, 50).obs, drawn(other, 50).obs)


def test_only_what_is_filled_is_saved() -> None:
    buffer = ReplayBuffer(1000)
    buffer.add(numbered(0, 3))
    assert {len(tensor) for name, tensor in buffer.tensors().items() if name != "position"} == {3}


def test_a_buffer_too_small_for_one_collection_is_refused() -> None:
    config = TrainerConfig(algorithm="DQN", n_envs=4, hyperparams={"buffer_size": 7, "train_freq": 2})
    with pytest.raises(ConfigError) as error:
        config.typed_hyperparams()
    assert error.value.fix == "set buffer_size to at least 8"


def test_transitions_of_learners_spaces_fit() -> None:
    sac = learner("SAC", learning_starts=0, batch_size=8, buffer_size=40)
    for seed in range(4):
        sac.update(transitions(sac, seed), 0.0)
    assert sac.replay.size == 40
