"""One SAC gradient step as one call: both critics, the actor through them, the temperature, the following targets.

Networks lie in flat arrays as `core` describes. The actor's last layer puts out means, then log-deviations; the
two critics lie one after the other. A batch lies in panels (see `panels`); the critics' inputs are observations, then
actions, of which the actor takes the observations. Two cores share the work: a critic each, or for the actor half of
the panels and half of the weights. The result does not depend on how many cores there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from ludus.algorithms.backends.numba.core import FAST, adam, clip_scale, f32, network_size, squared_norm
from ludus.algorithms.backends.numba.panels import (
    forward,
    gradients_of,
    panels_of,
    place_of,
    spread,
    turn_inputs,
)
from ludus.algorithms.backends.numba.soft_acting import LOG_STD_MAX, LOG_STD_MIN, lay, look
from ludus.algorithms.backends.numba.tiles import PANEL, multiply_one

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

TAKEN, AHEAD, NEW = range(3)
"""The critics' three inputs: the action that was taken, the actor's one step ahead, the actor's here."""

NO_MOMENTS = (np.zeros(0), np.zeros(0))
NOTHING = np.zeros(1, dtype=np.float32)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def soft_targets(replay: Any, indices: Any, settings: Any, ahead: Any, log_probs: Any, aims: Any) -> None:
    """Compute the critics' targets; `ahead` [2, B] are the target networks' values of the next step."""
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
    critics: Any,
    gradients: Any,
    side: int,
    plan: Any,
    inputs: Any,
    aims: Any,
    work: Any,
    slopes: Any,
    turned: Any,
) -> float:
    """The gradient of one critic; returns its loss, summed."""
    _, dims, kind, rows = plan
    panels, n_in = panels_of(rows), dims[0]
    offset = side * network_size(dims)
    outputs = forward(critics, offset, dims, kind, inputs, n_in, work, panels, 0, panels)
    loss = 0.0
    for b in range(rows):
        error = work[outputs + b] - aims[b]
        loss += 0.5 * error * error
        slopes[outputs + b] = f32(error / rows)
    slopes[outputs + rows : outputs + panels * PANEL] = f32(0.0)
    spread(critics, offset, dims, kind, work, slopes, panels, 0, panels)
    turn_inputs(dims, inputs, n_in, work, turned, panels, 0, panels)
    gradients_of(gradients, offset, dims, inputs, n_in, work, slopes, turned, panels, 0, 1)
    return loss


@njit(cache=True, error_model="numpy", fastmath=FAST)
def critic_says(parameters: Any, side: int, plan: Any, inputs: Any, work: Any, q: Any) -> None:
    """Fill q [B] with one critic's values of the inputs."""
    _, dims, kind, rows = plan
    panels = panels_of(rows)
    outputs = forward(
        parameters, side * network_size(dims), dims, kind, inputs, dims[0], work, panels, 0, panels
    )
    q[:] = work[outputs : outputs + rows]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def sort_by_critic(q: Any, order: Any) -> Any:
    """List in `order` the rows that critic 0 values lower, then from a new panel on those of critic 1.

    Returns how many rows each has. q [2, B] is what the critics say.
    """
    counts = np.zeros(2, dtype=np.int64)
    for side in range(2):
        start = panels_of(counts[0]) * PANEL * side
        for b in range(q.shape[1]):
            if (q[0, b] <= q[1, b]) == (side == 0):
                order[start + counts[side]] = b
                counts[side] += 1
    return counts


