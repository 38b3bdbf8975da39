"""One SAC gradient step as one call: both critics, the actor through them, and the slowly following targets.

Networks lie in flat arrays as `core` describes. The actor's last layer puts out means, then log-deviations. The
two critics lie one after the other and can be worked on by two cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from ludus.algorithms.kernels.core import (
    FAST,
    adam,
    backward,
    clip_scale,
    f32,
    forward,
    network_size,
    scale_by_slope,
    squared_norm,
    tanh,
)
from ludus.algorithms.kernels.q_learning import gather

ACTOR_LOSS, CRITIC_LOSS, GRAD_NORM, LOG_PROB, FINITE = range(5)
N_STATS = 5

RATE, EPS, MAX_NORM, GAMMA, TAU, TEMPERATURE, REWARD_SCALE, REWARD_CLIP, OBS_CLIP = range(9)
N_SETTINGS = 9

LOG_STD_MIN, LOG_STD_MAX = f32(-20.0), f32(2.0)
LOG_TWO = f32(0.6931471805599453)
HALF_LOG_TWO_PI = f32(0.9189385332046727)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def draw(outputs: Any, noise: Any, inputs: Any, first: int, log_probs: Any) -> None:
    """Squashed Gaussian actions from the actor's outputs, written into columns `first`… of the critics' inputs."""
    rows, size = noise.shape
    for b in range(rows):
        total = f32(0.0)
        for k in range(size):
            log_std = min(max(outputs[b, size + k], LOG_STD_MIN), LOG_STD_MAX)
            z = noise[b, k]
            raw = outputs[b, k] + np.exp(log_std) * z
            inputs[b, first + k] = tanh(raw)
            # log(1 - tanh(x)^2) = 2 (log 2 - x - log(1 + exp(-2 x))), stable for large x
            double = f32(-2.0) * raw
            softplus = max(double, f32(0.0)) + np.log1p(np.exp(-abs(double)))
            slope = f32(2.0) * (LOG_TWO - raw - softplus)
            total -= f32(0.5) * z * z + log_std + HALF_LOG_TWO_PI + slope
        log_probs[b] = total


@njit(cache=True, error_model="numpy", fastmath=FAST)
def input_slopes(
    parameters: Any, offset: int, dims: Any, kind: int, rows: int, work: Any, slopes: Any, out: Any
) -> None:
    """d(loss)/d(inputs) given d(loss)/d(outputs) in `slopes`; no parameter gets a gradient."""
    layers = len(dims) - 1
    end = offset + network_size(dims)
    place = 0
    for layer in range(layers):
        place += rows * dims[layer + 1]
    for layer in range(layers - 1, -1, -1):
        n_in, n_out = dims[layer], dims[layer + 1]
        place -= rows * n_out
        dy = slopes[place : place + rows * n_out].reshape((rows, n_out))
        if layer < layers - 1:
            scale_by_slope(dy, work[place : place + rows * n_out].reshape((rows, n_out)), kind)
        end -= n_out + n_in * n_out
        weight = parameters[end : end + n_in * n_out].reshape((n_out, n_in))
        if layer == 0:
            np.dot(dy, weight, out)
        else:
            before = place - rows * n_in
            np.dot(dy, weight, slopes[before : before + rows * n_in].reshape((rows, n_in)))


@njit(cache=True, error_model="numpy", fastmath=FAST)
def follow(target: Any, source: Any, tau: float) -> None:
    share = f32(tau)
    for i in range(len(target)):
        target[i] += share * (source[i] - target[i])


@njit(cache=True, error_model="numpy", fastmath=FAST)
def ready_rewards(rewards: Any, indices: Any, settings: Any, out: Any) -> None:
    """Rewards of the sampled rows, scaled and clipped as the settings say."""
    for b in range(len(indices)):
        reward = np.float64(rewards[indices[b]]) * settings[REWARD_SCALE]
        if settings[REWARD_CLIP] > 0.0:
            reward = min(max(reward, -settings[REWARD_CLIP]), settings[REWARD_CLIP])
        out[b] = reward


@njit(cache=True, error_model="numpy", fastmath=FAST, parallel=True)
def learn(
    actor: Any,
    critics: Any,
    targets: Any,
    plan: Any,
    replay: Any,
    moments: Any,
    indices: Any,
    noise: Any,
    step: int,
    settings: Any,
    update_targets: bool,
    stats: Any,
    buffers: Any,
) -> None:
    """One gradient step of critics, actor and targets on the sampled rows `indices`.

    stats[FINITE] is 1 afterwards, or 0 when a gradient was not finite; nothing is stepped then.
    """
    actor_dims, critic_dims, kind = plan
    obs, next_obs, actions, rewards, terminated = replay
    mean, scale = moments
    x, work, slopes, log_probs, aims, dx = buffers
    rows = len(indices)
    n_obs, size = actor_dims[0], noise.shape[2]
    one = network_size(critic_dims)
    actor_out = 0
    for layer in range(len(actor_dims) - 2):
        actor_out += rows * actor_dims[layer + 1]
    critic_out = 0
    for layer in range(len(critic_dims) - 2):
        critic_out += rows * critic_dims[layer + 1]
    temperature = settings[TEMPERATURE]

    # the actor, here and one step ahead: x[0] and x[1] become critic inputs with its actions
    for side in prange(2):
        gather(obs if side == 0 else next_obs, indices, mean, scale, settings[OBS_CLIP], x[3 + side])
        out = forward(actor[0], 0, actor_dims, kind, x[3 + side], work[side])
        for b in range(rows):
            for j in range(n_obs):
                x[side][b, j] = x[3 + side][b, j]
        draw(out, noise[side], x[side], n_obs, log_probs[side])

    # what the targets think of the step ahead, and x[2]: the step that was taken
    q_ahead = np.empty((2, rows), dtype=np.float32)
    for side in prange(2):
        out = forward(targets, side * one, critic_dims, kind, x[1], work[2 + side])
        for b in range(rows):
            q_ahead[side, b] = out[b, 0]
    ready_rewards(rewards, indices, settings, aims)
    for b in range(rows):
        i = indices[b]
        if not terminated[i]:
            aims[b] += settings[GAMMA] * (min(q_ahead[0, b], q_ahead[1, b]) - temperature * log_probs[1, b])
        for j in range(n_obs):
            x[2][b, j] = x[3][b, j]
        for k in range(size):
            x[2][b, n_obs + k] = actions[i, k]

    # critics
    losses = np.zeros(2)
    norms = np.zeros(2)
    for side in prange(2):
        out = forward(critics[0], side * one, critic_dims, kind, x[2], work[2 + side])
        loss = 0.0
        for b in range(rows):
            error = out[b, 0] - aims[b]
            loss += error * error
            slopes[2 + side][critic_out + b] = f32(error / rows)
        losses[side] = 0.5 * loss / rows
        backward(
            critics[0], critics[1], side * one, critic_dims, kind, x[2], work[2 + side], slopes[2 + side]
        )
        norms[side] = squared_norm(critics[1][side * one : (side + 1) * one])
    norm = np.sqrt(norms[0] + norms[1])
    stats[CRITIC_LOSS], stats[GRAD_NORM] = losses[0] + losses[1], norm
    stats[FINITE] = 0.0
    if not np.isfinite(norm):
        return
    clip = clip_scale(norm, settings[MAX_NORM])

    # the actor, through the critics as they are now
    q = np.empty((2, rows), dtype=np.float32)
    for side in prange(2):
        low, high = side * one, (side + 1) * one
        adam(
            critics[0][low:high],
            critics[1][low:high],
            critics[2][low:high],
            critics[3][low:high],
            step,
            settings[RATE],
            settings[EPS],
            clip,
        )
        out = forward(critics[0], low, critic_dims, kind, x[0], work[2 + side])
        for b in range(rows):
            q[side, b] = out[b, 0]
    for side in prange(2):
        for b in range(rows):
            lower = q[0, b] <= q[1, b] if side == 0 else q[1, b] < q[0, b]
            slopes[2 + side][critic_out + b] = f32(-1.0 / rows) if lower else f32(0.0)
        input_slopes(
            critics[0], side * one, critic_dims, kind, rows, work[2 + side], slopes[2 + side], dx[side]
        )
    out = work[0][actor_out : actor_out + rows * 2 * size].reshape((rows, 2 * size))
    slope = slopes[0][actor_out : actor_out + rows * 2 * size].reshape((rows, 2 * size))
    share = f32(temperature / rows)
    loss = log_prob = 0.0
    for b in range(rows):
        loss += temperature * log_probs[0, b] - min(q[0, b], q[1, b])
        log_prob += log_probs[0, b]
        for k in range(size):
            a = x[0][b, n_obs + k]
            by_raw = (dx[0][b, n_obs + k] + dx[1][b, n_obs + k]) * (f32(1.0) - a * a) + share * f32(2.0) * a
            log_std = out[b, size + k]
            inside = LOG_STD_MIN <= log_std <= LOG_STD_MAX
            slope[b, k] = by_raw
            slope[b, size + k] = by_raw * np.exp(log_std) * noise[0, b, k] - share if inside else f32(0.0)
    stats[ACTOR_LOSS], stats[LOG_PROB] = loss / rows, log_prob / rows
    backward(actor[0], actor[1], 0, actor_dims, kind, x[3], work[0], slopes[0])
    norm = np.sqrt(squared_norm(actor[1]))
    if not np.isfinite(norm):
        stats[GRAD_NORM] = norm
        return
    clip = clip_scale(norm, settings[MAX_NORM])
    adam(actor[0], actor[1], actor[2], actor[3], step, settings[RATE], settings[EPS], clip)
    if update_targets:
        follow(targets, critics[0], settings[TAU])
    stats[FINITE] = 1.0
