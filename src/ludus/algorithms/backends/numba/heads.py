"""Loss heads: what the outputs of a network mean, and the slope of the loss with respect to them.

A head reads outputs [B, n] and writes d(loss)/d(outputs) over the same rows of `slopes`. Actions come as int64
[B, parts] for Discrete and MultiDiscrete (`parts` holds the sizes), or float32 [B, n] for Box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import FAST, f32

ILLEGAL = f32(-1e8)
HALF_LOG_TWO_PI = f32(0.9189385332046727)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def log_softmax(logits: Any, start: int, size: int, mask: Any, masked: bool, out: Any) -> None:
    """out[start:start+size] = log-probabilities; illegal entries get a value whose exp is zero."""
    top = f32(-3.0e38)
    for k in range(start, start + size):
        z = logits[k] if not masked or mask[k] else ILLEGAL
        out[k] = z
        if z > top:
            top = z
    total = f32(0.0)
    for k in range(start, start + size):
        total += np.exp(out[k] - top)
    shift = top + np.log(total)
    for k in range(start, start + size):
        out[k] -= shift


@njit(cache=True, error_model="numpy", fastmath=FAST)
def categorical(
    outputs: Any, row: int, parts: Any, action: Any, mask: Any, masked: bool, logs: Any
) -> tuple[Any, Any]:
    """Log-probability of `action` and entropy of row `row`; `logs` keeps the log-probabilities."""
    start = 0
    log_prob = f32(0.0)
    entropy = f32(0.0)
    for part in range(len(parts)):
        size = parts[part]
        log_softmax(outputs[row], start, size, mask, masked, logs)
        log_prob += logs[start + action[part]]
        for k in range(start, start + size):
            if not masked or mask[k]:
                entropy -= np.exp(logs[k]) * logs[k]
        start += size
    return log_prob, entropy


@njit(cache=True, error_model="numpy", fastmath=FAST)
def categorical_slope(
    slope: Any, parts: Any, action: Any, mask: Any, masked: bool, logs: Any, by_log_prob: Any, by_entropy: Any
) -> None:
    """d(loss)/d(logits) of one row, from d(loss)/d(log_prob) and d(loss)/d(entropy)."""
    start = 0
    for part in range(len(parts)):
        size = parts[part]
        part_entropy = f32(0.0)
        for k in range(start, start + size):
            if not masked or mask[k]:
                part_entropy -= np.exp(logs[k]) * logs[k]
        for k in range(start, start + size):
            if masked and not mask[k]:
                slope[k] = f32(0.0)
                continue
            p = np.exp(logs[k])
            slope[k] = -by_log_prob * p - by_entropy * p * (logs[k] + part_entropy)
        slope[start + action[part]] += by_log_prob
        start += size


@njit(cache=True, error_model="numpy", fastmath=FAST)
def gaussian(outputs: Any, row: int, log_std: Any, action: Any) -> tuple[Any, Any]:
    """Log-probability of `action` and entropy of row `row` of a diagonal Gaussian."""
    log_prob = f32(0.0)
    entropy = f32(0.0)
    for k in range(len(log_std)):
        z = (action[k] - outputs[row, k]) * np.exp(-log_std[k])
        log_prob -= f32(0.5) * z * z + log_std[k] + HALF_LOG_TWO_PI
        entropy += log_std[k] + f32(0.5) + HALF_LOG_TWO_PI
    return log_prob, entropy


@njit(cache=True, error_model="numpy", fastmath=FAST)
def gaussian_slope(
    slope: Any,
    std_slope: Any,
    outputs: Any,
    row: int,
    log_std: Any,
    action: Any,
    by_log_prob: Any,
    by_entropy: Any,
) -> None:
    """As `categorical_slope`; adds d(loss)/d(log_std) to `std_slope`."""
    for k in range(len(log_std)):
        inverse = np.exp(-log_std[k])
        z = (action[k] - outputs[row, k]) * inverse
        slope[k] = by_log_prob * z * inverse
        std_slope[k] += by_log_prob * (z * z - f32(1.0)) + by_entropy
