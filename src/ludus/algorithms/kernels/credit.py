"""Generalised advantage estimation in one pass; the reference is `ludus.algorithms.credit.gae`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def gae(
    rewards: Any,
    values: Any,
    next_values: Any,
    terminated: Any,
    ends: Any,
    gamma: float,
    gae_lambda: float,
) -> tuple[Any, Any]:
    """Advantages and value targets, float32 [T, N]."""
    steps, envs = values.shape
    advantages = np.empty((steps, envs), dtype=np.float32)
    targets = np.empty((steps, envs), dtype=np.float32)
    running = np.zeros(envs)
    for t in range(steps - 1, -1, -1):
        for i in range(envs):
            delta = np.float64(rewards[t, i]) - values[t, i]
            if not terminated[t, i]:
                delta += gamma * next_values[t, i]
            running[i] = delta if ends[t, i] else delta + gamma * gae_lambda * running[i]
            advantages[t, i] = running[i]
            targets[t, i] = advantages[t, i] + values[t, i]
    return advantages, targets
