"""Credit: from rewards to advantages. Small pure functions over [T, N] arrays."""

from __future__ import annotations

import numpy as np

from ludus.types import Array, BoolArray


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: BoolArray,
    ends: BoolArray,
    gamma: float,
    gae_lambda: float,
) -> tuple[Array, Array]:
    """Generalised advantage estimation (Schulman et al., 2016): advantages and value targets, float32 [T, N].

    `next_values` is the value of the true successor: it counts unless the step terminated, so truncation is
    bootstrapped and termination is not. At `ends` the sum over later steps stops. What does not count may be NaN.
    """
    advantages = np.zeros_like(values, dtype=np.float32)
    deltas = rewards + gamma * np.where(terminated, 0.0, next_values) - values
    decay = gamma * gae_lambda
    running = np.zeros(values.shape[1:], dtype=np.float64)
    for t in range(len(rewards) - 1, -1, -1):
        running = deltas[t] + decay * np.where(ends[t], 0.0, running)
        advantages[t] = running
    return advantages, (advantages + values).astype(np.float32)


def vtrace(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: BoolArray,
    ends: BoolArray,
    ratios: Array,
    gamma: float,
    gae_lambda: float,
) -> tuple[Array, Array]:
    """V-trace (Espeholt et al., 2018): credit for steps that another policy took; float32 [T, N] each.

    `values` and `next_values` are those of the policy that learns, `ratios` its probability of each action over that
    of the policy which acted. Ratios above 1 count as 1 (the paper's rho and c), and `gae_lambda` shortens traces as in
    its appendix. Returns what weighs each step in the policy gradient, ratio included, and the value targets. Where all
    ratios are 1 both are those of `gae`.
    """
    weights = np.minimum(ratios, 1.0)
    deltas = rewards + gamma * np.where(terminated, 0.0, next_values) - values
    decay = gamma * gae_lambda
    advantages = np.zeros_like(values, dtype=np.float32)
    targets = np.zeros_like(values, dtype=np.float32)
    ahead = np.zeros(values.shape[1:], dtype=np.float64)  # target minus value of the step that follows
    for t in range(len(rewards) - 1, -1, -1):
        ahead = weights[t] * (deltas[t] + decay * np.where(ends[t], 0.0, ahead))
        advantages[t] = ahead
        targets[t] = ahead + values[t]
    return advantages, targets
