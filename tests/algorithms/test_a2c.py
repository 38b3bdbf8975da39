"""A2C against the textbook's policy gradient, and its optimizers by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import (
    assert_all_close,
    differentiate,
    gradients,
    learner,
    parameters,
    rollout,
    same_bytes,
    weights_of,
)
from textbook import actor_critic, advantages, distribution, first_adam_step


def flat(array: Any) -> torch.Tensor:
    return torch.as_tensor(array.reshape(-1, *array.shape[2:]))


def textbook_loss(w: dict[str, torch.Tensor], r: Any, kind: str, *, normalize: bool = False) -> torch.Tensor:
    adv, returns = advantages(r, 0.99, 1.0)
    if normalize:
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    keep = flat(r.valid)
    outputs, values = actor_critic(w, flat(r.obs)[keep])
    pi = distribution(kind, w, outputs)
    gain = (adv * pi.log_prob(flat(r.actions)[keep])).mean()
    return -gain + 0.5 * ((values - returns) ** 2).mean() - 0.01 * pi.entropy().mean()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("kind", "space"),
    [
        ("discrete", spaces.Discrete(3)),
        ("binary", spaces.MultiBinary(2)),
        ("box", spaces.Box(-1.0, 1.0, (2,), np.float32)),
    ],
)
def test_one_update_is_the_textbooks_gradient_and_one_step_of_rmsprop(
    kind: str, space: Any, normalize: bool
) -> None:
    a2c = learner("A2C", action_space=space, max_grad_norm=None, normalize_advantage=normalize)
    r = rollout(a2c)
    r.valid[3, 1], r.ends[2, 1] = False, True
    w = parameters(a2c.policy)
    loss = textbook_loss(w, r, kind, normalize=normalize)
    expected = differentiate(loss, w)
    metrics = a2c.update(r, 0.0)
    assert metrics["train/loss"] == pytest.approx(loss.item(), abs=1e-5)
    found = gradients(a2c.policy)
    assert_all_close(found, expected, atol=1e-6, rtol=1e-4)
    # the running mean of squares starts at zero: after one step it is a hundredth of the square
    stepped = {n: w[n].detach() - 7e-4 * g / ((0.01 * g * g).sqrt() + 1e-5) for n, g in found.items()}
    assert_all_close(dict(a2c.policy.named_parameters()), stepped, atol=1e-7, rtol=1e-5)


def test_rms_prop_eps_reaches_the_optimizer() -> None:
    a2c = learner("A2C", max_grad_norm=None, rms_prop_eps=0.5, learning_rate=1.0)
    r = rollout(a2c)
    w = weights_of(a2c.policy)
    a2c.update(r, 0.0)
    for name, g in gradients(a2c.policy).items():
        moved = w[name] - g / ((0.01 * g * g).sqrt() + 0.5)
        torch.testing.assert_close(a2c.policy.state_dict()[name], moved, atol=1e-6, rtol=1e-5)


def test_adam_takes_the_place_of_rmsprop() -> None:
    a2c = learner("A2C", max_grad_norm=None, use_rms_prop=False, learning_rate=0.01)
    w = parameters(a2c.policy)
    a2c.update(rollout(a2c), 0.0)
    stepped = first_adam_step(w, gradients(a2c.policy), lr=0.01, eps=1e-5)
    assert_all_close(dict(a2c.policy.named_parameters()), stepped, atol=1e-6, rtol=1e-5)


def test_a_better_action_becomes_likelier() -> None:
    a2c = learner("A2C", ent_coef=0.0)
    r = rollout(a2c)
    r.actions[:] = 1
    r.ends[:], r.terminated[:] = True, True
    r.rewards = (r.values + 1).astype(np.float32)

    def likelihood() -> float:
        with torch.no_grad():
            return float(a2c.policy.evaluate(flat(r.obs), flat(r.actions))[0].mean())

    before = likelihood()
    a2c.update(r, 0.0)
    assert likelihood() > before + 1e-4


@pytest.mark.parametrize("normalize", [True, False])
def test_one_sample_alone_is_no_reason_to_fail(normalize: bool) -> None:
    a2c = learner("A2C", normalize_advantage=normalize)
    valid = np.zeros((8, 2), dtype=bool)
    valid[4, 0] = True
    assert math.isfinite(a2c.update(rollout(a2c, valid=valid), 0.0)["train/loss"])


@pytest.mark.filterwarnings("error")
def test_a_rollout_without_any_valid_sample_changes_nothing() -> None:
    a2c = learner("A2C")
    before = weights_of(a2c.policy)
    metrics = a2c.update(rollout(a2c, valid=np.zeros((8, 2), dtype=bool)), 0.0)
    assert same_bytes(before, weights_of(a2c.policy))
    assert "train/loss" not in metrics
