"""One SAC gradient step as one call: both critics, the actor through them, the temperature, the following targets.

Networks lie in flat arrays as `core` describes. The actor's last layer puts out means, then log-deviations; the
two critics lie one after the other. Two cores share the work: a critic each, or half of the batch each for the
actor, whose two gradients are added. The result does not depend on how many cores there are.
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

ACTOR_LOSS, CRITIC_LOSS, GRAD_NORM, LOG_PROB, FINITE, TEMPERATURE_LOSS = range(6)
N_STATS = 6

(
    RATE,
    EPS,
    MAX_NORM,
    GAMMA,
    TAU,
    TEMPERATURE,
    REWARD_SCALE,
    REWARD_CLIP,
    OBS_CLIP,
    FOLLOW,
    LEARN_TEMPERATURE,
    TARGET_ENTROPY,
) = range(12)
N_SETTINGS = 12

LOG_STD_MIN, LOG_STD_MAX = f32(-20.0), f32(2.0)
LOG_TWO = f32(0.6931471805599453)
HALF_LOG_TWO_PI = f32(0.9189385332046727)

TAKEN, AHEAD, NEW = range(3)
"""The critics' three inputs: the action that was taken, the actor's one step ahead, the actor's here."""


@njit(cache=True, error_model="numpy", fastmath=FAST)
def draw(outputs: Any, noise: Any, actions: Any, first: int, log_probs: Any) -> None:
    """Squashed Gaussian actions from the actor's outputs, written into columns `first`… of `actions`."""
    rows, size = noise.shape
    for b in range(rows):
        total = f32(0.0)
        for k in range(size):
            log_std = min(max(outputs[b, size + k], LOG_STD_MIN), LOG_STD_MAX)
            z = noise[b, k]
            raw = outputs[b, k] + np.exp(log_std) * z
            actions[b, first + k] = tanh(raw)
            # log(1 - tanh(x)^2) = 2 (log 2 - x - log(1 + exp(-2 x))), stable for large x
            double = f32(-2.0) * raw
            softplus = max(double, f32(0.0)) + np.log1p(np.exp(-abs(double)))
            slope = f32(2.0) * (LOG_TWO - raw - softplus)
            total -= f32(0.5) * z * z + log_std + HALF_LOG_TWO_PI + slope
        log_probs[b] = total


@njit(cache=True, error_model="numpy", fastmath=FAST)
def act(parameters: Any, dims: Any, kind: int, obs: Any, noise: Any, work: Any, actions: Any) -> None:
    """Fill actions [N, size] in -1 to 1 for obs [N, d]."""
    outputs = forward(parameters, 0, dims, kind, obs, work)
    draw(outputs, noise, actions, 0, np.empty(len(obs), dtype=np.float32))


@njit(cache=True, error_model="numpy", fastmath=FAST)
def take_rows(work: Any, dims: Any, rows: int, kept: Any, out: Any) -> None:
    """`out` becomes what `forward` would have left in `work`, had it seen only the rows listed in `kept`."""
    source = target = 0
    for layer in range(len(dims) - 1):
        width = dims[layer + 1]
        for i in range(len(kept)):
            start = source + kept[i] * width
            out[target : target + width] = work[start : start + width]
            target += width
        source += rows * width


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
def outputs_place(dims: Any, rows: int) -> int:
    """Where `forward` puts the outputs in its work space."""
    place = 0
    for layer in range(len(dims) - 2):
        place += rows * dims[layer + 1]
    return place


@njit(cache=True, error_model="numpy", fastmath=FAST)
def look(
    actor: Any,
    plan: Any,
    replay: Any,
    moments: Any,
    indices: Any,
    noise: Any,
    clip: float,
    seen: Any,
    inputs: Any,
    log_probs: Any,
    work: Any,
) -> None:
    """Fill the critics' three inputs for these rows, and the log-probabilities of the actor's actions.

    `seen` and `work` are left as the actor's pass over the observations here, for its `backward`.
    """
    actor_dims, _, kind, _ = plan
    obs, next_obs, actions, _, _ = replay
    mean, scale = moments
    rows, n_obs, size = len(indices), actor_dims[0], noise[0].shape[1]
    if rows == 0:
        return
    gather(next_obs, indices, mean, scale, clip, seen)
    out = forward(actor, 0, actor_dims, kind, seen, work)
    inputs[AHEAD][:, :n_obs] = seen
    draw(out, noise[1], inputs[AHEAD], n_obs, log_probs[1])
    gather(obs, indices, mean, scale, clip, seen)
    out = forward(actor, 0, actor_dims, kind, seen, work)
    inputs[NEW][:, :n_obs] = seen
    draw(out, noise[0], inputs[NEW], n_obs, log_probs[0])
    for b in range(rows):
        inputs[TAKEN][b, :n_obs] = seen[b]
        for k in range(size):
            inputs[TAKEN][b, n_obs + k] = actions[indices[b], k]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def soft_targets(replay: Any, indices: Any, settings: Any, ahead: Any, log_probs: Any, aims: Any) -> None:
    """What the critics should say of the steps taken; `ahead` [2, B] is what the targets say one step ahead."""
    _, _, _, rewards, terminated = replay
    for b in range(len(indices)):
        i = indices[b]
        aim = np.float64(rewards[i]) * settings[REWARD_SCALE]
        if settings[REWARD_CLIP] > 0.0:
            aim = min(max(aim, -settings[REWARD_CLIP]), settings[REWARD_CLIP])
        if not terminated[i]:
            soft = min(ahead[0, b], ahead[1, b]) - settings[TEMPERATURE] * log_probs[b]
            aim += settings[GAMMA] * soft
        aims[b] = aim


