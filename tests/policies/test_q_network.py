"""The DQN policy plays its best legal action, and explores among legal ones only."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.errors import ConfigError
from ludus.policies.base import NetworkSpec
from ludus.policies.q_network import QPolicy

VECTOR = gym.spaces.Box(-5, 5, (2,), np.float32)
SPEC = NetworkSpec(policy_net_arch=(), value_net_arch=(), activation="ReLU")


def by_hand(dueling: bool = False) -> QPolicy:
    """q(x) = (x0, x1, x0 + x1) for three actions that the env counts from 1."""
    policy = QPolicy(VECTOR, gym.spaces.Discrete(3, start=1), SPEC, dueling=dueling)
    with torch.no_grad():
        policy.q_net[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        if policy.value_net is not None:
            policy.value_net[0].weight.copy_(torch.tensor([[10.0, 0.0]]))
    return policy


def test_the_best_action_is_played_and_counted_as_the_env_counts() -> None:
    policy = by_hand()
    assert policy.q_values(torch.tensor([[2.0, 1.0]])).tolist() == [[2.0, 1.0, 3.0]]
    assert policy.predict(np.array([2.0, 1.0], np.float32)) == 3
    assert policy.predict(np.array([[2.0, 1.0], [2.0, -1.0]], np.float32)).tolist() == [3, 1]


def test_the_best_legal_action_is_played_under_a_mask() -> None:
    mask = np.array([[False, True, False], [True, True, False]])
    assert by_hand().predict(np.array([[2.0, 1.0], [2.0, 1.0]], np.float32), mask=mask).tolist() == [2, 1]


def test_dueling_adds_the_value_to_centred_advantages() -> None:
    q_values = by_hand(dueling=True).q_values(torch.tensor([[2.0, 1.0]]))
    assert q_values.tolist() == [[20.0, 19.0, 21.0]]
    q_values.sum().backward()


def test_exploration_is_uniform_over_legal_actions() -> None:
    policy = by_hand()
    policy.epsilon = 1.0
    n = 30_000
    mask = torch.tensor([True, True, False]).expand(n, 3)
    drawn = policy.act(torch.ones(n, 2), mask, generator=torch.Generator().manual_seed(0))
    frequencies = torch.bincount(drawn, minlength=3) / n
    torch.testing.assert_close(frequencies, torch.tensor([0.5, 0.5, 0.0]), atol=0.015, rtol=0)
    assert frequencies[2] == 0


def test_epsilon_is_the_chance_to_explore_and_determinism_overrules_it() -> None:
    policy = by_hand()
    policy.epsilon = 0.3
    obs = torch.ones(30_000, 2)
    explored = policy.act(obs, generator=torch.Generator().manual_seed(0)) != 2
    assert explored.float().mean().item() == pytest.approx(0.3 * 2 / 3, abs=0.01)
    assert (policy.act(obs, deterministic=True) == 2).all()
    policy.epsilon = 0.0
    assert (policy.act(obs, generator=torch.Generator().manual_seed(0)) == 2).all()


def test_only_discrete_actions_have_q_values() -> None:
    with pytest.raises(ConfigError, match="DQN needs a Discrete action space, not Box"):
        QPolicy(VECTOR, gym.spaces.Box(-1, 1, (2,)), SPEC)


def test_a_reloaded_policy_has_the_same_values() -> None:
    spec = NetworkSpec((16,), (8,), normalize_obs=True)
    first, second = (QPolicy(VECTOR, gym.spaces.Discrete(4), spec, dueling=True) for _ in range(2))
    second.load_state_dict(first.state_dict())
    obs = torch.randn(3, 2)
    assert torch.equal(first.q_values(obs), second.q_values(obs))
