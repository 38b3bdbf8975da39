"""DQN on tables: one-hot observations and no hidden layer make every value and every target readable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner, same_bytes, transitions, weights_of

from ludus.algorithms.replay import ReplayBatch
from ludus.errors import ConfigError

STATES = spaces.Discrete(3)
#          action:   0     1     2
ONLINE = torch.tensor([[0.0, 0.2, 0.1], [0.5, 0.4, 0.3], [0.1, 0.9, 0.6]])
TARGET = torch.tensor([[0.3, 0.1, 0.0], [0.1, 0.6, 0.2], [0.7, 0.2, 0.4]])


def tabular(**hyperparams: Any) -> Any:
    """A DQN whose networks are ONLINE and TARGET: the value of action a in state s is their [s, a]."""
    dqn = learner(
        "DQN",
        STATES,
        spaces.Discrete(3),
        **({"policy_net_arch": (), "value_net_arch": (), "max_grad_norm": None, "gamma": 0.5} | hyperparams),
    )
    with torch.no_grad():
        for network, table in ((dqn.policy, ONLINE), (dqn.target, TARGET)):
            network.q_net[0].weight.copy_(table.T)
            network.q_net[0].bias.zero_()
            if network.value_net is not None:
                network.value_net[0].weight.zero_()
                network.value_net[0].bias.zero_()
    return dqn


def targets_of(
    dqn: Any,
    next_states: list[int],
    rewards: list[float],
    terminated: list[bool],
    next_masks: list[list[int]] | None = None,
) -> list[float]:
    """Return the targets of the value of action 1 in state 0 (0.2), one learner's step per transition.

    Within the quadratic part of Huber's loss the gradient is the value minus its target.
    """
    found = []
    for i, follower in enumerate(next_states):
        before = {name: value.clone() for name, value in dqn.policy.state_dict().items()}
        batch = ReplayBatch(
            obs=torch.tensor([0]),
            actions=torch.tensor([1]),
            rewards=torch.tensor([rewards[i]]),
            next_obs=torch.tensor([follower]),
            terminated=torch.tensor([terminated[i]]),
            next_masks=None if next_masks is None else torch.tensor([next_masks[i]], dtype=torch.bool),
        )
        dqn.backend.learn_from([batch], 0.0)
        found.append(round(0.2 - dqn.policy.q_net[0].weight.grad[1, 0].item(), 6))
        dqn.policy.load_state_dict(before)
    return found


def test_the_vanilla_target_is_the_best_of_the_target_network() -> None:
    # state 1: max of 0.1 0.6 0.2; state 2: max of 0.7 0.2 0.4
    assert targets_of(tabular(), [1, 2], [0.1, -0.2], [False, False]) == [0.1 + 0.3, round(-0.2 + 0.35, 6)]


def test_a_terminated_transition_is_worth_its_reward() -> None:
    assert targets_of(tabular(), [1, 2], [0.1, -0.2], [True, True]) == [0.1, -0.2]


def test_the_double_target_values_by_one_network_what_the_other_chose() -> None:
    # online prefers 0 in state 1 and 1 in state 2; the target network says 0.1 and 0.2
    found = targets_of(tabular(double=True), [1, 2], [0.1, -0.2], [False, False])
    assert found == [pytest.approx(0.1 + 0.05), pytest.approx(-0.2 + 0.1)]


def test_an_illegal_action_is_never_the_best() -> None:
    masks = [[1, 0, 1], [0, 1, 1]]
    # vanilla: 0.2 (not 0.6) and 0.4 (not 0.7)
    found = targets_of(tabular(), [1, 2], [0.0, 0.0], [False, False], masks)
    assert found == [pytest.approx(0.1), pytest.approx(0.2)]
    # double: online chooses 0 of {0, 2} and 1 of {1, 2}: 0.1 and 0.2
    found = targets_of(tabular(double=True), [1, 2], [0.0, 0.0], [False, False], masks)
    assert found == [pytest.approx(0.05), pytest.approx(0.1)]


@pytest.mark.parametrize("double", [False, True])
def test_a_last_observation_without_legal_actions_makes_no_absurd_target(double: bool) -> None:
    nothing = [[0, 0, 0]]
    (found,) = targets_of(tabular(double=double), [1], [0.1], [False], nothing)
    assert found == pytest.approx(0.1 + 0.5 * (0.1 if double else 0.6))
    assert targets_of(tabular(double=double), [1], [0.1], [True], nothing) == [0.1]


def test_the_loss_is_hubers() -> None:
    dqn = tabular()
    batch = ReplayBatch(
        obs=torch.tensor([0, 1]),
        actions=torch.tensor([1, 2]),
        rewards=torch.tensor([0.6, 10.3]),  # errors 0.4 and 10
        next_obs=torch.tensor([0, 0]),
        terminated=torch.tensor([True, True]),
        next_masks=None,
    )
    metrics = dqn.backend.learn_from([batch], 0.0)
    assert metrics["train/loss"] == pytest.approx((0.5 * 0.4**2 + (10 - 0.5)) / 2, rel=1e-6)
    grad = dqn.policy.q_net[0].weight.grad
    assert grad[1, 0].item() == pytest.approx(-0.4 / 2)
    assert grad[2, 1].item() == pytest.approx(-1 / 2)
    assert metrics["train/q_mean"] == pytest.approx((0.2 + 0.3) / 2)


def test_dueling_values_are_the_state_plus_centred_advantages() -> None:
    dqn = tabular(dueling=True)
    with torch.no_grad():
        dqn.policy.value_net[0].weight.copy_(torch.tensor([[5.0, 6.0, 7.0]]))
        q = dqn.policy.q_values(torch.tensor([0, 1, 2]))
    expected = torch.tensor([[5.0], [6.0], [7.0]]) + ONLINE - ONLINE.mean(dim=1, keepdim=True)
    torch.testing.assert_close(q, expected)


def test_the_target_network_stands_still_between_its_updates() -> None:
    dqn = tabular(learning_starts=0, target_update_interval=40, batch_size=4, learning_rate=0.1)
    start = weights_of(dqn.target)
    followed = []
    for number in range(1, 8):  # 16 env steps each: 16 32 48 64 80 96 112
        dqn.update(transitions(dqn, seed=number), 0.0)
        if same_bytes(weights_of(dqn.target), weights_of(dqn.policy)):
            followed.append(16 * number)
        elif not followed:
            assert same_bytes(weights_of(dqn.target), start)
    assert followed == [48, 80]  # as 40 and 80 were passed, and 120 not yet


def test_tau_moves_the_target_a_part_of_the_way() -> None:
    dqn = tabular(learning_starts=1000, target_update_interval=16, tau=0.25)
    dqn.update(transitions(dqn), 0.0)
    expected = (TARGET + 0.25 * (ONLINE - TARGET)).T
    torch.testing.assert_close(dqn.target.q_net[0].weight.detach(), expected)
    assert not dqn.target.training
    assert not any(p.requires_grad for p in dqn.target.parameters())


def test_epsilon_goes_down_in_a_line_and_stays() -> None:
    dqn = tabular(
        learning_starts=10**6,
        exploration_fraction=0.2,
        exploration_initial_eps=0.9,
        exploration_final_eps=0.1,
    )
    assert dqn.policy.epsilon == 0.9
    found = [dqn.update(transitions(dqn), f)["rollout/exploration_rate"] for f in (0.0, 0.05, 0.1, 0.2, 0.7)]
    assert found == [pytest.approx(x) for x in (0.9, 0.7, 0.5, 0.1, 0.1)]
    assert dqn.policy.epsilon == pytest.approx(0.1)


def test_learning_begins_after_learning_starts_and_takes_the_configured_steps() -> None:
    counts = {}
    for gradient_steps in (1, 3, -1, 0):
        dqn = tabular(learning_starts=16, gradient_steps=gradient_steps, batch_size=4)
        calls: list[int] = []
        dqn.gradient_step = lambda batch, calls=calls: calls.append(len(batch.rewards)) or torch.zeros(3)
        per_round = []
        for number in range(3):
            dqn.update(transitions(dqn, seed=number), 0.0)
            per_round.append(len(calls))
        assert set(calls) <= {4}
        counts[gradient_steps] = np.diff([0, *per_round]).tolist()
    # 16 env steps are not more than 16; -1 is one gradient step per env step
    assert counts == {1: [0, 1, 1], 3: [0, 3, 3], -1: [0, 16, 16], 0: [0, 0, 0]}


def test_repeated_learning_finds_the_values_of_a_small_world() -> None:
    """Two states in a row, then the end with reward 1: the values are known, and found without bootstrapping errors."""
    dqn = tabular(
        learning_starts=0, target_update_interval=16, batch_size=32, learning_rate=0.05, gradient_steps=20
    )
    for _ in range(40):
        states = np.tile([0, 1], 8)
        dqn.update(
            transitions(
                dqn,
                obs=states,
                actions=np.ones(16, dtype=np.int64),
                rewards=(states == 1).astype(float),
                next_obs=states + 1,
                terminated=states == 1,
                next_masks=np.tile([False, True, False], (16, 1)),
            ),
            0.0,
        )
    q = dqn.policy.q_values(torch.tensor([0, 1]))[:, 1].tolist()
    assert q == [pytest.approx(0.5, abs=0.02), pytest.approx(1.0, abs=0.02)]


def test_only_discrete_actions_are_taken_on() -> None:
    with pytest.raises(ConfigError, match="DQN needs Discrete actions"):
        learner("DQN", action_space=spaces.MultiBinary(2))
