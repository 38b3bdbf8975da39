"""The updates that a GPU captures: on a CPU the same code runs uncaptured, and learns what the plain one learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner, rollout, same_bytes, transitions, weights_of

from ludus.algorithms.backends.cuda_graph import Captured, CapturedOnPolicy, CapturedReplay

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", {"n_steps": 8, "batch_size": 16, "n_epochs": 3}),
        ("A2C", {"n_steps": 8}),
        ("A2C", {"n_steps": 8, "use_rms_prop": False, "max_grad_norm": None}),
    ],
)
def test_a_captured_on_policy_update_is_the_plain_one(algorithm: str, settings: dict[str, Any]) -> None:
    plain, captured = (learner(algorithm, **settings) for _ in range(2))
    captured.backend = CapturedOnPolicy(captured)
    for seed in range(3):
        samples = rollout(plain, seed=seed)
        one, other = plain.update(samples, 0.1 * seed), captured.update(samples, 0.1 * seed)
        # one minibatch is the whole rollout, so that the order of samples only moves the last digits
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)
    torch.testing.assert_close(dict(plain.policy.state_dict()), dict(captured.policy.state_dict()))


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
def test_a_captured_off_policy_update_is_the_plain_one(algorithm: str) -> None:
    plain, captured = (learner(algorithm, learning_starts=0, gradient_steps=3) for _ in range(2))
    captured.backend = CapturedReplay(captured)
    for seed in range(3):
        step = transitions(plain, seed=seed)
        assert plain.update(step, 0.5) == captured.update(step, 0.5)
    assert same_bytes(weights_of(plain.policy), weights_of(captured.policy))


def test_masks_that_appear_between_updates_get_a_capture_of_their_own() -> None:
    ppo = learner("PPO", action_space=spaces.Discrete(3), n_steps=8, batch_size=16, n_epochs=1)
    ppo.backend = CapturedOnPolicy(ppo)
    ppo.update(rollout(ppo), 0.0)
    masked = rollout(ppo, masks=np.ones((8, 2, 3), dtype=bool))
    assert ppo.update(masked, 0.0)["train/approx_kl"] < 1.0


def test_what_cannot_be_captured_is_run_as_it_is() -> None:
    calls = []
    run = Captured(lambda: calls.append(1) or len(calls), CPU)
    assert [run(), run()] == [1, 2]
