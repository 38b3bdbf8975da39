"""The core that every kernel shares: a multilayer perceptron forward and backward, clipping, Adam, RMSprop.

A network is a run of layers in one flat float32 array: weight [out, in], then bias [out], layer after layer,
starting at `offset`; `dims` holds its widths from input to output. Hidden layers are activated, the last is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# NaN and infinity keep their meaning, so that a bad gradient is seen; everything else may be reordered.
FAST = {"contract", "reassoc", "arcp", "nsz", "afn"}
TANH, RELU, ELU = 0, 1, 2

f32 = np.float32


@njit(cache=True, error_model="numpy", fastmath=FAST, inline="always")
def tanh(x: Any) -> Any:
    """tanh as a ratio of two polynomials (the coefficients Eigen uses): float32-exact, and it vectorises."""
    x = min(max(x, f32(-7.99881172180175781)), f32(7.99881172180175781))
    s = x * x
    p = f32(-2.76076847742355e-16)
    p = p * s + f32(2.00018790482477e-13)
    p = p * s + f32(-8.60467152213735e-11)
    p = p * s + f32(5.12229709037114e-08)
    p = p * s + f32(1.48572235717979e-05)
    p = p * s + f32(6.37261928875436e-04)
    p = p * s + f32(4.89352455891786e-03)
    q = f32(1.19825839466702e-06)
    q = q * s + f32(1.18534705686654e-04)
    q = q * s + f32(2.26843463243900e-03)
    q = q * s + f32(4.89352518554385e-03)
    return x * p / q


@njit(cache=True, error_model="numpy", fastmath=FAST)
def activate(values: Any, bias: Any, kind: int) -> None:
    """values [B, n] becomes activation(values + bias), in place."""
    rows, width = values.shape
    if kind == TANH:
        for b in range(rows):
            row = values[b]
            for j in range(width):
                row[j] = tanh(row[j] + bias[j])
    elif kind == RELU:
        for b in range(rows):
            row = values[b]
            for j in range(width):
                row[j] = max(row[j] + bias[j], f32(0.0))
    else:
        for b in range(rows):
            row = values[b]
            for j in range(width):
                x = row[j] + bias[j]
                row[j] = x if x > f32(0.0) else np.expm1(x)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def scale_by_slope(gradient: Any, values: Any, kind: int) -> None:
    """gradient *= the activation's slope, read off its own output `values`."""
    rows, width = values.shape
    for b in range(rows):
        g, y = gradient[b], values[b]
        if kind == TANH:
            for j in range(width):
                g[j] *= f32(1.0) - y[j] * y[j]
        elif kind == RELU:
            for j in range(width):
                if y[j] <= f32(0.0):
                    g[j] = f32(0.0)
        else:
            for j in range(width):
                if y[j] <= f32(0.0):
                    g[j] *= y[j] + f32(1.0)


@njit(cache=True)
def network_size(dims: Any) -> int:
    """Parameters of a network with these widths."""
    total = 0
    for layer in range(len(dims) - 1):
        total += dims[layer] * dims[layer + 1] + dims[layer + 1]
    return total


@njit(cache=True, error_model="numpy", fastmath=FAST)
def forward(parameters: Any, offset: int, dims: Any, kind: int, inputs: Any, work: Any) -> Any:
    """The outputs [B, dims[-1]], a view into `work`, which keeps every layer's values for `backward`."""
    rows = len(inputs)
    layers = len(dims) - 1
    x = inputs
    place = 0
    for layer in range(layers):
        n_in, n_out = dims[layer], dims[layer + 1]
        weight = parameters[offset : offset + n_in * n_out].reshape((n_out, n_in))
        offset += n_in * n_out
        bias = parameters[offset : offset + n_out]
        offset += n_out
        y = work[place : place + rows * n_out].reshape((rows, n_out))
        place += rows * n_out
        np.dot(x, weight.T, y)
        if layer < layers - 1:
            activate(y, bias, kind)
        else:
            for b in range(rows):
                for j in range(n_out):
                    y[b, j] += bias[j]
        x = y
    return x


@njit(cache=True, error_model="numpy", fastmath=FAST)
def backward(
    parameters: Any, gradients: Any, offset: int, dims: Any, kind: int, inputs: Any, work: Any, slopes: Any
) -> None:
    """Write the gradient of every parameter, given d(loss)/d(outputs) at the outputs' place in `slopes`.

    `work` is as `forward` left it; `slopes` has its size and is overwritten.
    """
    rows = len(inputs)
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
        end -= n_out
        bias_gradient = gradients[end : end + n_out]
        bias_gradient[:] = f32(0.0)
        for b in range(rows):
            for j in range(n_out):
                bias_gradient[j] += dy[b, j]
        end -= n_in * n_out
        weight_gradient = gradients[end : end + n_in * n_out].reshape((n_out, n_in))
        if layer == 0:
            np.dot(dy.T, inputs, weight_gradient)
        else:
            before = place - rows * n_in
            x = work[before : before + rows * n_in].reshape((rows, n_in))
            np.dot(dy.T, x, weight_gradient)
            weight = parameters[end : end + n_in * n_out].reshape((n_out, n_in))
            np.dot(dy, weight, slopes[before : before + rows * n_in].reshape((rows, n_in)))


@njit(cache=True, error_model="numpy", fastmath=FAST)
def squared_norm(values: Any) -> float:
    total = 0.0
    for i in range(len(values)):
        total += values[i] * values[i]
    return total


@njit(cache=True, error_model="numpy", fastmath=FAST)
def adam(
    parameters: Any, gradients: Any, first: Any, second: Any, step: int, rate: float, eps: float, scale: float
) -> None:
    """One Adam step (betas 0.9, 0.999) with gradients times `scale`; `step` counts from 1."""
    rate_now = f32(rate / (1.0 - 0.9**step))
    root_now = f32(1.0 / np.sqrt(1.0 - 0.999**step))
    eps_now, scale_now = f32(eps), f32(scale)
    for i in range(len(parameters)):
        g = gradients[i] * scale_now
        m = f32(0.9) * first[i] + f32(0.1) * g
        v = f32(0.999) * second[i] + f32(0.001) * g * g
        first[i] = m
        second[i] = v
        parameters[i] -= rate_now * m / (np.sqrt(v) * root_now + eps_now)


@njit(cache=True, error_model="numpy", fastmath=FAST)
def rmsprop(parameters: Any, gradients: Any, square: Any, rate: float, eps: float, scale: float) -> None:
    """One RMSprop step (alpha 0.99), as torch defines it."""
    rate_now, eps_now, scale_now = f32(rate), f32(eps), f32(scale)
    for i in range(len(parameters)):
        g = gradients[i] * scale_now
        v = f32(0.99) * square[i] + f32(0.01) * g * g
        square[i] = v
        parameters[i] -= rate_now * g / (np.sqrt(v) + eps_now)


@njit(cache=True)
def clip_scale(norm: float, max_norm: float) -> float:
    """Return the factor that clips gradients of this norm; a `max_norm` below zero means no limit."""
    if max_norm < 0.0:
        return 1.0
    return min(1.0, max_norm / (norm + 1e-6))
