"""PPO and A2C updates as one call: epochs, minibatches, both networks, clipping and the optimizer step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from ludus.algorithms.backends.numba.core import (
    FAST,
    adam,
    backward,
    clip_scale,
    f32,
    forward,
    network_size,
    rmsprop,
    squared_norm,
)
from ludus.algorithms.backends.numba.heads import categorical, categorical_slope, gaussian, gaussian_slope
from ludus.algorithms.backends.numba.inputs import put_row

# Places in the array of statistics
POLICY_LOSS, VALUE_LOSS, ENTROPY_LOSS, APPROX_KL, CLIP_FRACTION, GRAD_NORM = range(6)
N_STATS = 6

# Places in the array of settings
RATE, EPS, MAX_NORM, CLIP_RANGE, CLIP_VALUE, ENT_COEF, VF_COEF, TARGET_KL, NORMALIZE, UNCLIPPED, RMSPROP = (
    range(11)
)
N_SETTINGS = 11


@njit(cache=True)
def take_rows(source: Any, indices: Any, out: Any) -> None:
    """Fill out [B, d]; `source` is the numbers of all observations and their layout (see `inputs`)."""
    numbers, columns, integer = source
    for b in range(len(indices)):
        if len(columns) == 0:
            out[b] = numbers[indices[b]]
        else:
            put_row(numbers[indices[b]], columns, integer, out[b])


@njit(cache=True, error_model="numpy", fastmath=FAST, inline="always")
def normalizer(advantages: Any, indices: Any, settings: Any) -> tuple[float, float]:
    """Return mean and deviation of a minibatch's advantages; 0 and 1 where they are not normalised."""
    n = len(indices)
    mean, deviation = 0.0, 1.0
    if settings[NORMALIZE] > 0.0:
        for b in range(n):
            mean += advantages[indices[b]]
        mean /= n
        square = 0.0
        for b in range(n):
            square += (advantages[indices[b]] - mean) ** 2
        deviation = np.sqrt(square / (n - 1)) + 1e-8
    return mean, deviation


@njit(cache=True, error_model="numpy", fastmath=FAST, inline="always")
def add_sample(
    log_prob: Any, old_log_prob: Any, advantage: Any, n: int, settings: Any, loss: Any, kl: Any, clipped: Any
) -> tuple[Any, Any, Any, Any]:
    """Add one sample to the sums of loss, approximate KL and clipped ratios; returns them and d(loss)/d(log_prob).

    PPO's clipped surrogate, or A2C's policy gradient when settings[UNCLIPPED] is set. `n` is the minibatch's size.
    """
    if settings[UNCLIPPED] > 0.0:
        loss -= advantage * log_prob
        slope = -advantage / n
    else:
        clip_range = settings[CLIP_RANGE]
        log_ratio = np.float64(log_prob - old_log_prob)
        ratio = np.exp(log_ratio)
        clipped_ratio = min(max(ratio, 1.0 - clip_range), 1.0 + clip_range)
        surrogate, clipped_surrogate = advantage * ratio, advantage * clipped_ratio
        loss -= min(surrogate, clipped_surrogate)
        slope = 0.0 if surrogate > clipped_surrogate else -surrogate / n  # a NaN must come through
        kl += (ratio - 1.0) - log_ratio
        if abs(ratio - 1.0) > clip_range:
            clipped += 1.0
    return loss, kl, clipped, slope


@njit(cache=True, error_model="numpy", fastmath=FAST)
def policy_loss(
    outputs: Any,
    slopes: Any,
    std_slope: Any,
    log_std: Any,
    parts: Any,
    whole: Any,
    indices: Any,
    settings: Any,
    stats: Any,
) -> float:
    """Write the slopes of the policy's outputs for one minibatch; adds to `stats`, returns the mean approximate KL."""
    actions_int, actions_float, old_log_probs, advantages, masks, masked = whole
    n = len(indices)
    mean, deviation = normalizer(advantages, indices, settings)
    by_entropy = f32(-settings[ENT_COEF] / n)
    logs = np.empty(outputs.shape[1], dtype=np.float32)
    no_mask = masks[0] if masked else masks[:0].reshape(-1)
    box = len(log_std) > 0
    loss = entropy_sum = kl = clipped = 0.0
    for b in range(n):
        i = indices[b]
        mask = masks[i] if masked else no_mask
        if box:
            log_prob, entropy = gaussian(outputs, b, log_std, actions_float[i])
        else:
            log_prob, entropy = categorical(outputs, b, parts, actions_int[i], mask, masked, logs)
        advantage = (advantages[i] - mean) / deviation
        loss, kl, clipped, by_log_prob = add_sample(
            log_prob, old_log_probs[i], advantage, n, settings, loss, kl, clipped
        )
        entropy_sum += entropy
        if box:
            gaussian_slope(
                slopes[b], std_slope, outputs, b, log_std, actions_float[i], f32(by_log_prob), by_entropy
            )
        else:
            categorical_slope(
                slopes[b], parts, actions_int[i], mask, masked, logs, f32(by_log_prob), by_entropy
            )
    stats[POLICY_LOSS] += loss / n
    stats[ENTROPY_LOSS] -= entropy_sum / n
    stats[APPROX_KL] += kl / n
    stats[CLIP_FRACTION] += clipped / n
    return kl / n


