"""DQN as two calls: choosing actions, and several gradient steps straight from the replay's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import (
    FAST,
    adam,
    backward,
    clip_scale,
    f32,
    forward,
    squared_norm,
)
from ludus.algorithms.backends.numba.inputs import put_row

LOSS, Q_MEAN, GRAD_NORM = range(3)
N_STATS = 3

RATE, EPS, MAX_NORM, GAMMA, DOUBLE, REWARD_SCALE, REWARD_CLIP, OBS_CLIP = range(8)
N_SETTINGS = 8


@njit(cache=True, error_model="numpy", fastmath=FAST)
def best_legal(q: Any, mask: Any, masked: bool) -> int:
    """The index of the highest value among the legal ones (all of them, when the mask allows none)."""
    legal = False
    if masked:
        for k in range(len(q)):
            legal = legal or mask[k]
    chosen = -1
    for k in range(len(q)):
        if (not legal or mask[k]) and (chosen < 0 or q[k] > q[chosen]):
            chosen = k
    return chosen


@njit(cache=True, error_model="numpy", fastmath=FAST)
def act(
    parameters: Any,
    dims: Any,
    kind: int,
    obs: Any,
    masks: Any,
    masked: bool,
    epsilon: float,
    uniforms: Any,
    work: Any,
    actions: Any,
) -> None:
    """Epsilon-greedy actions for obs [N, d]; uniforms [N, 2] decide whether and where to explore."""
    q = forward(parameters, 0, dims, kind, obs, work)
    n_actions = q.shape[1]
    no_mask = masks[0] if masked else masks[:0].reshape(-1)
    for b in range(len(obs)):
        mask = masks[b] if masked else no_mask
        if uniforms[b, 0] >= epsilon:
            actions[b] = best_legal(q[b], mask, masked)
            continue
        legal = 0
        for k in range(n_actions):
            legal += not masked or mask[k]
        anything = legal == 0  # a mask that allows nothing is no mask
        if anything:
            legal = n_actions
        skip = min(int(uniforms[b, 1] * legal), legal - 1)
        for k in range(n_actions):
            if masked and not mask[k] and not anything:
                continue
            if skip == 0:
                actions[b] = k
                break
            skip -= 1


@njit(cache=True, error_model="numpy", fastmath=FAST)
def gather(source: Any, layout: Any, indices: Any, mean: Any, scale: Any, clip: float, out: Any) -> None:
    """Rows of `source`, normalised when `mean` is not empty, laid out when `layout` is not (see `inputs`)."""
    limit = f32(clip)
    for b in range(len(indices)):
        row = source[indices[b]]
        if len(layout[0]) > 0:
            put_row(row, layout[0], layout[1], out[b])
        elif len(mean) == 0:
            out[b] = row
        else:
            for j in range(len(row)):
                x = f32((row[j] - mean[j]) * scale[j])
                out[b, j] = min(max(x, -limit), limit)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def learn(
    memory: Any,
    target: Any,
    dims: Any,
    kind: int,
    replay: Any,
    moments: Any,
    chosen: Any,
    step: int,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> int:
    """One gradient step per row of `chosen` [steps, B]; returns the steps taken (fewer: a gradient was not finite).

    The statistics are those of the last step, as the torch learner reports them.
    """
    parameters, gradients, first, second = memory
    obs, next_obs, layout, actions, rewards, terminated, next_masks, masked = replay
    mean, scale = moments
    inputs, next_inputs, work, next_work, slopes = buffers
    rows = chosen.shape[1]
    n_actions = dims[-1]
    x, next_x = inputs[:rows], next_inputs[:rows]
    place = 0
    for layer in range(len(dims) - 2):
        place += rows * dims[layer + 1]
    slope = slopes[place : place + rows * n_actions].reshape((rows, n_actions))
    targets = np.empty(rows)
    picks = np.zeros(rows, dtype=np.int64)
    no_mask = next_masks[0] if masked else next_masks[:0].reshape(-1)
    for taken in range(len(chosen)):
        indices = chosen[taken]
        gather(obs, layout, indices, mean, scale, settings[OBS_CLIP], x)
        gather(next_obs, layout, indices, mean, scale, settings[OBS_CLIP], next_x)
        double = settings[DOUBLE] > 0.0
        if double:
            online = forward(parameters, 0, dims, kind, next_x, work)
            for b in range(rows):
                picks[b] = best_legal(online[b], next_masks[indices[b]] if masked else no_mask, masked)
        ahead = forward(target, 0, dims, kind, next_x, next_work)
        for b in range(rows):
            i = indices[b]
            reward = rewards[i] * settings[REWARD_SCALE]
            if settings[REWARD_CLIP] > 0.0:
                reward = min(max(reward, -settings[REWARD_CLIP]), settings[REWARD_CLIP])
            k = picks[b] if double else best_legal(ahead[b], next_masks[i] if masked else no_mask, masked)
            targets[b] = reward if terminated[i] else reward + settings[GAMMA] * ahead[b, k]
        q = forward(parameters, 0, dims, kind, x, work)
        slope[:] = f32(0.0)
        loss = q_sum = 0.0
        for b in range(rows):
            k = actions[indices[b]]
            error = q[b, k] - targets[b]
            q_sum += q[b, k]
            if abs(error) < 1.0:
                loss += 0.5 * error * error
                slope[b, k] = f32(error / rows)
            else:
                loss += abs(error) - 0.5
                slope[b, k] = f32((1.0 if error > 0.0 else -1.0) / rows)
        backward(parameters, gradients, 0, dims, kind, x, work, slopes)
        norm = np.sqrt(squared_norm(gradients))
        stats[LOSS], stats[Q_MEAN], stats[GRAD_NORM] = loss / rows, q_sum / rows, norm
        # beyond 1 the slope is that of the sign, whatever the error; np.isfinite of a sum is optimised away
        if not abs(loss) < np.inf:
            stats[GRAD_NORM] = np.nan
        if not np.isfinite(stats[GRAD_NORM]):
            return taken
        adam(
            parameters,
            gradients,
            first,
            second,
            step + taken + 1,
            settings[RATE],
            settings[EPS],
            clip_scale(norm, settings[MAX_NORM]),
        )
    return len(chosen)
