"""Acting: both networks, a sample and its log-probability for all envs, in one call of a few microseconds.

And what a policy thinks of actions that another one took.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import FAST, f32, forward, network_size
from ludus.algorithms.backends.numba.heads import HALF_LOG_TWO_PI, categorical, gaussian, log_softmax


@njit(cache=True, error_model="numpy", fastmath=FAST)
def act(
    parameters: Any,
    plan: Any,
    obs: Any,
    noise: Any,
    masks: Any,
    masked: bool,
    work: Any,
    actions_int: Any,
    actions_float: Any,
    log_probs: Any,
    values: Any,
) -> None:
    """Fill actions, log-probabilities and values for obs [N, d].

    `noise` is uniform [N, parts] for categorical actions (inverse of the cumulative distribution), standard
    normal [N, n] for Box.
    """
    dims_pi, dims_v, parts, kinds = plan
    kind, shared, n_box = kinds[0], kinds[1] > 0, kinds[2]
    n = len(obs)
    outputs = forward(parameters, 0, dims_pi, kind, obs, work)
    size = network_size(dims_pi)
    if n_box > 0:
        log_std = parameters[size : size + n_box]
        for b in range(n):
            total = f32(0.0)
            for k in range(n_box):
                z = noise[b, k]
                actions_float[b, k] = outputs[b, k] + np.exp(log_std[k]) * z
                total -= f32(0.5) * z * z + log_std[k] + HALF_LOG_TWO_PI
            log_probs[b] = total
    else:
        logs = np.empty(outputs.shape[1], dtype=np.float32)
        no_mask = masks[0] if masked else masks[:0].reshape(-1)
        for b in range(n):
            mask = masks[b] if masked else no_mask
            start = 0
            total = f32(0.0)
            for part in range(len(parts)):
                log_softmax(outputs[b], start, parts[part], mask, masked, logs)
                chosen = pick(logs, start, parts[part], mask, masked, noise[b, part])
                actions_int[b, part] = chosen
                total += logs[start + chosen]
                start += parts[part]
            log_probs[b] = total
    if shared:
        last = dims_pi[-1] - 1
        for b in range(n):
            values[b] = outputs[b, last]
    else:
        out = forward(parameters, size + n_box, dims_v, kind, obs, work)
        for b in range(n):
            values[b] = out[b, 0]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def pick(logs: Any, start: int, size: int, mask: Any, masked: bool, uniform: Any) -> int:
    """The index at which the cumulative probability passes `uniform`; always a legal one."""
    reached = f32(0.0)
    chosen = 0
    for k in range(size):
        if masked and not mask[start + k]:
            continue
        chosen = k
        reached += np.exp(logs[start + k])
        if reached > uniform:
            break
    return chosen


@njit(cache=True, error_model="numpy", fastmath=FAST)
def state_values(parameters: Any, plan: Any, obs: Any, work: Any, values: Any) -> None:
    """Fill the values of obs [N, d]."""
    dims_pi, dims_v, _, kinds = plan
    if kinds[1] > 0:
        outputs = forward(parameters, 0, dims_pi, kinds[0], obs, work)
        column = dims_pi[-1] - 1
    else:
        outputs = forward(parameters, network_size(dims_pi) + kinds[2], dims_v, kinds[0], obs, work)
        column = 0
    for b in range(len(obs)):
        values[b] = outputs[b, column]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def evaluate(
    parameters: Any,
    plan: Any,
    obs: Any,
    actions_int: Any,
    actions_float: Any,
    masks: Any,
    masked: bool,
    work: Any,
    log_probs: Any,
    values: Any,
) -> None:
    """Fill log-probabilities of given actions, and values, for obs [N, d]."""
    dims_pi, _, parts, kinds = plan
    n_box = kinds[2]
    outputs = forward(parameters, 0, dims_pi, kinds[0], obs, work)
    size = network_size(dims_pi)
    log_std = parameters[size : size + n_box]
    logs = np.empty(outputs.shape[1], dtype=np.float32)
    no_mask = masks[0] if masked else masks[:0].reshape(-1)
    for b in range(len(obs)):
        if n_box > 0:
            log_probs[b], _ = gaussian(outputs, b, log_std, actions_float[b])
        else:
            mask = masks[b] if masked else no_mask
            log_probs[b], _ = categorical(outputs, b, parts, actions_int[b], mask, masked, logs)
    state_values(parameters, plan, obs, work, values)
