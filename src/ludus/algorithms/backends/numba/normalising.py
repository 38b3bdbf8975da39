"""Running normalisation as one call per vector step: statistics take the batch in, then the batch is scaled.

The same arithmetic as `policies/observations.py`, which tests hold this to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import f32


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
def see_observations(
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
def see_rewards(
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
