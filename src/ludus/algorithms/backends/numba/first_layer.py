"""The first layer where inputs are mostly zeros: only the weights of numbers that are there are read.

`there` lists these numbers as `listing` describes. Where a minibatch has many of them, the weight is transposed first:
all weights of an input then lie next to each other. Where it has few (one-hot inputs), transposing costs more than it
saves.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from ludus.algorithms.backends.numba.core import FAST, f32, network_size


@njit(cache=True, error_model="numpy", fastmath=FAST)
def transpose(source: Any, out: Any) -> None:
    """out [n, m] = source [m, n] the other way round, in blocks that stay near the processor."""
    rows, columns = source.shape
    for low in range(0, rows, 16):
        high = min(low + 16, rows)
        for k in range(columns):
            for j in range(low, high):
                out[k, j] = source[j, k]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def turn_first_layer(parameters: Any, offset: int, dims: Any, turned: Any) -> None:
    """The first layer's weight as `hidden_forward` takes it."""
    n_in, n_out = dims[0], dims[1]
    transpose(parameters[offset : offset + n_in * n_out].reshape((n_out, n_in)), turned)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def turn(parameters: Any, plan: Any, turned: Any, turned_for_values: Any) -> None:
    """The first layers of both networks as `act` takes them."""
    turn_first_layer(parameters, 0, plan[0], turned)
    turn_first_layer(parameters, network_size(plan[0]), plan[1], turned_for_values)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def first_layer(weight: Any, there: Any, indices: Any, y: Any) -> None:
    """y [B, n_out] = the first layer without its bias; `weight` is [n_in, n_out]."""
    starts, columns, values = there
    for b in range(len(indices)):
        i = indices[b]
        row = y[b]
        row[:] = f32(0.0)
        for p in range(starts[i], starts[i + 1]):
            value, w = values[p], weight[columns[p]]
            for j in range(len(row)):
                row[j] += value * w[j]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def first_layer_gradient(there: Any, indices: Any, dy: Any, gradient: Any) -> None:
    """gradient [n_in, n_out] of the first layer's weight."""
    starts, columns, values = there
    gradient[:] = f32(0.0)
    for b in range(len(indices)):
        i = indices[b]
        slope = dy[b]
        for p in range(starts[i], starts[i + 1]):
            value, g = values[p], gradient[columns[p]]
            for j in range(len(slope)):
                g[j] += value * slope[j]


@njit(cache=True)
def worth_transposing(there: Any, indices: Any, n_in: int) -> bool:
    """Return True if a minibatch has so many numbers that transposing the weight twice is faster (measured)."""
    starts = there[0]
    count = 0
    for b in range(len(indices)):
        count += starts[indices[b] + 1] - starts[indices[b]]
    return 3 * count > n_in


@njit(cache=True, error_model="numpy", fastmath=FAST)
def first_layer_by_unit(weight: Any, there: Any, indices: Any, y: Any) -> None:
    """As `first_layer`, of a `weight` [n_out, n_in] that is not transposed."""
    starts, columns, values = there
    for j in range(len(weight)):
        w = weight[j]
        for b in range(len(indices)):
            i = indices[b]
            total = f32(0.0)
            for p in range(starts[i], starts[i + 1]):
                total += values[p] * w[columns[p]]
            y[b, j] = total


@njit(cache=True, error_model="numpy", fastmath=FAST)
def first_layer_gradient_by_unit(there: Any, indices: Any, dy: Any, gradient: Any) -> None:
    """As `first_layer_gradient`, into a `gradient` [n_out, n_in]."""
    starts, columns, values = there
    for j in range(len(gradient)):
        g = gradient[j]
        g[:] = f32(0.0)
        for b in range(len(indices)):
            i = indices[b]
            for p in range(starts[i], starts[i + 1]):
                g[columns[p]] += values[p] * dy[b, j]
