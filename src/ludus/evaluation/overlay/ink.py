"""Text, lines and dots on an array of pixels, fast enough to be drawn anew in every frame.

Text is set by Pillow once and kept: most of what a frame says was said before. Curves are drawn for all rows of
a panel at once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ludus.types import Array

Color = tuple[int, int, int]
GROUND: Color = (15, 20, 26)
CARD: Color = (24, 31, 39)
TRACK: Color = (38, 48, 59)
FAINT: Color = (58, 70, 83)
MUTED: Color = (150, 163, 176)
INK: Color = (236, 241, 246)
BLUE: Color = (94, 174, 255)
AMBER: Color = (255, 184, 92)
GREEN: Color = (86, 211, 148)

Anchor = Literal["left", "right"]


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@lru_cache(maxsize=8192)
def text_tile(text: str, size: int, color: Color = INK, ground: Color = GROUND) -> Array:
    """`text` as pixels on a flat ground. All tiles of a size have the same height and baseline."""
    from PIL import Image, ImageDraw

    font = _font(size)
    ascent, descent = font.getmetrics()
    image = Image.new("RGB", (max(1, int(np.ceil(font.getlength(text)))), ascent + descent), ground)
    ImageDraw.Draw(image).text((0, 0), text, font=font, fill=color)
    return np.asarray(image)


@lru_cache(maxsize=1024)
def fitted(text: str, size: int, width: int) -> str:
    """`text`, cut to `width` pixels."""
    if _font(size).getlength(text) <= width:
        return text
    while text and _font(size).getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


def write(
    canvas: Array,
    text: str,
    x: int,
    y: int,
    size: int,
    color: Color = INK,
    anchor: Anchor = "left",
    ground: Color = GROUND,
) -> None:
    """Put `text` on a flat `ground` with its top at `y`; `x` is its left or right end."""
    tile = text_tile(text, size, color, ground)
    left = x - tile.shape[1] if anchor == "right" else x
    target = canvas[y : y + tile.shape[0], max(0, left) : left + tile.shape[1]]
    target[...] = tile[: target.shape[0], : target.shape[1]]


def fill(canvas: Array, x: float, y: int, width: float, height: int, color: Color) -> None:
    """A rectangle whose left and right ends may lie within a pixel."""
    if width <= 0:
        return
    first, last = int(np.floor(x)), int(np.ceil(x + width))
    columns = np.arange(first, last)
    covered = np.minimum(columns + 1, x + width) - np.maximum(columns, x)
    blend(canvas[y : y + height, first:last], np.broadcast_to(covered, (height, last - first)), color)


def blend(target: Array, covered: Array, color: Color) -> None:
    """Lay `color` over `target`, by the share of each pixel that is covered."""
    share = covered[..., None].astype(np.float32)
    target[...] = target + share * (_exact(color) - target) + 0.5


def mixed(covered: Array, color: Color, ground: Color = GROUND) -> Array:
    """`color` over a flat `ground`, as bytes."""
    share = covered[..., None].astype(np.float32)
    exact: Array = _exact(ground) + share * (_exact(color) - _exact(ground)) + 0.5
    return exact.astype(np.uint8)


@lru_cache(maxsize=64)
def _exact(color: Color) -> Array:
    return np.array(color, np.float32)


def dot(canvas: Array, x: float, y: float, radius: float, color: Color) -> None:
    """A filled circle."""
    top, left, size = int(y - radius) - 1, int(x - radius) - 1, int(2 * radius) + 4
    target = canvas[top : top + size, left : left + size]
    rows, columns = np.mgrid[top : top + target.shape[0], left : left + target.shape[1]]
    distance = np.hypot(rows + 0.5 - y, columns + 0.5 - x)
    blend(target, np.clip(radius + 0.5 - distance, 0.0, 1.0), color)


def latest(trail: Array, width: int, stride: int = 1) -> Array:
    """The last values over `width` pixels, each `stride` pixels wide, with NaN before the first."""
    shown = np.full(width, np.nan)
    recent = trail[-math.ceil(width / stride) :]
    if stride > 1:
        recent = recent.repeat(stride)[-width:]
    if len(recent):
        shown[width - len(recent) :] = recent
    return shown


def limits(trail: Array) -> tuple[float, float]:
    """The lowest and highest value, a little apart even where all are the same."""
    low, high = float(np.fmin.reduce(trail)), float(np.fmax.reduce(trail))
    if not (math.isfinite(low) and math.isfinite(high)):
        known = trail[np.isfinite(trail)]
        if not len(known):
            return -1.0, 1.0
        low, high = float(known.min()), float(known.max())
    if high - low < 1e-6 * max(1.0, abs(high)):
        return low - 0.5, high + 0.5
    return low, high


def curves(values: Array, height: int, thickness: float = 1.5) -> tuple[Array, Array]:
    """Curves through `values` [n, width], from 0 (bottom) to 1: the pixels of the lines, and of what lies below.

    Both [n, height, width], from 0 to 1. NaN leaves a gap.
    """
    margin = thickness / 2 + 0.5
    at = (margin + (1.0 - values) * (height - 2 * margin)).astype(np.float32)  # in rows from the top
    before = np.concatenate([at[:, :1], at[:, :-1]], axis=1)
    before = np.where(np.isnan(before), at, before)
    top, bottom = np.fmin(at, before) - thickness / 2, np.fmax(at, before) + thickness / 2
    rows = np.arange(height, dtype=np.float32)[None, :, None]
    line = np.minimum(rows + 1, bottom[:, None]) - np.maximum(rows, top[:, None])
    below = np.clip(rows + 1 - at[:, None], 0.0, 1.0)
    return np.nan_to_num(np.clip(line, 0.0, 1.0)), np.nan_to_num(below)
