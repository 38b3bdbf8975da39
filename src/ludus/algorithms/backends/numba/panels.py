"""A network over a batch that lies in panels: matrix products without a BLAS, at what the machine's cores can do.

A panel holds PANEL samples side by side, one feature after the other: [features, PANEL]. The product of a weight and a
panel reads and writes panels as they lie, nothing is packed first: a tile of it, ROWS features of all samples of the
panel, stays in registers while the sum runs over the features before. Networks lie in flat arrays as `core` says; in a
work space [panels, features, PANEL] of one layer follows that of the layer before. Samples that a last panel has room
for and the batch has not are computed like any other, and count for nothing where their slopes are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.core import FAST, RELU, TANH, f32, network_size, tanh
from ludus.algorithms.backends.numba.tiles import (
    LANES,
    PANEL,
    ROWS,
    dot_one,
    dot_rows,
    multiply_one,
    multiply_rows,
    turn,
)

_ZEROS, _ONES = np.zeros(ROWS, dtype=np.float32), np.ones(PANEL, dtype=np.float32)


@njit(cache=True)
def panels_of(samples: int) -> int:
    """Return how many panels hold `samples`."""
    return (samples + PANEL - 1) // PANEL


@njit(cache=True)
def place_of(dims: Any, layer: int, panels: int) -> int:
    """Return the offset of the outputs of `layer` (counted from 0) in a work space."""
    place = 0
    for before in range(layer):
        place += panels * dims[before + 1] * PANEL
    return place


@njit(cache=True, error_model="numpy", fastmath=FAST)
def activate(values: Any, kind: int) -> None:
    if kind == RELU:
        for i in range(len(values)):
            values[i] = max(values[i], f32(0.0))
    elif kind == TANH:
        for i in range(len(values)):
            values[i] = tanh(values[i])
    else:
        for i in range(len(values)):
            values[i] = values[i] if values[i] > f32(0.0) else np.expm1(values[i])


@njit(cache=True, error_model="numpy", fastmath=FAST)
def scale_by_slope(slopes: Any, values: Any, kind: int) -> None:
    """slopes *= the activation's slope, read off its own output `values`."""
    if kind == TANH:
        for i in range(len(slopes)):
            slopes[i] *= f32(1.0) - values[i] * values[i]
    elif kind == RELU:
        for i in range(len(slopes)):
            slopes[i] = f32(0.0) if values[i] <= f32(0.0) else slopes[i]  # a NaN must come through
    else:
        for i in range(len(slopes)):
            slopes[i] *= values[i] + f32(1.0) if values[i] <= f32(0.0) else f32(1.0)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def multiply_some(
    rows: int,
    a: Any,
    a_at: int,
    a_row: int,
    a_step: int,
    b: Any,
    b_at: int,
    count: int,
    bias: Any,
    bias_at: int,
    out: Any,
    at: int,
) -> None:
    """Up to ROWS features of one panel: a tile if there are so many, else one after the other."""
    if rows == ROWS:
        multiply_rows(a, a_at, a_row, a_step, 0, b, b_at, 1, count, bias, bias_at, out, at, PANEL)
        return
    for i in range(rows):
        multiply_one(
            a, a_at + i * a_row, 0, a_step, 0, b, b_at, 1, count, bias, bias_at + i, out, at + i * PANEL, 0
        )


@njit(cache=True, error_model="numpy", fastmath=FAST)
def forward(
    parameters: Any,
    offset: int,
    dims: Any,
    kind: int,
    inputs: Any,
    width: int,
    work: Any,
    panels: int,
    low: int,
    high: int,
) -> int:
    """Compute the panels from `low` to `high`; returns where the outputs begin in `work`.

    `inputs` has panels of `width` features, of which the network takes the first.
    """
    layers = len(dims) - 1
    x, x_at, x_width = inputs, 0, width
    place = 0
    for layer in range(layers):
        n_in, n_out = dims[layer], dims[layer + 1]
        bias_at = offset + n_in * n_out
        for p in range(low, high):
            panel = x_at + p * x_width * PANEL
            for m in range(0, n_out, ROWS):
                end = min(m + ROWS, n_out)
                at = place + (p * n_out + m) * PANEL
                multiply_some(
                    end - m,
                    parameters,
                    offset + m * n_in,
                    n_in,
                    1,
                    x,
                    panel,
                    n_in,
                    parameters,
                    bias_at + m,
                    work,
                    at,
                )
                if layer < layers - 1:
                    activate(work[at : at + (end - m) * PANEL], kind)
        x, x_at, x_width = work, place, n_out
        place += panels * n_out * PANEL
        offset = bias_at + n_out
    return x_at


@njit(cache=True, error_model="numpy", fastmath=FAST)
def spread(
    parameters: Any,
    offset: int,
    dims: Any,
    kind: int,
    work: Any,
    slopes: Any,
    panels: int,
    low: int,
    high: int,
) -> None:
    """d(loss)/d(what each hidden layer had summed up), given that of the outputs at their place in `slopes`.

    `work` is as `forward` left it; `slopes` has its form. Panels from `low` to `high`.
    """
    layers = len(dims) - 1
    end = offset + network_size(dims)
    place = place_of(dims, layers - 1, panels)
    for layer in range(layers - 1, 0, -1):
        n_in, n_out = dims[layer], dims[layer + 1]
        end -= n_in * n_out + n_out
        before = place - panels * n_in * PANEL
        for p in range(low, high):
            panel = place + p * n_out * PANEL
            for m in range(0, n_in, ROWS):
                last = min(m + ROWS, n_in)
                at = before + (p * n_in + m) * PANEL
                multiply_some(
                    last - m, parameters, end + m, 1, n_in, slopes, panel, n_out, _ZEROS, 0, slopes, at
                )
                stop = at + (last - m) * PANEL
                scale_by_slope(slopes[at:stop], work[at:stop], kind)
        place = before


