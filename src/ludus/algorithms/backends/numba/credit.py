"""Generalised advantage estimation and V-trace in one pass each; the reference is `ludus.algorithms.advantages`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def _surprise(reward: Any, value: Any, next_value: Any, terminated: Any, gamma: float) -> Any:
    """By how much one step turned out better than its value said."""
    delta = np.float64(reward) - value
    return delta if terminated else delta + gamma * next_value


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
            delta = _surprise(rewards[t, i], values[t, i], next_values[t, i], terminated[t, i], gamma)
            running[i] = delta if ends[t, i] else delta + gamma * gae_lambda * running[i]
            advantages[t, i] = running[i]
            targets[t, i] = advantages[t, i] + values[t, i]
    return advantages, targets


@njit(cache=True, error_model="numpy")
def vtrace(
    rewards: Any,
    values: Any,
    next_values: Any,
    terminated: Any,
    ends: Any,
    ratios: Any,
    gamma: float,
    gae_lambda: float,
) -> tuple[Any, Any]:
    """What weighs each step in the policy gradient, and value targets, float32 [T, N]."""
    steps, envs = values.shape
    advantages = np.empty((steps, envs), dtype=np.float32)
    targets = np.empty((steps, envs), dtype=np.float32)
    ahead = np.zeros(envs)
    for t in range(steps - 1, -1, -1):
        for i in range(envs):
            delta = _surprise(rewards[t, i], values[t, i], next_values[t, i], terminated[t, i], gamma)
            if not ends[t, i]:
                delta += gamma * gae_lambda * ahead[i]
            ratio = np.float64(ratios[t, i])
            ahead[i] = (1.0 if ratio > 1.0 else ratio) * delta  # a NaN must come through
            advantages[t, i] = ahead[i]
            targets[t, i] = ahead[i] + values[t, i]
    return advantages, targets