@njit(cache=True, error_model="numpy", fastmath=FAST)
def critic_side(
    critics: Any, gradients: Any, side: int, plan: Any, inputs: Any, aims: Any, work: Any, slopes: Any
) -> float:
    """The gradient of one critic; returns its loss, summed."""
    _, critic_dims, kind, _ = plan
    rows = len(inputs)
    offset = side * network_size(critic_dims)
    out = forward(critics, offset, critic_dims, kind, inputs, work)
    place = outputs_place(critic_dims, rows)
    loss = 0.0
    for b in range(rows):
        error = out[b, 0] - aims[b]
        loss += 0.5 * error * error
        slopes[place + b] = f32(error / rows)
    backward(critics, gradients, offset, critic_dims, kind, inputs, work, slopes)
    return loss


@njit(cache=True, error_model="numpy", fastmath=FAST)
def critic_says(parameters: Any, side: int, plan: Any, inputs: Any, work: Any, q: Any) -> None:
    """Fill q [B] with what one critic says of the inputs."""
    _, critic_dims, kind, _ = plan
    out = forward(parameters, side * network_size(critic_dims), critic_dims, kind, inputs, work)
    for b in range(len(inputs)):
        q[b] = out[b, 0]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def actor_half(
    actor: Any,
    critics: Any,
    plan: Any,
    noise: Any,
    settings: Any,
    seen: Any,
    inputs: Any,
    first: int,
    q: Any,
    actor_work: Any,
    critic_work: Any,
    taken: Any,
    slopes: Any,
    by_input: Any,
    gradients: Any,
) -> None:
    """The actor's gradient from the rows from `first` on, through the critics' pass over all rows of the batch.

    q [2, B] is what the critics say. A row's gradient comes through the one that values it lower, and only that
    one is asked for it.
    """
    actor_dims, critic_dims, kind, batch = plan
    rows, n_obs, size = len(seen), actor_dims[0], noise.shape[1]
    if rows == 0:
        gradients[:] = f32(0.0)
        return
    by_action = np.empty((rows, size), dtype=np.float32)
    kept = np.empty(rows, dtype=np.int64)
    for side in range(2):
        count = 0
        for b in range(first, first + rows):
            if (q[0, b] <= q[1, b]) == (side == 0):
                kept[count] = b
                count += 1
        if count == 0:
            continue
        take_rows(critic_work[side], critic_dims, batch, kept[:count], taken)
        place = outputs_place(critic_dims, count)
        slopes[place : place + count] = f32(-1.0 / batch)
        offset = side * network_size(critic_dims)
        input_slopes(critics, offset, critic_dims, kind, count, taken, slopes, by_input[:count])
        for i in range(count):
            for k in range(size):
                by_action[kept[i] - first, k] = by_input[i, n_obs + k]

    place = outputs_place(actor_dims, rows)
    share = f32(settings[TEMPERATURE] / batch)
    for b in range(rows):
        for k in range(size):
            a = inputs[b, n_obs + k]
            by_raw = by_action[b, k] * (f32(1.0) - a * a) + share * f32(2.0) * a
            log_std = actor_work[place + size + k]
            inside = LOG_STD_MIN <= log_std <= LOG_STD_MAX
            slopes[place + k] = by_raw
            slopes[place + size + k] = by_raw * np.exp(log_std) * noise[b, k] - share if inside else f32(0.0)
        place += 2 * size
    backward(actor, gradients, 0, actor_dims, kind, seen, actor_work, slopes)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def join(one: Any, other: Any, total: Any) -> float:
    """`total` becomes the sum of two gradients; returns its squared norm."""
    for i in range(len(total)):
        total[i] = one[i] + other[i]
    return squared_norm(total)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def step_part(memory: Any, low: int, high: int, step: int, settings: Any, clip: float) -> None:
    """Adam on the parameters from `low` to `high`."""
    parameters, gradients, first, second = memory
    adam(
        parameters[low:high],
        gradients[low:high],
        first[low:high],
        second[low:high],
        step,
        settings[RATE],
        settings[EPS],
        clip,
    )