@njit(cache=True)
def is_turned(n_in: int, n_out: int) -> bool:
    """Return True if the weight gradient of such a layer is computed in tiles, from its inputs sample by sample."""
    return n_in > LANES and n_out >= ROWS


@njit(cache=True)
def turned_size(dims: Any, layer: int, panels: int) -> int:
    """Return how many numbers `turn_inputs` writes for the layers before `layer`."""
    size = 0
    for before in range(layer):
        if is_turned(dims[before], dims[before + 1]):
            size += panels_of(dims[before]) * PANEL * panels * PANEL
    return size


@njit(cache=True, error_model="numpy", fastmath=FAST)
def turn_inputs(
    dims: Any, inputs: Any, width: int, work: Any, turned: Any, panels: int, low: int, high: int
) -> None:
    """Fill `turned` with the inputs of the layers that need it: panels of PANEL features, sample after sample."""
    for layer in range(len(dims) - 1):
        n_in = dims[layer]
        if not is_turned(n_in, dims[layer + 1]):
            continue
        start = turned_size(dims, layer, panels)
        x = inputs if layer == 0 else work
        x_at = 0 if layer == 0 else place_of(dims, layer - 1, panels)
        x_width = width if layer == 0 else n_in
        blocks = n_in // LANES * LANES
        for p in range(low, high):
            source = x_at + p * x_width * PANEL
            for i in range(0, blocks, LANES):
                target = start + ((i // PANEL) * panels + p) * PANEL * PANEL + i % PANEL
                for j in range(0, PANEL, LANES):
                    turn(x, source + i * PANEL + j, PANEL, turned, target + j * PANEL, PANEL)
            for i in range(blocks, n_in):
                target = start + ((i // PANEL) * panels + p) * PANEL * PANEL + i % PANEL
                for j in range(PANEL):
                    turned[target + j * PANEL] = x[source + i * PANEL + j]


@njit(cache=True, error_model="numpy", fastmath=FAST)
def dots(
    a: Any,
    a_at: int,
    a_block: int,
    rows: int,
    b: Any,
    b_at: int,
    b_block: int,
    blocks: int,
    out: Any,
    at: int,
    step: int,
) -> None:
    """out[at + m * step] = the dot product over all samples of feature m of `a` and one feature of `b`."""
    m = 0
    while m + ROWS <= rows:
        dot_rows(a, a_at + m * PANEL, a_block, b, b_at, b_block, blocks, out, at + m * step, step)
        m += ROWS
    while m < rows:
        dot_one(a, a_at + m * PANEL, a_block, b, b_at, b_block, blocks, out, at + m * step, step)
        m += 1


@njit(cache=True, error_model="numpy", fastmath=FAST)
def gradients_of(
    gradients: Any,
    offset: int,
    dims: Any,
    inputs: Any,
    width: int,
    work: Any,
    slopes: Any,
    turned: Any,
    panels: int,
    share: int,
    shares: int,
) -> None:
    """Write the gradient of every parameter, from `forward`, `spread` and `turn_inputs` over all panels.

    The `share`-th of `shares` callers writes its part of each layer.
    """
    tile = np.empty(ROWS * PANEL, dtype=np.float32)
    for layer in range(len(dims) - 1):
        n_in, n_out = dims[layer], dims[layer + 1]
        x = inputs if layer == 0 else work
        x_at = 0 if layer == 0 else place_of(dims, layer - 1, panels)
        x_block = (width if layer == 0 else n_in) * PANEL
        y_at, y_block = place_of(dims, layer, panels), n_out * PANEL
        groups = (n_out + ROWS - 1) // ROWS
        low = min(groups * share // shares * ROWS, n_out)
        high = min(groups * (share + 1) // shares * ROWS, n_out)
        dots(
            slopes,
            y_at + low * PANEL,
            y_block,
            high - low,
            _ONES,
            0,
            0,
            panels,
            gradients,
            offset + n_in * n_out + low,
            1,
        )
        if is_turned(n_in, n_out):
            start = turned_size(dims, layer, panels)
            for q in range(panels_of(n_in)):
                panel = start + q * panels * PANEL * PANEL
                columns = min(PANEL, n_in - q * PANEL)
                for m in range(low, high, ROWS):
                    a_at, at = y_at + m * PANEL, offset + m * n_in + q * PANEL
                    if columns == PANEL and m + ROWS <= high:
                        multiply_rows(
                            slopes,
                            a_at,
                            PANEL,
                            1,
                            y_block,
                            turned,
                            panel,
                            panels,
                            PANEL,
                            _ZEROS,
                            0,
                            gradients,
                            at,
                            n_in,
                        )
                        continue
                    for i in range(min(ROWS, high - m)):
                        multiply_one(
                            slopes,
                            a_at + i * PANEL,
                            0,
                            1,
                            y_block,
                            turned,
                            panel,
                            panels,
                            PANEL,
                            _ZEROS,
                            0,
                            tile,
                            0,
                            0,
                        )
                        for j in range(columns):
                            gradients[at + i * n_in + j] = tile[j]
        elif n_in > LANES:
            for m in range(low, high):
                dots(
                    x,
                    x_at,
                    x_block,
                    n_in,
                    slopes,
                    y_at + m * PANEL,
                    y_block,
                    panels,
                    gradients,
                    offset + m * n_in,
                    1,
                )
        else:
            for i in range(n_in):
                dots(
                    slopes,
                    y_at + low * PANEL,
                    y_block,
                    high - low,
                    x,
                    x_at + i * PANEL,
                    x_block,
                    panels,
                    gradients,
                    offset + low * n_in + i,
                    n_in,
                )
        offset += n_in * n_out + n_out
