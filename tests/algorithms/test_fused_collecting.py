"""Collecting with the fused kernels: what is stored is what the torch policy says of the same observations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner

from ludus.envs.vector.serial import SerialVectorEnv
from ludus.policies.observations import to_tensor
from ludus.rollout.stepper import Stepper


class Choosy(gym.Env[Any, Any]):
    """Random observations, random masks, truncated now and then; refuses illegal actions."""

    observation_space = spaces.Box(-9.0, 9.0, (3,), np.float32)

    def __init__(self, action_space: Any, masked: bool) -> None:
        self.action_space = action_space
        self.sizes = [
            int(n) for n in np.atleast_1d(getattr(action_space, "nvec", getattr(action_space, "n", 0)))
        ]
        self.masked = masked

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._look()

    def step(self, action: Any) -> Any:
        if self.masked:
            starts = np.cumsum([0, *self.sizes[:-1]])
            assert self.legal[starts + np.atleast_1d(action)].all()
        obs, info = self._look()
        return obs, 1.0, False, self.np_random.random() < 0.2, info

    def _look(self) -> Any:
        self.legal = self.np_random.random(sum(self.sizes)) < 0.5
        for start, size in zip(np.cumsum([0, *self.sizes[:-1]]), self.sizes, strict=True):
            self.legal[start + self.np_random.integers(max(size, 1))] = True
        obs = self.np_random.normal(2.0, 3.0, 3).astype(np.float32)
        return obs, {"action_mask": self.legal} if self.masked else {}


def collecting(algorithm: str, action_space: Any, masked: bool, **options: Any) -> tuple[Any, Any]:
    envs = SerialVectorEnv([lambda: Choosy(action_space, masked)] * 3)
    made = learner(algorithm, envs.single_observation_space, action_space, kernels=True, **options)
    assert made.kernels is not None
    stepper = Stepper(envs, lambda number, index: index)
    stepper.barrier(0)
    return made, made.make_collector(stepper)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("space", "masked"),
    [
        (spaces.Discrete(4), False),
        (spaces.Discrete(4), True),
        (spaces.MultiDiscrete([2, 3]), True),
    ],
)
def test_a_fused_rollout_holds_the_policys_own_values_and_log_probs(
    space: Any, masked: bool, normalize: bool
) -> None:
    made, collector = collecting("PPO", space, masked, n_steps=20, batch_size=12, normalize_obs=normalize)
    for _ in range(2):
        r = collector.collect(made.policy)
        flat = {
            name: getattr(r, name).reshape(60, *getattr(r, name).shape[2:]) for name in ("obs", "actions")
        }
        masks = None if r.masks is None else torch.as_tensor(r.masks.reshape(60, -1))
        assert (masks is not None) == masked
        with torch.no_grad():
            log_probs, _, values = made.policy.evaluate(
                to_tensor(flat["obs"], "cpu"), torch.as_tensor(flat["actions"]), masks
            )
        np.testing.assert_allclose(r.log_probs.reshape(-1), log_probs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(r.values.reshape(-1), values, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(r.next_values[:-1][~r.ends[:-1]], r.values[1:][~r.ends[:-1]])
        metrics = made.update(r, 0.0)
        assert np.isfinite(metrics["train/loss"])


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_fused_actions_of_dqn_are_legal_and_greedy_ones_the_policys_own(epsilon: float) -> None:
    made, collector = collecting("DQN", spaces.Discrete(4), True, learning_starts=0, train_freq=30)
    made.policy.epsilon = epsilon
    t = collector.collect(made.policy)  # the env refuses what is illegal
    if epsilon == 0:
        best = made.policy.act(torch.as_tensor(t.obs), torch.as_tensor(t.masks), deterministic=True)
        np.testing.assert_array_equal(t.actions, best)
    else:
        assert len(set(t.actions.tolist())) == 4