@njit(cache=True, error_model="numpy", fastmath=FAST)
def follow(target: Any, source: Any, tau: float) -> None:
    share = f32(tau)
    for i in range(len(target)):
        target[i] += share * (source[i] - target[i])


@njit(cache=True, error_model="numpy", fastmath=FAST, parallel=True, nogil=True)
def learn(
    actor: Any,
    critics: Any,
    targets: Any,
    temperature: Any,
    plan: Any,
    replay: Any,
    moments: Any,
    indices: Any,
    noise: Any,
    step: int,
    settings: Any,
    stats: Any,
    buffers: Any,
) -> None:
    """One gradient step of critics, targets, actor and temperature on the sampled rows `indices`.

    stats[FINITE] is 1 afterwards, or 0 when a gradient was not finite; that network is not stepped then.
    """
    seen, inputs, log_probs, aims, q, actor_work, critic_work, taken, slopes, by_input, parts = buffers
    rows = len(indices)
    cuts = (0, rows // 2, rows)
    size = len(actor[0])
    actor_cuts = (0, size // 2, size)
    one = len(targets) // 2
    losses, norms = np.zeros(2), np.zeros(2)
    stats[FINITE] = 0.0

    for half in prange(2):
        low, high = cuts[half], cuts[half + 1]
        look(
            actor[0],
            plan,
            replay,
            moments,
            indices[low:high],
            (noise[0][low:high], noise[1][low:high]),
            settings[OBS_CLIP],
            seen[low:high],
            (inputs[0][low:high], inputs[1][low:high], inputs[2][low:high]),
            (log_probs[0][low:high], log_probs[1][low:high]),
            actor_work[half],
        )

    for side in prange(2):
        critic_says(targets, side, plan, inputs[AHEAD], critic_work[side], q[side])
    soft_targets(replay, indices, settings, q, log_probs[1], aims)
    for side in prange(2):
        low, high = side * one, side * one + one
        losses[side] = critic_side(
            critics[0], critics[1], side, plan, inputs[TAKEN], aims, critic_work[side], slopes[side]
        )
        norms[side] = squared_norm(critics[1][low:high])
    norm = np.sqrt(norms[0] + norms[1])
    stats[CRITIC_LOSS], stats[GRAD_NORM] = (losses[0] + losses[1]) / rows, norm
    if not np.isfinite(norm):
        return
    clip = clip_scale(norm, settings[MAX_NORM])
    for side in prange(2):
        low, high = side * one, side * one + one
        step_part(critics, low, high, step, settings, clip)
        if settings[FOLLOW] > 0.0:
            follow(targets[low:high], critics[0][low:high], settings[TAU])
        critic_says(critics[0], side, plan, inputs[NEW], critic_work[side], q[side])

    for half in prange(2):
        low, high = cuts[half], cuts[half + 1]
        actor_half(
            actor[0],
            critics[0],
            plan,
            noise[0][low:high],
            settings,
            seen[low:high],
            inputs[NEW][low:high],
            low,
            q,
            actor_work[half],
            critic_work,
            taken[half],
            slopes[half],
            by_input[low:high],
            parts[half],
        )
    for half in prange(2):
        low, high = actor_cuts[half], actor_cuts[half + 1]
        norms[half] = join(parts[0][low:high], parts[1][low:high], actor[1][low:high])
    norm = np.sqrt(norms[0] + norms[1])
    loss = log_prob = 0.0
    for b in range(rows):
        loss += settings[TEMPERATURE] * log_probs[0][b] - min(q[0, b], q[1, b])
        log_prob += log_probs[0][b]
    stats[ACTOR_LOSS], stats[LOG_PROB] = loss / rows, log_prob / rows
    if not np.isfinite(norm):
        stats[GRAD_NORM] = norm
        return
    clip = clip_scale(norm, settings[MAX_NORM])
    for half in prange(2):
        step_part(actor, actor_cuts[half], actor_cuts[half + 1], step, settings, clip)
    if settings[LEARN_TEMPERATURE] > 0.0:
        gap = log_prob / rows + settings[TARGET_ENTROPY]
        stats[TEMPERATURE_LOSS] = -temperature[0][0] * gap
        temperature[1][0] = f32(-gap)
        step_part(temperature, 0, 1, step, settings, 1.0)
    stats[FINITE] = 1.0
