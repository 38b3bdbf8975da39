"""Parts shared by all learners: optimizers as tensors, checks for finite gradients, explained variance."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from learning_setup import learner, rollout, same_bytes, transitions, weights_of

from ludus.algorithms.gradient_step import StepGate, descend, set_learning_rate
from ludus.algorithms.learner import (
    explained_variance,
    load_optimizer_tensors,
    optimizer_tensors,
    with_prefix,
)
from ludus.algorithms.off_policy import follow
from ludus.errors import LudusError


def test_explained_variance_by_hand() -> None:
    actual = np.array([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(actual, actual) == 1
    assert explained_variance(np.full(4, 2.5), actual) == 0
    assert explained_variance(actual + 100, actual) == 1  # a constant offset is no variance
    assert explained_variance(-actual, actual) == pytest.approx(1 - 4)
    assert explained_variance(np.array([1.0, 2, 3, 2]), actual) == pytest.approx(1 - 0.75 / 1.25)


@pytest.mark.filterwarnings("error")
def test_variance_of_nothing_cannot_be_explained() -> None:
    assert math.isnan(explained_variance(np.arange(3.0), np.ones(3)))
    assert math.isnan(explained_variance(np.zeros(0), np.zeros(0)))


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))


def stepped(net: Any, optimizer: Any, seed: int) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    (net(x) ** 2).mean().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.1, eps=1e-5),
        lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.99, eps=1e-5),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ],
)
def test_an_optimizer_restored_from_its_tensors_continues_unchanged(make: Any) -> None:
    net, other = network(), network()
    optimizer, second = make(net.parameters()), make(other.parameters())
    for seed in range(3):
        stepped(net, optimizer, seed)
    other.load_state_dict(net.state_dict())
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer)}
    assert saved and all(isinstance(tensor, torch.Tensor) for tensor in saved.values())
    load_optimizer_tensors(second, saved)
    for seed in range(3, 6):
        stepped(net, optimizer, seed)
        stepped(other, second, seed)
    assert same_bytes(weights_of(net), weights_of(other))


def test_an_optimizer_that_never_stepped_has_nothing_to_save() -> None:
    net = network()
    fresh, used = torch.optim.Adam(net.parameters()), torch.optim.Adam(net.parameters())
    stepped(net, used, 0)
    assert dict(optimizer_tensors(fresh)) == {}
    load_optimizer_tensors(used, {})
    assert dict(optimizer_tensors(used)) == {}


def test_prefixes_end_at_their_dot() -> None:
    a, b = torch.zeros(1), torch.ones(1)
    assert with_prefix({"target.x": a, "target_two.x": b}, "target") == {"x": a}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize("fused", [False, True])
def test_a_gradient_that_is_not_finite_is_an_error_and_no_step(
    bad: float, max_norm: float | None, fused: bool
) -> None:
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=fused)
    stepped(net, optimizer, 0)
    before, state = weights_of(net), {n: t.clone() for n, t in optimizer_tensors(optimizer)}
    step_gate = StepGate(torch.device("cpu"))
    limit = None if max_norm is None else torch.tensor(max_norm)
    descend(optimizer, list(net.parameters()), net(torch.ones(1, 3)).sum() * bad, limit, step_gate)
    with pytest.raises(LudusError, match="not finite"):
        step_gate.check()
    assert same_bytes(before, weights_of(net))
    assert same_bytes(state, dict(optimizer_tensors(optimizer)))


@pytest.mark.parametrize("max_norm", [None, 0.5, 1e6])
def test_the_fused_step_that_is_captured_on_a_gpu_is_the_plain_one(max_norm: float | None) -> None:
    limit = None if max_norm is None else torch.tensor(max_norm)
    ends = []
    for fused in (False, True):
        net = network()
        optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.1) if fused else 0.1, fused=fused)
        step_gate = StepGate(torch.device("cpu"))
        for step in range(5):
            set_learning_rate(optimizer, 0.1 / (step + 1))
            loss = (net(torch.full((4, 3), float(step))) ** 2).mean()
            norm = descend(optimizer, list(net.parameters()), loss, limit, step_gate)
        ends.append([norm, *net.parameters()])
    torch.testing.assert_close(ends[0], ends[1])


def test_closed_step_gate_stops_every_later_step() -> None:
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    step_gate = StepGate(torch.device("cpu"))
    step_gate.pull_if(torch.tensor(True))
    before = weights_of(net)
    descend(optimizer, list(net.parameters()), net(torch.ones(1, 3)).sum(), None, step_gate)
    assert same_bytes(before, weights_of(net))
    step_gate.check()  # pulled on purpose: no fault
    step_gate.release()
    descend(optimizer, list(net.parameters()), net(torch.ones(1, 3)).sum(), None, step_gate)
    assert not same_bytes(before, weights_of(net))


def test_without_a_limit_gradients_are_left_as_they_are() -> None:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    loss = net(torch.ones(2, 3)).sum()
    expected = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    norm = descend(optimizer, list(net.parameters()), loss, None, StepGate(torch.device("cpu")))
    assert norm.item() == pytest.approx(torch.cat([g.flatten() for g in expected]).norm().item())
    assert all(torch.equal(g, p.grad) for g, p in zip(expected, net.parameters(), strict=True))


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_a_rollout_with_a_nan_reward_ends_the_update_and_spares_the_policy(algorithm: str) -> None:
    made = learner(algorithm, n_steps=8)
    before = weights_of(made.policy)
    r = rollout(made)
    r.rewards[3, 0] = np.nan
    with pytest.raises(LudusError, match="not finite"):
        made.update(r, 0.0)
    assert same_bytes(before, weights_of(made.policy))


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
def test_a_nan_in_the_batch_ends_the_update_and_spares_the_networks(algorithm: str) -> None:
    made = learner(algorithm, learning_starts=0, batch_size=64)
    before = weights_of(made.policy)
    t = transitions(made)
    t.obs[:] = np.nan
    with pytest.raises(LudusError, match="not finite"):
        made.update(t, 0.0)
    assert same_bytes(before, weights_of(made.policy))
    if algorithm == "SAC":
        assert made.log_temperature.item() == 0


def test_following_moves_parameters_by_tau_and_copies_buffers() -> None:
    target, source = (torch.nn.BatchNorm1d(2) for _ in range(2))
    with torch.no_grad():
        target.weight[:], source.weight[:] = torch.tensor([0.0, 1.0]), torch.tensor([4.0, -1.0])
        source.running_mean[:] = 7.0
    follow(target, source, 0.25)
    assert target.weight.tolist() == [1.0, 0.5]
    assert target.running_mean.tolist() == [7.0, 7.0]
    follow(target, source, 1.0)
    assert target.weight.tolist() == [4.0, -1.0]


def test_credited_samples_are_pickled_without_change_for_other_ranks() -> None:
    ppo = learner("PPO", n_steps=8, batch_size=8)
    batch = ppo.credit(rollout(ppo), 0.0)
    arrived = pickle.loads(pickle.dumps(batch))  # noqa: S301  # of our own making
    assert arrived.metrics == batch.metrics
    for sent, received in zip(batch.samples.tensors(), arrived.samples.tensors(), strict=True):
        assert torch.equal(sent, received)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_an_update_is_credit_then_learn(algorithm: str) -> None:
    one, other = (learner(algorithm, n_steps=8) for _ in range(2))
    experience = rollout(one)
    expected = one.update(experience, 0.3)
    found = other.learn(other.credit(experience, 0.3), 0.3)
    assert found == expected
    assert same_bytes(weights_of(one.policy), weights_of(other.policy))


def test_crediting_transitions_only_fills_the_replay_buffer() -> None:
    dqn = learner("DQN", learning_starts=0, batch_size=4)
    before = weights_of(dqn.policy)
    assert dqn.credit(transitions(dqn), 0.0) == 16
    assert dqn.replay.size == 16
    assert same_bytes(before, weights_of(dqn.policy))
