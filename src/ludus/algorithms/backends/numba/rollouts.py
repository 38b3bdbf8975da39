"""Kernels for rollouts: running normalisation as one call per vector step, advantages in one pass.

The references, which tests compare them with, are `ludus.policies.observations` and `ludus.algorithms.advantages`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import f32


@njit(cache=True, error_model="numpy")
def _surprise(reward: Any, value: Any, next_value: Any, terminated: Any, gamma: float) -> Any:
    """Return the TD error of one step."""
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
    """Return the advantages for the policy gradient, and the value targets, float32 [T, N]."""
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


@njit(cache=True, error_model="numpy")
def merge(batch: Any, mean: Any, var: Any, count: Any) -> Any:
    """Merge batch [n, d] into the float64 moments mean [d] and var [d] of `count` rows; returns the new count."""
    n, width = batch.shape
    batch_mean, squares = np.zeros(width), np.zeros(width)
    for b in range(n):
        for j in range(width):
            batch_mean[j] += batch[b, j]
    for j in range(width):
        batch_mean[j] /= n
    for b in range(n):
        for j in range(width):
            deviation = batch[b, j] - batch_mean[j]
            squares[j] += deviation * deviation
    total = count + n
    for j in range(width):
        delta = batch_mean[j] - mean[j]
        mean[j] += delta * (n / total)
        var[j] = (var[j] * count + squares[j] + delta * delta * (count * n / total)) / total
    return total


@njit(cache=True, error_model="numpy")
def normalize_observations(
    obs: Any, mean: Any, var: Any, count: Any, clip: float, epsilon: float, out: Any
) -> None:
    """Merge obs [n, d] into the moments, then fill out [n, d] with them, scaled and clipped."""
    count[0] = merge(obs, mean, var, count[0])
    n, width = obs.shape
    scale = np.empty(width)
    for j in range(width):
        scale[j] = np.sqrt(var[j] + epsilon)
    for b in range(n):
        for j in range(width):
            out[b, j] = f32(min(max((obs[b, j] - mean[j]) / scale[j], -clip), clip))


@njit(cache=True, error_model="numpy")
def normalize_rewards(
    rewards: Any,
    ended: Any,
    valid: Any,
    returns: Any,
    mean: Any,
    var: Any,
    count: Any,
    gamma: float,
    clip: float,
    epsilon: float,
    out: Any,
) -> None:
    """Take one step's rewards [n] into the discounted returns and their moments, then fill `out` with them scaled."""
    n = len(rewards)
    known = np.empty((n, 1))
    rows = 0
    for i in range(n):
        returns[i] = returns[i] * gamma + rewards[i]
        if valid[i]:
            known[rows, 0] = returns[i]
            rows += 1
        if ended[i] or not valid[i]:
            returns[i] = 0.0
    if rows > 0:
        count[0] = merge(known[:rows], mean, var, count[0])
    scale = np.sqrt(var[0] + epsilon)
    for i in range(n):
        out[i] = f32(min(max(rewards[i] / scale, -clip), clip))
