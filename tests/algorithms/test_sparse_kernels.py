"""Kernels that skip zeros and illegal actions compute what torch computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner, rollout

from ludus.algorithms.backends.numba import listing, sparse
from ludus.policies.observations import to_tensor

WIDE = spaces.Box(-np.inf, np.inf, (300,), np.float32)
ACTIONS = spaces.Discrete(40)


def experience(made: Any, density: float = 0.1) -> Any:
    """A rollout whose observations are mostly zeros, and whose masks are too."""
    found = rollout(made, steps=16, envs=4, drift=0.3)
    rng = np.random.default_rng(3)
    obs = found.obs * (rng.random(found.obs.shape) < density)
    masks = rng.random((16, 4, 40)) < 0.2
    np.put_along_axis(masks, found.actions[..., None], True, axis=2)
    return replace(found, obs=obs.astype(np.float32), masks=masks)


def pair(**options: Any) -> tuple[Any, Any]:
    given = {"policy_net_arch": (8, 6), "value_net_arch": (7,), "batch_size": 24, "n_epochs": 2} | options
    return tuple(learner("PPO", WIDE, ACTIONS, kernels=kernels, **given) for kernels in (False, True))


@pytest.mark.parametrize("activation", ["Tanh", "ReLU"])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_update_agrees_with_torch(activation: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    update = sparse.update
    monkeypatch.setattr(sparse, "update", lambda *given: used.append(1) or update(*given))
    torch_one, fused = pair(
        policy={"activation": activation}, ent_coef=0.05, learning_rate=1e-3, threads=threads
    )
    used.clear()  # compiling calls it too
    played = experience(torch_one)
    expected, found = torch_one.update(played, 0.25), fused.update(played, 0.25)
    assert used  # the kernels in question were the ones that learnt
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    torch.testing.assert_close(
        dict(fused.policy.state_dict()), dict(torch_one.policy.state_dict()), rtol=2e-4, atol=2e-5
    )


def test_acting_agrees_with_torch() -> None:
    _, fused = pair()
    played = experience(fused)
    obs, masks = played.obs[0], played.masks[0]
    assert fused.kernels._listed(obs, masks) is not None
    actions, log_probs, values = fused.kernels.act(obs, masks)
    assert masks[np.arange(4), actions].all()
    with torch.no_grad():
        expected, _, their_values = fused.policy.evaluate(
            to_tensor(obs, "cpu"), torch.as_tensor(actions), torch.as_tensor(masks)
        )
    np.testing.assert_allclose(log_probs, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(values, their_values.numpy(), atol=1e-5)


def test_full_observations_take_the_other_kernels() -> None:
    _, fused = pair()
    assert fused.kernels._listed(experience(fused, density=1.0).obs[0], np.ones((4, 40), dtype=bool)) is None


def test_a_row_without_a_legal_action_allows_all() -> None:
    masks = np.zeros((2, 5), dtype=bool)
    masks[1, 3] = True
    starts, columns = listing.legal_lists(masks)
    assert starts.tolist() == [0, 5, 6]
    assert columns.tolist() == [0, 1, 2, 3, 4, 3]
