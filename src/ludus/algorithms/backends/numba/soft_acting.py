"""Actor of SAC: squashed Gaussian actions, row by row for the envs and in panels for the learner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba import core
from ludus.algorithms.backends.numba.core import FAST, f32, tanh
from ludus.algorithms.backends.numba.heads import HALF_LOG_TWO_PI
from ludus.algorithms.backends.numba.panels import forward, panels_of
from ludus.algorithms.backends.numba.tiles import PANEL

LOG_STD_MIN, LOG_STD_MAX = f32(-20.0), f32(2.0)
LOG_TWO = f32(0.6931471805599453)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def squash(mean: Any, log_std: Any, z: Any) -> tuple[Any, Any]:
    """One number of an action, drawn from a squashed Gaussian, and its part of the action's log-probability."""
    log_std = min(max(log_std, LOG_STD_MIN), LOG_STD_MAX)
    raw = mean + np.exp(log_std) * z
    # log(1 - tanh(x)^2) = 2 (log 2 - x - log(1 + exp(-2 x))), stable for large x
    double = f32(-2.0) * raw
    softplus = max(double, f32(0.0)) + np.log1p(np.exp(-abs(double)))
    slope = f32(2.0) * (LOG_TWO - raw - softplus)
    return tanh(raw), -(f32(0.5) * z * z + log_std + HALF_LOG_TWO_PI + slope)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def act(parameters: Any, dims: Any, kind: int, obs: Any, noise: Any, work: Any, actions: Any) -> None:
    """Fill actions [N, size] in -1 to 1 for obs [N, d]."""
    outputs = core.forward(parameters, 0, dims, kind, obs, work)
    rows, size = noise.shape
    for b in range(rows):
        for k in range(size):
            actions[b, k], _ = squash(outputs[b, k], outputs[b, size + k], noise[b, k])


@njit(cache=True, error_model="numpy", fastmath=FAST)
def lay(
    source: Any,
    indices: Any,
    moments: Any,
    clip: float,
    first: int,
    width: int,
    out: Any,
    low: int,
    high: int,
) -> None:
    """Rows of `source` become features `first`… of panels with `width` of them, normalised by `moments` if any."""
    mean, scale = moments
    limit = f32(clip)
    for b in range(low * PANEL, min(high * PANEL, len(indices))):
        row = source[indices[b]]
        at = ((b // PANEL) * width + first) * PANEL + b % PANEL
        for j in range(len(row)):
            x = f32(row[j])
            if len(mean) > 0:
                x = min(max(f32((row[j] - mean[j]) * scale[j]), -limit), limit)
            out[at + j * PANEL] = x


@njit(cache=True, error_model="numpy", fastmath=FAST)
def look(
    actor: Any,
    plan: Any,
    source: Any,
    moments: Any,
    indices: Any,
    noise: Any,
    clip: float,
    inputs: Any,
    log_probs: Any,
    work: Any,
    low: int,
    high: int,
) -> None:
    """Fill one input of the critics, panels `low` to `high`: rows of `source`, and what the actor does there.

    `work` is left as the actor's pass, for its gradient.
    """
    actor_dims, critic_dims, kind, rows = plan
    n_obs, n_in, size = actor_dims[0], critic_dims[0], noise.shape[1]
    lay(source, indices, moments, clip, 0, n_in, inputs, low, high)
    outputs = forward(actor, 0, actor_dims, kind, inputs, n_in, work, panels_of(rows), low, high)
    for b in range(low * PANEL, min(high * PANEL, rows)):
        panel, lane = b // PANEL, b % PANEL
        mean_at = outputs + panel * 2 * size * PANEL + lane
        action_at = (panel * n_in + n_obs) * PANEL + lane
        total = f32(0.0)
        for k in range(size):
            mean, log_std = work[mean_at + k * PANEL], work[mean_at + (size + k) * PANEL]
            inputs[action_at + k * PANEL], part = squash(mean, log_std, noise[b, k])
            total += part
        log_probs[b] = total
