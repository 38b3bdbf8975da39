"""Each loss against cases worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ludus.language.algorithms.losses import (
    clipped_loss,
    importance_weights,
    kl_estimate,
    policy_gradient_loss,
    share_of_tokens,
)


def log(*numbers: float) -> torch.Tensor:
    return torch.tensor([math.log(number) for number in numbers], requires_grad=True)


def test_constant_lengths_count_every_token_alike_and_own_lengths_every_turn() -> None:
    lengths = torch.tensor([1.0, 4.0, 0.0])
    assert share_of_tokens(lengths, 3, "constant", 8).tolist() == pytest.approx([1 / 24] * 3)
    assert share_of_tokens(lengths, 3, "tokens", 8).tolist() == pytest.approx([1 / 3, 1 / 12, 1 / 3])


def test_importance_weights_are_ratios_up_to_their_cap() -> None:
    weights = importance_weights(log(0.5, 0.1, 0.9), log(0.25, 0.2, 0.1).detach(), cap=3.0)
    assert weights.tolist() == pytest.approx([2.0, 0.5, 3.0])
    assert not weights.requires_grad
    assert importance_weights(torch.tensor([0.0]), torch.tensor([-math.inf]), 2.0).tolist() == pytest.approx(
        [2]
    )


def test_the_policy_gradient_is_weight_times_advantage() -> None:
    log_probs = log(0.5, 0.25)
    policy_gradient_loss(log_probs, torch.tensor([2.0, 1.0]), torch.tensor([3.0, -1.0])).sum().backward()
    assert log_probs.grad is not None and log_probs.grad.tolist() == pytest.approx([-6.0, 1.0])


def test_the_clip_holds_steps_that_lead_away_and_no_others() -> None:
    # ratios 1.5, 1.5, 0.5, 0.5, 1.1 with advantages of either sign; clip at 0.8 and 1.3
    log_probs = log(0.3, 0.3, 0.1, 0.1, 0.22)
    before = log(0.2, 0.2, 0.2, 0.2, 0.2).detach()
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0, 2.0])
    weights = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5])
    loss, held = clipped_loss(log_probs, before, weights, advantages, 0.2, 0.3)
    assert loss.tolist() == pytest.approx([-1.3, 1.5, -0.5, 0.8, -1.1])
    assert held.tolist() == [True, False, False, True, False]
    loss.sum().backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == pytest.approx([0.0, 1.5, -0.5, 0.0, -1.1])


def test_the_kl_estimate_is_zero_at_home_and_positive_elsewhere() -> None:
    found = kl_estimate(log(0.5, 0.5, 0.5), log(0.5, 0.25, 1.0).detach())
    assert found.tolist() == pytest.approx([0.0, 0.5 - 1 + math.log(2), 2 - 1 - math.log(2)])


def test_the_kl_estimate_has_the_expectation_of_the_divergence() -> None:
    ours, theirs = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.2, 0.6])
    expected = (ours * (ours.log() - theirs.log())).sum()
    assert (ours * kl_estimate(ours.log(), theirs.log())).sum().item() == pytest.approx(expected.item())


def test_nothing_overflows_however_far_the_policies_are_apart() -> None:
    far, near = torch.tensor([-300.0], requires_grad=True), torch.tensor([0.0], requires_grad=True)
    for ours, theirs in ((far, near), (near, far)):
        loss, _ = clipped_loss(ours, theirs.detach(), torch.ones(1), -torch.ones(1), 0.2, 0.2)
        total = loss + kl_estimate(ours, theirs.detach())
        total.sum().backward()
        assert total.isfinite().all() and ours.grad is not None and ours.grad.isfinite().all()
