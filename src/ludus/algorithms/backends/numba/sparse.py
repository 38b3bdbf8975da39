"""PPO and A2C where observations are mostly zeros and few actions are legal: only what is there is multiplied.

A card game may be observed as 1,700 numbers of which 150 are not zero, and allows 20 of 600 moves. The first layer then
reads the rows of its weights that belong to numbers that are there, and the last one computes legal actions only.
Everything else is as in `policy_gradient`, to which the tests hold it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from ludus.algorithms.backends.numba.acting import pick
from ludus.algorithms.backends.numba.core import (
    FAST,
    activate,
    clip_scale,
    f32,
    network_size,
    scale_by_slope,
    squared_norm,
)
from ludus.algorithms.backends.numba.first_layer import (
    first_layer,
    first_layer_by_unit,
    first_layer_gradient,
    first_layer_gradient_by_unit,
    transpose,
    turn_first_layer,
    worth_transposing,
)
from ludus.algorithms.backends.numba.policy_gradient import (
    APPROX_KL,
    CLIP_FRACTION,
    ENT_COEF,
    ENTROPY_LOSS,
    GRAD_NORM,
    MAX_NORM,
    NORMALIZE,
    POLICY_LOSS,
    TARGET_KL,
    add_sample,
    normalizer,
    optimize,
    value_loss,
)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def hidden_forward(
    parameters: Any,
    offset: int,
    dims: Any,
    kind: int,
    there: Any,
    indices: Any,
    turned: Any,
    is_turned: bool,
    work: Any,
) -> Any:
    """The values of the last hidden layer, a view into `work`, which keeps those of all for `hidden_backward`.

    `turned` is the first layer's weight as [n_in, n_out], if `is_turned`.
    """
    rows = len(indices)
    n_in, n_out = dims[0], dims[1]
    y = work[: rows * n_out].reshape((rows, n_out))
    if is_turned:
        first_layer(turned, there, indices, y)
    else:
        first_layer_by_unit(
            parameters[offset : offset + n_in * n_out].reshape((n_out, n_in)), there, indices, y
        )
    offset += n_in * n_out
    activate(y, parameters[offset : offset + n_out], kind)
    offset += n_out
    place = rows * n_out
    x = y
    for layer in range(1, len(dims) - 2):
        n_in, n_out = dims[layer], dims[layer + 1]
        weight = parameters[offset : offset + n_in * n_out].reshape((n_out, n_in))
        offset += n_in * n_out
        y = work[place : place + rows * n_out].reshape((rows, n_out))
        place += rows * n_out
        np.dot(x, weight.T, y)
        activate(y, parameters[offset : offset + n_out], kind)
        offset += n_out
        x = y
    return x


@njit(cache=True, error_model="numpy", fastmath=FAST)
def hidden_backward(
    parameters: Any,
    gradients: Any,
    offset: int,
    dims: Any,
    kind: int,
    there: Any,
    indices: Any,
    turned: Any,
    is_turned: bool,
    work: Any,
    slopes: Any,
) -> None:
    """Gradients of the hidden layers, given d(loss)/d(last hidden values) at their place in `slopes`."""
    rows = len(indices)
    layers = len(dims) - 2
    end = offset
    place = 0
    for layer in range(layers):
        end += dims[layer] * dims[layer + 1] + dims[layer + 1]
        place += rows * dims[layer + 1]
    for layer in range(layers - 1, -1, -1):
        n_in, n_out = dims[layer], dims[layer + 1]
        place -= rows * n_out
        dy = slopes[place : place + rows * n_out].reshape((rows, n_out))
        scale_by_slope(dy, work[place : place + rows * n_out].reshape((rows, n_out)), kind)
        end -= n_out
        bias_gradient = gradients[end : end + n_out]
        bias_gradient[:] = f32(0.0)
        for b in range(rows):
            for j in range(n_out):
                bias_gradient[j] += dy[b, j]
        end -= n_in * n_out
        weight_gradient = gradients[end : end + n_in * n_out].reshape((n_out, n_in))
        if layer == 0 and is_turned:
            first_layer_gradient(there, indices, dy, turned)
            transpose(turned, weight_gradient)
        elif layer == 0:
            first_layer_gradient_by_unit(there, indices, dy, weight_gradient)
        else:
            before = place - rows * n_in
            x = work[before : before + rows * n_in].reshape((rows, n_in))
            np.dot(dy.T, x, weight_gradient)
            weight = parameters[end : end + n_in * n_out].reshape((n_out, n_in))
            np.dot(dy, weight, slopes[before : before + rows * n_in].reshape((rows, n_in)))


@njit(cache=True, error_model="numpy", fastmath=FAST)
def legal_logs(x: Any, weight: Any, bias: Any, columns: Any, logs: Any) -> None:
    """logs[k] = log-probability of the legal action columns[k], for one row `x` of the last hidden layer."""
    top = f32(-3.0e38)
    for k in range(len(columns)):
        w = weight[columns[k]]
        z = bias[columns[k]]
        for j in range(len(x)):
            z += x[j] * w[j]
        logs[k] = z
        top = max(top, z)
    total = f32(0.0)
    for k in range(len(columns)):
        total += np.exp(logs[k] - top)
    shift = top + np.log(total)
    for k in range(len(columns)):
        logs[k] -= shift


@njit(cache=True, error_model="numpy", fastmath=FAST)
def policy_pass(
    memory: Any,
    plan: Any,
    there: Any,
    legal: Any,
    whole: Any,
    indices: Any,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> float:
    """Gradients of the policy network for one minibatch; adds to `stats` and returns the mean approximate KL."""
    parameters, gradients = memory[0], memory[1]
    dims, _, _, kinds = plan
    work, slopes, turned = buffers[0], buffers[1], buffers[2]
    actions, old_log_probs, advantages = whole
    legal_starts, legal_columns = legal
    n = len(indices)
    is_turned = worth_transposing(there, indices, dims[0])
    if is_turned:
        turn_first_layer(parameters, 0, dims, turned)
    x = hidden_forward(parameters, 0, dims, kinds[0], there, indices, turned, is_turned, work)
    width, n_out = dims[-2], dims[-1]
    start = network_size(dims) - width * n_out - n_out
    weight = parameters[start : start + width * n_out].reshape((n_out, width))
    bias = parameters[start + width * n_out : start + width * n_out + n_out]
    weight_gradient = gradients[start : start + width * n_out].reshape((n_out, width))
    bias_gradient = gradients[start + width * n_out : start + width * n_out + n_out]
    weight_gradient[:] = f32(0.0)
    bias_gradient[:] = f32(0.0)
    place = 0
    for layer in range(len(dims) - 3):
        place += n * dims[layer + 1]
    dx = slopes[place : place + n * width].reshape((n, width))

    mean, deviation = normalizer(advantages, indices, settings)
    by_entropy = f32(-settings[ENT_COEF] / n)
    logs = np.empty(n_out, dtype=np.float32)
    entropy_sum: Any = 0.0
    loss = kl = clipped = 0.0
    for b in range(n):
        i = indices[b]
        columns = legal_columns[legal_starts[i] : legal_starts[i + 1]]
        legal_logs(x[b], weight, bias, columns, logs)
        entropy = f32(0.0)
        chosen = 0
        for k in range(len(columns)):
            entropy -= np.exp(logs[k]) * logs[k]
            if columns[k] == actions[i]:
                chosen = k
        log_prob = logs[chosen]
        advantage = (advantages[i] - mean) / deviation
        loss, kl, clipped, by_log_prob = add_sample(
            log_prob, old_log_probs[i], advantage, n, settings, loss, kl, clipped
        )
        entropy_sum += entropy
        row, slope_row = x[b], dx[b]
        slope_row[:] = f32(0.0)
        for k in range(len(columns)):
            p = np.exp(logs[k])
            slope = -f32(by_log_prob) * p - by_entropy * p * (logs[k] + entropy)
            if k == chosen:
                slope += f32(by_log_prob)
            w, g = weight[columns[k]], weight_gradient[columns[k]]
            bias_gradient[columns[k]] += slope
            for j in range(width):
                g[j] += slope * row[j]
                slope_row[j] += slope * w[j]
    stats[POLICY_LOSS] += loss / n
    stats[ENTROPY_LOSS] -= entropy_sum / n
    stats[APPROX_KL] += kl / n
    stats[CLIP_FRACTION] += clipped / n
    hidden_backward(parameters, gradients, 0, dims, kinds[0], there, indices, turned, is_turned, work, slopes)
    return kl / n


@njit(cache=True, error_model="numpy", fastmath=FAST)
def value_pass(
    memory: Any, plan: Any, there: Any, values_of: Any, indices: Any, settings: Any, stats: Any, buffers: Any
) -> None:
    """Gradients of the value network for one minibatch."""
    parameters, gradients = memory[0], memory[1]
    dims_pi, dims, _, kinds = plan
    work, slopes, turned = buffers[3], buffers[4], buffers[5]
    returns, old_values = values_of
    offset = network_size(dims_pi)
    n = len(indices)
    is_turned = worth_transposing(there, indices, dims[0])
    if is_turned:
        turn_first_layer(parameters, offset, dims, turned)
    x = hidden_forward(parameters, offset, dims, kinds[0], there, indices, turned, is_turned, work)
    width = dims[-2]
    start = offset + network_size(dims) - width - 1
    weight, bias = parameters[start : start + width], parameters[start + width]
    values, slope = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    for b in range(n):
        total = bias
        for j in range(width):
            total += x[b, j] * weight[j]
        values[b] = total
    value_loss(values, slope, returns, old_values, indices, settings, stats)
    place = 0
    for layer in range(len(dims) - 3):
        place += n * dims[layer + 1]
    dx = slopes[place : place + n * width].reshape((n, width))
    gradient = gradients[start : start + width]
    gradient[:] = f32(0.0)
    total = f32(0.0)
    for b in range(n):
        total += slope[b]
        for j in range(width):
            gradient[j] += slope[b] * x[b, j]
            dx[b, j] = slope[b] * weight[j]
    gradients[start + width] = total
    hidden_backward(
        parameters, gradients, offset, dims, kinds[0], there, indices, turned, is_turned, work, slopes
    )


@njit(cache=True, error_model="numpy", fastmath=FAST, parallel=True, nogil=True)
def update(
    memory: Any,
    plan: Any,
    there: Any,
    legal: Any,
    whole: Any,
    values_of: Any,
    order: Any,
    batch_size: int,
    step: int,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> tuple[int, bool]:
    """As `policy_gradient.update_on_two_cores`, the policy and the value network side by side where there are two."""
    split = network_size(plan[0])
    size = len(memory[0])
    n = len(order)
    steps = 0
    norms = np.zeros(2)
    kls = np.zeros(1)
    for start in range(0, n, batch_size):
        indices = order[start : min(start + batch_size, n)]
        if len(indices) < 2 and settings[NORMALIZE] > 0.0:
            continue
        before = stats.copy()
        for side in prange(2):
            if side == 0:
                kls[0] = policy_pass(memory, plan, there, legal, whole, indices, settings, stats, buffers)
                norms[0] = squared_norm(memory[1][:split])
            else:
                value_pass(memory, plan, there, values_of, indices, settings, stats, buffers)
                norms[1] = squared_norm(memory[1][split:])
        if settings[TARGET_KL] >= 0.0 and kls[0] > 1.5 * settings[TARGET_KL]:
            stats[:] = before  # no step, no statistics but the KL itself
            stats[APPROX_KL] += kls[0]
            return steps, True
        norm = np.sqrt(norms[0] + norms[1])
        stats[GRAD_NORM] += norm
        if not np.isfinite(norm):
            return steps, True
        steps += 1
        scale = clip_scale(norm, settings[MAX_NORM])
        for side in prange(2):
            if side == 0:
                optimize(memory, 0, split, step + steps, settings, scale)
            else:
                optimize(memory, split, size, step + steps, settings, scale)
    return steps, False


@njit(cache=True, error_model="numpy", fastmath=FAST)
def choose(
    parameters: Any, plan: Any, there: Any, legal: Any, noise: Any, turned: Any, work: Any, chosen: Any
) -> None:
    """Fill the actions and their log-probabilities."""
    dims_pi, _, _, kinds = plan
    actions, log_probs = chosen
    n = len(actions)
    legal_starts, legal_columns = legal
    x = hidden_forward(parameters, 0, dims_pi, kinds[0], there, np.arange(n), turned, True, work)
    width, n_out = dims_pi[-2], dims_pi[-1]
    size = network_size(dims_pi)
    start = size - width * n_out - n_out
    weight = parameters[start : start + width * n_out].reshape((n_out, width))
    bias = parameters[start + width * n_out : size]
    logs = np.empty(n_out, dtype=np.float32)
    nothing = np.zeros(0, dtype=np.bool_)
    for b in range(n):
        columns = legal_columns[legal_starts[b] : legal_starts[b + 1]]
        legal_logs(x[b], weight, bias, columns, logs)
        k = pick(logs, 0, len(columns), nothing, False, noise[b, 0])
        actions[b, 0] = columns[k]
        log_probs[b] = logs[k]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def state_values(parameters: Any, plan: Any, there: Any, n: int, turned: Any, work: Any, values: Any) -> None:
    """Fill the values."""
    dims_pi, dims_v, _, kinds = plan
    offset = network_size(dims_pi)
    x = hidden_forward(parameters, offset, dims_v, kinds[0], there, np.arange(n), turned, True, work)
    width = dims_v[-2]
    start = offset + network_size(dims_v) - width - 1
    for b in range(n):
        total = parameters[start + width]
        for j in range(width):
            total += x[b, j] * parameters[start + j]
        values[b] = total


@njit(cache=True, error_model="numpy", fastmath=FAST, parallel=True)
def act(
    parameters: Any,
    plan: Any,
    there: Any,
    legal: Any,
    noise: Any,
    turned: Any,
    work: Any,
    chosen: Any,
    values: Any,
) -> None:
    """Fill actions and log-probabilities (`chosen`) and values, side by side where there are two cores.

    `noise` is uniform [N, 1], `turned` as `turn` leaves it; it and `work` are for the policy and the value network.
    """
    for side in prange(2):
        if side == 0:
            choose(parameters, plan, there, legal, noise, turned[0], work[0], chosen)
        else:
            state_values(parameters, plan, there, len(values), turned[1], work[1], values)
