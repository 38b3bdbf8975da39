"""A network over panels gives what matrix products written in NumPy give, whatever its widths and the batch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ludus.algorithms.backends.numba import panels as kernels
from ludus.algorithms.backends.numba.core import ELU, RELU, TANH
from ludus.algorithms.backends.numba.tiles import LANES, PANEL, ROWS

ACTIVATIONS = {
    TANH: (np.tanh, lambda y: 1 - y**2),
    RELU: (lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(float)),
    ELU: (lambda x: np.where(x > 0, x, np.expm1(x)), lambda y: np.where(y > 0, 1.0, y + 1)),
}


def in_panels(rows: Any, width: int) -> Any:
    """[samples, features] as panels of `width` features; what is left over holds noise that must not matter."""
    panels = kernels.panels_of(len(rows))
    laid = np.random.default_rng(9).normal(size=(panels, width, PANEL)).astype(np.float32)
    for b, row in enumerate(rows):
        laid[b // PANEL, : len(row), b % PANEL] = row
    return laid.reshape(-1)


def from_panels(laid: Any, samples: int, width: int) -> Any:
    return laid.reshape(-1, width, PANEL).transpose(0, 2, 1).reshape(-1, width)[:samples]


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize(
    ("samples", "dims"),
    [
        (3 * PANEL, [4, 4 * ROWS, 2 * PANEL, 1]),  # whole tiles
        (2 * PANEL + 5, [PANEL + 3, 2 * PANEL + LANES + 1, ROWS + 3, 2]),  # none whole
        (1, [3, 5]),
        (PANEL + 1, [LANES + 2, ROWS - 1, 1]),
    ],
    ids=str,
)
def test_a_network_and_its_gradient(samples: int, dims: list[int], kind: int) -> None:
    rng = np.random.default_rng(0)
    value, slope_of = ACTIVATIONS[kind]
    offset, width = 3, dims[0] + 2  # other numbers before the network, and features that it does not take
    weights = [rng.normal(0, 0.5, (n_out, n_in)) for n_in, n_out in itertools.pairwise(dims)]
    biases = [rng.normal(0, 0.5, n_out) for n_out in dims[1:]]
    flat = np.concatenate([part.ravel() for pair in zip(weights, biases, strict=True) for part in pair])
    parameters = np.concatenate([np.full(offset, np.nan), flat]).astype(np.float32)
    x, by_output = rng.normal(size=(samples, dims[0])), rng.normal(size=(samples, dims[-1]))

    layers = [x]
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        y = layers[-1] @ weight.T + bias
        layers.append(y if number == len(weights) - 1 else value(y))
    slopes, expected = by_output, []
    for number in range(len(weights) - 1, -1, -1):
        expected = [(slopes.T @ layers[number]).ravel(), slopes.sum(0), *expected]
        slopes = slopes @ weights[number] * slope_of(layers[number])

    plan, panels = np.array(dims), kernels.panels_of(samples)
    inputs = in_panels(x, width)
    work = np.full(panels * PANEL * sum(dims[1:]), np.nan, dtype=np.float32)
    outputs = 0
    for low, high in ((0, panels // 2), (panels // 2, panels)):
        outputs = kernels.forward(parameters, offset, plan, kind, inputs, width, work, panels, low, high)
    np.testing.assert_allclose(
        from_panels(work[outputs:], samples, dims[-1]), layers[-1], rtol=1e-4, atol=1e-5
    )

    back = np.full_like(work, np.nan)
    back[outputs:] = 0.0
    for b, row in enumerate(by_output):
        back[outputs:].reshape(panels, dims[-1], PANEL)[b // PANEL, :, b % PANEL] = row
    turned = np.full(kernels.turned_size(plan, len(dims) - 1, panels), np.nan, dtype=np.float32)
    kernels.spread(parameters, offset, plan, kind, work, back, panels, 0, panels)
    kernels.turn_inputs(plan, inputs, width, work, turned, panels, 0, panels)
    gradients = np.full_like(parameters, np.nan)
    for share in range(2):
        kernels.gradients_of(gradients, offset, plan, inputs, width, work, back, turned, panels, share, 2)
    np.testing.assert_allclose(gradients[offset:], np.concatenate(expected), rtol=1e-3, atol=1e-4)
    assert np.isnan(gradients[:offset]).all()