@njit(cache=True, error_model="numpy", fastmath=FAST)
def value_loss(
    values: Any, slopes: Any, returns: Any, old_values: Any, indices: Any, settings: Any, stats: Any
) -> None:
    """Slopes of the value outputs for one minibatch (1-d views); adds to `stats`."""
    n = len(indices)
    limit = settings[CLIP_VALUE]
    total = 0.0
    for b in range(n):
        i = indices[b]
        value = np.float64(values[b])
        moves = True
        if limit >= 0.0:
            change = value - old_values[i]
            if abs(change) > limit:
                value = old_values[i] + (limit if change > 0.0 else -limit)
                moves = False
        error = value - returns[i]
        total += error * error
        slopes[b] = f32(settings[VF_COEF] * 2.0 * error / n) if moves else f32(0.0)
    stats[VALUE_LOSS] += total / n


@njit(cache=True, error_model="numpy", fastmath=FAST)
def policy_pass(
    memory: Any,
    plan: Any,
    obs: Any,
    whole: Any,
    values_of: Any,
    indices: Any,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> float:
    """Gradients of the policy network (with the value head on it, when the trunk is shared)."""
    parameters, gradients = memory[0], memory[1]
    dims, _, parts, kinds = plan
    kind, shared, n_box = kinds[0], kinds[1] > 0, kinds[2]
    inputs, work, slopes, _, _, _ = buffers
    rows = len(indices)
    x = inputs[:rows]
    take_rows(obs, indices, x)
    outputs = forward(parameters, 0, dims, kind, x, work)
    width = dims[-1]
    place = 0
    for layer in range(len(dims) - 2):
        place += rows * dims[layer + 1]
    slope = slopes[place : place + rows * width].reshape((rows, width))
    size = network_size(dims)
    log_std = parameters[size : size + n_box]
    std_slope = gradients[size : size + n_box]
    std_slope[:] = f32(0.0)
    kl = policy_loss(outputs, slope, std_slope, log_std, parts, whole, indices, settings, stats)
    if shared:
        returns, old_values = values_of
        slope_of_value = np.empty(rows, dtype=np.float32)
        values = np.empty(rows, dtype=np.float32)
        for b in range(rows):
            values[b] = outputs[b, width - 1]
        value_loss(values, slope_of_value, returns, old_values, indices, settings, stats)
        for b in range(rows):
            slope[b, width - 1] = slope_of_value[b]
    backward(parameters, gradients, 0, dims, kind, x, work, slopes)
    return kl


@njit(cache=True, error_model="numpy", fastmath=FAST)
def value_pass(
    memory: Any, plan: Any, obs: Any, values_of: Any, indices: Any, settings: Any, stats: Any, buffers: Any
) -> None:
    """Gradients of the separate value network."""
    parameters, gradients = memory[0], memory[1]
    dims_pi, dims, _, kinds = plan
    _, _, _, inputs, work, slopes = buffers
    returns, old_values = values_of
    offset = network_size(dims_pi) + kinds[2]
    rows = len(indices)
    x = inputs[:rows]
    take_rows(obs, indices, x)
    outputs = forward(parameters, offset, dims, kinds[0], x, work)
    place = 0
    for layer in range(len(dims) - 2):
        place += rows * dims[layer + 1]
    value_loss(
        outputs.reshape(-1), slopes[place : place + rows], returns, old_values, indices, settings, stats
    )
    backward(parameters, gradients, offset, dims, kinds[0], x, work, slopes)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def optimize(memory: Any, low: int, high: int, step: int, settings: Any, scale: float) -> None:
    """One optimizer step on a stretch of the parameters."""
    parameters, gradients, first, second = memory
    if settings[RMSPROP] > 0.0:
        rmsprop(
            parameters[low:high], gradients[low:high], second[low:high], settings[RATE], settings[EPS], scale
        )
    else:
        adam(
            parameters[low:high],
            gradients[low:high],
            first[low:high],
            second[low:high],
            step,
            settings[RATE],
            settings[EPS],
            scale,
        )


@njit(cache=True, error_model="numpy", fastmath=FAST, nogil=True)
def update(
    memory: Any,
    plan: Any,
    obs: Any,
    whole: Any,
    values_of: Any,
    order: Any,
    batch_size: int,
    step: int,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> tuple[int, bool]:
    """One pass over the samples in minibatches. Returns the optimizer steps taken, and whether to end here.

    It ends before a step when the approximate KL has passed settings[TARGET_KL] (if that is not negative), or
    when the gradient is not finite; stats[GRAD_NORM] is then not finite either.
    """
    dims_pi, _, _, kinds = plan
    split = network_size(dims_pi) + kinds[2]
    size = len(memory[0])
    n = len(order)
    steps = 0
    for start in range(0, n, batch_size):
        indices = order[start : min(start + batch_size, n)]
        if len(indices) < 2 and settings[NORMALIZE] > 0.0:
            continue
        before = stats.copy()
        kl = policy_pass(memory, plan, obs, whole, values_of, indices, settings, stats, buffers)
        if settings[TARGET_KL] >= 0.0 and kl > 1.5 * settings[TARGET_KL]:
            stats[:] = before  # no step, no statistics but the KL itself
            stats[APPROX_KL] += kl
            return steps, True
        if kinds[1] == 0:
            value_pass(memory, plan, obs, values_of, indices, settings, stats, buffers)
        norm = np.sqrt(squared_norm(memory[1][:split]) + squared_norm(memory[1][split:]))
        stats[GRAD_NORM] += norm
        if not np.isfinite(norm):
            return steps, True
        steps += 1
        optimize(memory, 0, size, step + steps, settings, clip_scale(norm, settings[MAX_NORM]))
    return steps, False


@njit(cache=True, error_model="numpy", fastmath=FAST, parallel=True, nogil=True)
def update_on_two_cores(
    memory: Any,
    plan: Any,
    obs: Any,
    whole: Any,
    values_of: Any,
    order: Any,
    batch_size: int,
    step: int,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> tuple[int, bool]:
    """As `update`, for separate networks: one core has the policy, the other the value network.

    They meet once per minibatch, to clip by the norm of both gradients; each then steps its own parameters at
    the beginning of the next meeting. Parameters and statistics come out the same to the bit: the two sides
    add to different places of `stats`.
    """
    dims_pi, _, _, kinds = plan
    split = network_size(dims_pi) + kinds[2]
    size = len(memory[0])
    n = len(order)
    steps = 0
    scale = -1.0  # below zero: no step is waiting
    norms = np.zeros(2)
    kls = np.zeros(1)
    ended = False
    for start in range(0, n, batch_size):
        indices = order[start : min(start + batch_size, n)]
        if len(indices) < 2 and settings[NORMALIZE] > 0.0:
            continue
        before = stats.copy()
        for side in prange(2):
            if side == 0:
                if scale >= 0.0:
                    optimize(memory, 0, split, step + steps, settings, scale)
                kls[0] = policy_pass(memory, plan, obs, whole, values_of, indices, settings, stats, buffers)
                norms[0] = squared_norm(memory[1][:split])
            else:
                if scale >= 0.0:
                    optimize(memory, split, size, step + steps, settings, scale)
                value_pass(memory, plan, obs, values_of, indices, settings, stats, buffers)
                norms[1] = squared_norm(memory[1][split:])
        scale = -1.0
        if settings[TARGET_KL] >= 0.0 and kls[0] > 1.5 * settings[TARGET_KL]:
            stats[:] = before
            stats[APPROX_KL] += kls[0]
            ended = True
            break
        norm = np.sqrt(norms[0] + norms[1])
        stats[GRAD_NORM] += norm
        if not np.isfinite(norm):
            ended = True
            break
        steps += 1
        scale = clip_scale(norm, settings[MAX_NORM])
    if scale >= 0.0:
        optimize(memory, 0, size, step + steps, settings, scale)
    return steps, ended
