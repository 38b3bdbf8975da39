"""The actor-critic shares networks as configured, and `predict` agrees with `act`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.errors import ConfigError
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import NetworkSpec
from ludus.policies.distributions import Categorical

VECTOR = gym.spaces.Box(-5, 5, (4,), np.float32)
DISCRETE = gym.spaces.Discrete(3)


def spec(**changes: Any) -> NetworkSpec:
    return NetworkSpec(**({"policy_net_arch": (8, 8), "value_net_arch": (6,)} | changes))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_forward_is_the_product_of_its_layers() -> None:
    policy = ActorCritic(VECTOR, DISCRETE, spec(policy_net_arch=(2,), value_net_arch=(2,)))
    obs = torch.tensor([[1.0, 0.0, -1.0, 2.0]])
    distribution, values = policy(obs)
    hidden = torch.tanh(obs @ policy.policy_net[0].weight.T + policy.policy_net[0].bias)
    logits = hidden @ policy.action_head.linear.weight.T + policy.action_head.linear.bias
    assert isinstance(distribution, Categorical)
    torch.testing.assert_close(distribution.log_probs, logits.log_softmax(-1))
    hidden = torch.tanh(obs @ policy.value_net[0].weight.T + policy.value_net[0].bias)
    expected = (hidden @ policy.value_head.weight.T + policy.value_head.bias)[:, 0]
    torch.testing.assert_close(values, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"share_net": True},
        {"share_features_extractor": False},
        {"features_extractor": "ResnetMLP", "features_dim": 16},
        {"features_extractor": "ResnetMLP", "features_dim": 16, "share_features_extractor": False},
        {"features_extractor": "ResnetMLP", "features_dim": 16, "share_net": True},
        {"policy_net_arch": (), "value_net_arch": (), "ortho_init": False},
    ],
)
def test_every_way_of_sharing_trains_all_parameters_and_is_consistent(changes: dict[str, Any]) -> None:
    policy = ActorCritic(VECTOR, DISCRETE, spec(**changes))
    obs = torch.randn(6, 4)
    actions, log_prob, values = policy.act_and_value(obs, None, generator())
    assert not values.requires_grad
    again, entropy, values_again = policy.evaluate(obs, actions)
    torch.testing.assert_close(again, log_prob)
    torch.testing.assert_close(values_again, values)
    torch.testing.assert_close(policy.value(obs), values)
    assert values.shape == log_prob.shape == entropy.shape == (6,)
    (again.sum() + entropy.sum() + values_again.sum()).backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


def test_a_shared_extractor_is_counted_once_and_separate_ones_twice() -> None:
    def extractor_parameters(**changes: Any) -> int:
        policy = ActorCritic(
            VECTOR, DISCRETE, spec(features_extractor="ResnetMLP", features_dim=8, **changes)
        )
        return sum("features_extractor" in name for name in policy.state_dict())

    shared = extractor_parameters()
    assert extractor_parameters(share_features_extractor=False) == 2 * shared


def test_value_loss_has_no_gradient_in_a_separate_policy() -> None:
    policy = ActorCritic(
        VECTOR, DISCRETE, spec(features_extractor="ResnetMLP", share_features_extractor=False)
    )
    policy.value(torch.randn(2, 4)).sum().backward()
    assert all(p.grad is None for p in policy.features_extractor.parameters())
    assert all(p.grad is None for p in policy.policy_net.parameters())


def test_a_shared_net_on_two_extractors_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot have two feature extractors"):
        ActorCritic(VECTOR, DISCRETE, spec(share_net=True, share_features_extractor=False))


def test_a_masked_action_is_never_played() -> None:
    policy = ActorCritic(VECTOR, DISCRETE, spec())
    mask = torch.tensor([True, False, True]).expand(10_000, 3)
    actions, log_prob, _ = policy.act_and_value(torch.randn(10_000, 4), mask, generator())
    assert set(actions.tolist()) == {0, 2}
    assert torch.isfinite(log_prob).all()
    only = np.array([False, True, False])
    assert policy.predict(np.zeros(4, np.float32), mask=only) == 1


@pytest.mark.parametrize(
    "action_space",
    [
        gym.spaces.Discrete(3, start=2),
        gym.spaces.MultiDiscrete([2, 3]),
        gym.spaces.MultiBinary(4),
        gym.spaces.Box(-0.01, 0.01, (2, 2), np.float32),
    ],
)
@pytest.mark.parametrize(
    "observation_space",
    [
        VECTOR,
        gym.spaces.Discrete(5, start=1),
        gym.spaces.MultiBinary(3),
        gym.spaces.Box(0, 255, (36, 36, 3), np.uint8),
        gym.spaces.Dict({"camera": gym.spaces.Box(0, 255, (4, 40, 40), np.uint8), "speed": VECTOR}),
    ],
    ids=lambda space: type(space).__name__,
)
def test_predict_gives_one_legal_action_for_one_observation_and_a_batch_for_a_batch(
    observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    policy = ActorCritic(observation_space, action_space, spec(normalize_obs=True))
    observation_space.seed(0)
    singles = [observation_space.sample() for _ in range(3)]
    batch = (
        {key: np.stack([obs[key] for obs in singles]) for key in singles[0]}
        if isinstance(singles[0], dict)
        else np.stack(singles)
    )
    together = policy.predict(batch)
    assert len(together) == 3
    for obs, expected in zip(singles, together, strict=True):
        alone = policy.predict(obs)
        assert alone in action_space
        np.testing.assert_allclose(alone, expected, atol=1e-6)
    assert policy.predict(singles[0], deterministic=False, generator=generator()) in action_space


def test_predict_normalises_without_learning() -> None:
    policy = ActorCritic(VECTOR, gym.spaces.Box(-9, 9, (2,)), spec(normalize_obs=True))
    assert policy.obs_normalizer is not None
    policy.obs_normalizer.update(np.random.default_rng(0).normal(3.0, 2.0, (100, 4)))
    obs = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    action = policy.predict(obs)
    after = policy.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)
    scaled = torch.as_tensor(policy.obs_normalizer.normalize(obs[None]))
    np.testing.assert_allclose(action, policy.distribution(scaled).mode()[0].detach().numpy(), rtol=1e-6)


def test_a_reloaded_policy_predicts_the_same() -> None:
    torch.manual_seed(0)
    first = ActorCritic(VECTOR, gym.spaces.Box(-9, 9, (2,)), spec(normalize_obs=True, log_std_init=-1.0))
    assert first.obs_normalizer is not None
    first.obs_normalizer.update(np.random.default_rng(0).normal(3.0, 2.0, (100, 4)))
    second = ActorCritic(VECTOR, gym.spaces.Box(-9, 9, (2,)), spec(normalize_obs=True))
    obs = np.ones((5, 4), np.float32)
    assert not np.array_equal(first.predict(obs), second.predict(obs))
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(first.predict(obs), second.predict(obs))
    assert "obs_normalizer.moments.obs.mean" in first.state_dict()
    drawn = [policy.predict(obs, deterministic=False, generator=generator(5)) for policy in (first, second)]
    np.testing.assert_array_equal(*drawn)


def test_the_same_global_seed_makes_the_same_policy() -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(7)
        states.append(ActorCritic(VECTOR, DISCRETE, spec(features_extractor="ResnetMLP")).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_no_two_entries_of_a_saved_policy_share_memory() -> None:
    policy = ActorCritic(
        VECTOR, DISCRETE, spec(share_net=True, features_extractor="ResnetMLP", normalize_obs=True)
    )
    pointers = [tensor.data_ptr() for tensor in policy.state_dict().values()]
    assert len(set(pointers)) == len(pointers)


def test_images_are_convolved_from_orthogonal_filters() -> None:
    policy = ActorCritic(gym.spaces.Box(0, 255, (36, 36, 1), np.uint8), DISCRETE, spec(features_dim=16))
    filters = policy.features_extractor.cnn[0].weight.flatten(1)
    torch.testing.assert_close(filters @ filters.T, 2 * torch.eye(32), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("space", [VECTOR, gym.spaces.Dict({"a": VECTOR, "b": gym.spaces.Discrete(2)})])
@pytest.mark.parametrize("batch", [False, True])
def test_a_mask_inside_the_observation_is_followed(space: gym.Space[Any], batch: bool) -> None:
    policy = ActorCritic(space, DISCRETE, spec())
    parts = {"a": np.ones(4, np.float32), "b": np.int64(1)}
    obs: dict[str, Any] = parts if isinstance(space, gym.spaces.Dict) else {"observation": parts["a"]}
    for legal in range(3):
        mask = np.arange(3) == legal
        given = {**obs, "action_mask": mask.astype(np.int8)}
        if batch:
            given = {key: np.stack([part, part]) for key, part in given.items()}
        assert np.all(policy.predict(given) == legal)
        other = np.arange(3) == (legal + 1) % 3
        assert np.all(policy.predict(given, np.stack([other, other]) if batch else other) == (legal + 1) % 3)
