"""Compiled loops over the pixels of a frame: drawing curves, and converting colours for H.264."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_int = np.int32


@njit(cache=True, nogil=True, error_model="numpy")
def to_planes(rgb: Any, y: Any, u: Any, v: Any) -> None:
    """Write a picture [height, width, 3] of even sides into the planes of YUV 4:2:0 (BT.601, 16 to 235).

    `y` has the size of the picture, `u` and `v` have half its width and height: each of their values is the mean of
    four pixels. Coefficients are in 1/65536.
    """
    height, width = rgb.shape[0], rgb.shape[1]
    for top in range(0, height, 2):
        for row in range(top, top + 2):
            pixels, bright = rgb[row].reshape(-1), y[row]
            for x in range(np.uint32(width)):
                r, g, b = _int(pixels[3 * x]), _int(pixels[3 * x + 1]), _int(pixels[3 * x + 2])
                sum_y = _int(16829) * r + _int(33039) * g + _int(6416) * b + _int(16 * 65536 + 32768)
                bright[x] = np.uint8(sum_y >> _int(16))
        above, below = rgb[top].reshape(-1), rgb[top + 1].reshape(-1)
        blue, red = u[top >> 1], v[top >> 1]
        for x in range(np.uint32(width >> 1)):
            at = 6 * x
            r = _int(above[at]) + _int(above[at + 3]) + _int(below[at]) + _int(below[at + 3])
            g = _int(above[at + 1]) + _int(above[at + 4]) + _int(below[at + 1]) + _int(below[at + 4])
            b = _int(above[at + 2]) + _int(above[at + 5]) + _int(below[at + 2]) + _int(below[at + 5])
            middle = _int(4 * (128 * 65536 + 32768))
            blue[x] = np.uint8((_int(28784) * b - _int(9714) * r - _int(19070) * g + middle) >> _int(18))
            red[x] = np.uint8((_int(28784) * r - _int(24103) * g - _int(4681) * b + middle) >> _int(18))


@njit(cache=True, error_model="numpy")
def draw_curve(
    canvas: Any,
    values: Any,
    low: float,
    high: float,
    stride: int,
    thickness: float,
    below: float,
    shades: Any,
    zero: int,
    zero_color: Any,
) -> None:
    """Fill `canvas` [height, width, 3] with a line through `values`, from `low` (bottom) to `high` (top).

    Values are drawn from the left, each `stride` pixels wide; NaN leaves a gap. `shades` [256, 3] goes from the
    background to the colour of the line; the area below the line has the share `below` of it. The row `zero`, unless
    negative, has its own colour where the line does not cover it.
    """
    height, width = canvas.shape[0], canvas.shape[1]
    margin = thickness / 2 + 0.5
    before = np.nan
    for x in range(width):
        at = np.nan
        if x // stride < len(values):
            at = margin + (high - values[x // stride]) / (high - low) * (height - 2 * margin)
        if np.isnan(before):
            before = at
        top, bottom = min(at, before) - thickness / 2, max(at, before) + thickness / 2
        for y in range(height):
            line, filled = 0.0, 0.0
            if not np.isnan(at):
                line = min(max(min(y + 1, bottom) - max(y, top), 0.0), 1.0)
                filled = min(max(y + 1 - at, 0.0), 1.0)
            shade = int(max(line, below * filled) * 255 + 0.5)
            for part in range(3):
                canvas[y, x, part] = zero_color[part] if y == zero and line < 0.5 else shades[shade, part]
        before = at
