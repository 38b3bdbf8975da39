"""The SAC policy acts within its bounds, and each loss trains what it should."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.errors import ConfigError
from ludus.policies.base import NetworkSpec
from ludus.policies.soft_actor import SACPolicy

VECTOR = gym.spaces.Box(-5, 5, (3,), np.float32)
BOX = gym.spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))


def make(**changes: Any) -> SACPolicy:
    return SACPolicy(
        VECTOR, BOX, NetworkSpec(**({"policy_net_arch": (8,), "value_net_arch": (9,)} | changes))
    )


def test_actions_are_stretched_to_the_bounds() -> None:
    actions = make().to_env(np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 0.5]], np.float32))
    np.testing.assert_allclose(actions, [[-2.0, 0.0], [0.0, 5.0], [2.0, 7.5]])
    assert actions.dtype == np.float32


def test_every_draw_lies_in_the_space() -> None:
    policy = make(log_std_init=2.0)
    drawn = policy.predict(
        np.ones((1000, 3), np.float32), deterministic=False, generator=torch.Generator().manual_seed(0)
    )
    assert all(action in BOX for action in drawn)
    assert policy.predict(np.ones(3, np.float32)) in BOX


def test_the_mode_is_tanh_of_the_mean() -> None:
    policy = make()
    obs = torch.randn(4, 3)
    expected = torch.tanh(policy.distribution(obs).gaussian.mean)
    assert torch.equal(policy.act(obs, deterministic=True), expected)


def test_standard_deviation_is_bounded() -> None:
    policy = make(ortho_init=False)
    for bias, expected in ((100.0, 2.0), (-100.0, -20.0)):
        torch.nn.init.constant_(policy.log_std_head.bias, bias)
        assert (policy.distribution(torch.zeros(1, 3)).gaussian.log_std == expected).all()


def test_the_critics_are_two_different_functions_of_the_action() -> None:
    policy = make()
    obs = torch.randn(5, 3)
    q1, q2 = policy.critics(obs, torch.zeros(5, 2))
    assert q1.shape == q2.shape == (5,)
    assert not torch.allclose(q1, q2)
    assert not torch.allclose(q1, policy.critics(obs, torch.ones(5, 2))[0])
    assert policy.critic.q1[0].in_features == 3 + 2
    assert policy.critic.q1[0].out_features == 9


@pytest.mark.parametrize("shared", [True, False])
def test_every_parameter_belongs_to_one_loss_and_is_trained_by_it(shared: bool) -> None:
    policy = make(features_extractor="ResnetMLP", features_dim=16, share_features_extractor=shared)
    actor, critic = list(policy.actor_parameters()), list(policy.critic_parameters())
    assert {*map(id, actor)}.isdisjoint(map(id, critic))
    assert len(actor) + len(critic) == len(list(policy.parameters()))
    obs = torch.randn(4, 3)
    q1, q2 = policy.critics(obs, torch.zeros(4, 2))
    (q1 + q2).sum().backward()
    assert all(p.grad is not None for p in critic)
    assert all(p.grad is None for p in actor)
    policy.zero_grad()
    actions, log_prob = policy.distribution(obs).rsample_with_log_prob()
    (actions.sum() + log_prob.sum()).backward()
    assert all(p.grad is not None for p in actor)
    assert all(p.grad is None for p in critic)


def test_the_actor_learns_through_the_critics() -> None:
    policy = make()
    obs = torch.randn(4, 3)
    actions, _ = policy.distribution(obs).rsample_with_log_prob()
    torch.min(*policy.critics(obs, actions)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.mean_head.parameters())


def test_copied_critic_is_an_independent_target() -> None:
    policy = make(features_extractor="ResnetMLP", features_dim=16)
    target = copy.deepcopy(policy.critic)
    obs, actions = torch.randn(2, 3), torch.zeros(2, 2)
    before = target(obs, actions)[0].detach()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    assert torch.equal(target(obs, actions)[0], before)


@pytest.mark.parametrize("space", [gym.spaces.Discrete(2), gym.spaces.Box(-np.inf, np.inf, (2,))])
def test_actions_without_finite_bounds_are_refused(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="SAC needs a Box action space with finite bounds"):
        SACPolicy(VECTOR, space, NetworkSpec((8,), (8,)))


def test_a_mask_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be masked"):
        make().act(torch.zeros(1, 3), torch.ones(1, 2, dtype=torch.bool))


def test_a_reloaded_policy_acts_the_same() -> None:
    first, second = make(normalize_obs=True), make(normalize_obs=True)
    assert first.obs_normalizer is not None
    first.obs_normalizer.update(np.random.default_rng(0).normal(size=(50, 3)))
    second.load_state_dict(first.state_dict())
    obs = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(first.predict(obs), second.predict(obs))