@njit(cache=True, error_model="numpy", fastmath=FAST)
def through_critics(
    critics: Any,
    plan: Any,
    order: Any,
    counts: Any,
    critic_work: Any,
    taken: Any,
    slopes: Any,
    by_action: Any,
    low: int,
    high: int,
) -> None:
    """Fill d(loss)/d(action) for the rows of panels `low` to `high` of `order`.

    A row's gradient comes through the critic that values it lower, and only that one is asked for it, with what
    `critic_says` left in its work space.
    """
    _, dims, kind, batch = plan
    panels, size = panels_of(batch), by_action.shape[1]
    n_in, hidden, layers = dims[0], dims[1], len(dims) - 1
    row, places = np.empty(PANEL, dtype=np.float32), np.empty(PANEL, dtype=np.int64)
    outputs = place_of(dims, layers - 1, 1)
    for p in range(low, high):
        side = 0 if p < panels_of(counts[0]) else 1
        start = p * PANEL
        count = min(PANEL, counts[side] - (start - panels_of(counts[0]) * PANEL * side))
        work = critic_work[side]
        for layer in range(layers - 1):
            source, target = place_of(dims, layer, panels), place_of(dims, layer, 1)
            width = dims[layer + 1]
            for j in range(count):
                b = order[start + j]
                places[j] = source + (b // PANEL) * width * PANEL + b % PANEL
            for i in range(width):
                for j in range(count):
                    taken[target + i * PANEL + j] = work[places[j] + i * PANEL]
        slopes[outputs : outputs + PANEL] = f32(-1.0 / batch)
        offset = side * network_size(dims)
        spread(critics, offset, dims, kind, taken, slopes, 1, 0, 1)
        for k in range(size):
            multiply_one(
                critics, offset + n_in - size + k, 0, n_in, 0, slopes, 0, 1, hidden, NOTHING, 0, row, 0, 0
            )
            for j in range(count):
                by_action[order[start + j], k] = row[j]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def actor_half(
    actor: Any,
    plan: Any,
    noise: Any,
    temperature: float,
    inputs: Any,
    by_action: Any,
    work: Any,
    slopes: Any,
    turned: Any,
    low: int,
    high: int,
) -> None:
    """The slopes of the actor's layers for panels `low` to `high`, given d(loss)/d(action) through the critics."""
    dims, critic_dims, kind, batch = plan
    panels, n_obs, n_in, size = panels_of(batch), dims[0], critic_dims[0], noise.shape[1]
    outputs = place_of(dims, len(dims) - 2, panels)
    slopes[outputs + low * 2 * size * PANEL : outputs + high * 2 * size * PANEL] = f32(0.0)
    share = f32(temperature / batch)
    for b in range(low * PANEL, min(high * PANEL, batch)):
        panel, lane = b // PANEL, b % PANEL
        for k in range(size):
            a = inputs[(panel * n_in + n_obs + k) * PANEL + lane]
            by_raw = by_action[b, k] * (f32(1.0) - a * a) + share * f32(2.0) * a
            mean_at = outputs + (panel * 2 * size + k) * PANEL + lane
            log_std_at = mean_at + size * PANEL
            log_std = work[log_std_at]
            slopes[mean_at] = by_raw
            if LOG_STD_MIN <= log_std <= LOG_STD_MAX:
                slopes[log_std_at] = by_raw * np.exp(log_std) * noise[b, k] - share
    spread(actor, 0, dims, kind, work, slopes, panels, low, high)
    turn_inputs(dims, inputs, n_in, work, turned, panels, low, high)


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
    inputs, log_probs, aims, q, actor_work, critic_work, taken, slopes, turned, order, by_action = buffers
    obs, next_obs, actions, _, _ = replay
    actor_dims, critic_dims, _, rows = plan
    n_obs, n_in, panels = actor_dims[0], critic_dims[0], panels_of(rows)
    cuts = (0, panels // 2, panels)
    size = len(actor[0])
    actor_cuts = (0, size // 2, size)
    one = len(targets) // 2
    losses, norms = np.zeros(2), np.zeros(2)
    clip_at = settings[OBS_CLIP]
    stats[FINITE] = 0.0

    for half in prange(2):
        low, high = cuts[half], cuts[half + 1]
        for ahead in (1, 0):  # the last pass is the one that is learnt from
            look(
                actor[0],
                plan,
                next_obs if ahead else obs,
                moments,
                indices,
                noise[ahead],
                clip_at,
                inputs[AHEAD if ahead else NEW],
                log_probs[ahead],
                actor_work,
                low,
                high,
            )
        stretch = slice(low * n_in * PANEL, high * n_in * PANEL)
        inputs[TAKEN][stretch] = inputs[NEW][stretch]
        lay(actions, indices, NO_MOMENTS, 0.0, n_obs, n_in, inputs[TAKEN], low, high)

    for side in prange(2):
        critic_says(targets, side, plan, inputs[AHEAD], critic_work[side], q[side])
    soft_targets(replay, indices, settings, q, log_probs[1], aims)
    for side in prange(2):
        low, high = side * one, side * one + one
        losses[side] = critic_side(
            critics[0],
            critics[1],
            side,
            plan,
            inputs[TAKEN],
            aims,
            critic_work[side],
            slopes[side],
            turned[side],
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

    counts = sort_by_critic(q, order)
    asked = panels_of(counts[0]) + panels_of(counts[1])
    asked_cuts = (0, asked // 2, asked)
    for half in prange(2):
        through_critics(
            critics[0],
            plan,
            order,
            counts,
            critic_work,
            taken[half],
            slopes[half],
            by_action,
            asked_cuts[half],
            asked_cuts[half + 1],
        )
    for half in prange(2):
        actor_half(
            actor[0],
            plan,
            noise[0],
            settings[TEMPERATURE],
            inputs[NEW],
            by_action,
            actor_work,
            slopes[0],
            turned[0],
            cuts[half],
            cuts[half + 1],
        )
    for half in prange(2):
        gradients_of(
            actor[1], 0, actor_dims, inputs[NEW], n_in, actor_work, slopes[0], turned[0], panels, half, 2
        )
    for half in prange(2):
        norms[half] = squared_norm(actor[1][actor_cuts[half] : actor_cuts[half + 1]])
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
