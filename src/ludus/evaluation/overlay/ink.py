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
_FAR = np.float32(1e6)  # below any picture


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
def fitted(text: str, size: int, room: int) -> str:
    """`text`, cut to `room` pixels."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def width(text: str, size: int) -> float:
    """How many pixels `text` takes."""
    return float(_font(size).getlength(text))


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


def fill(canvas: Array, x: float, y: int, length: float, height: int, color: Color, ground: Color) -> None:
    """A bar on a flat `ground`, whose left and right ends may lie within a pixel."""
    first, last = math.floor(x), math.ceil(x + length)
    columns = np.arange(first, last)
    covered = np.minimum(columns + 1, x + length) - np.maximum(columns, x)
    canvas[y : y + height, first:last] = mixed(covered, color, ground)


def mixed(covered: Array, color: Color, ground: Color = GROUND) -> Array:
    """`color` over a flat `ground`, by the share of each pixel that is covered, as bytes."""
    return _shades(color, ground)[(covered * 255 + 0.5).astype(np.uint8)]


@lru_cache(maxsize=64)
def _shades(color: Color, ground: Color) -> Array:
    """From none of `color` to nothing but it, in 256 steps."""
    share = np.arange(256)[:, None] / 255
    shades: Array = np.rint(np.array(ground) + share * (np.array(color) - np.array(ground)))
    return shades.astype(np.uint8)


@lru_cache(maxsize=16)
def dot(radius: float, color: Color, ground: Color = GROUND) -> Array:
    """A filled circle on a square tile."""
    size = math.ceil(2 * radius) + 1
    rows, columns = np.mgrid[:size, :size]
    distance = np.hypot(rows + 0.5 - size / 2, columns + 0.5 - size / 2)
    return mixed(np.clip(radius + 0.5 - distance, 0.0, 1.0), color, ground)


def latest(trail: Array, width: int, stride: int = 1) -> Array:
    """The newest values over `width` pixels, each `stride` pixels wide, with NaN after the last.

    They fill the room from the left; when it is full, the older half makes way. Nothing else moves, which is easy on
    the eye and on the encoder.
    """
    room = max(2, width // stride)
    half = room // 2
    start = max(0, -(-(len(trail) - room) // half) * half)
    recent = trail[start:]
    shown = np.full(width, np.nan)
    if stride > 1:
        recent = recent.repeat(stride)[:width]
    shown[: len(recent)] = recent
    return shown


def curves(values: Array, height: int, thickness: float = 1.5) -> tuple[Array, Array]:
    """Curves through `values` [n, width], from 0 (bottom) to 1: the pixels of the lines, and of what lies below.

    Both [n, height, width], from 0 to 1. NaN leaves a gap.
    """
    margin = thickness / 2 + 0.5
    at = (margin + (1.0 - values) * (height - 2 * margin)).astype(np.float32)  # in rows from the top
    before = np.concatenate([at[:, :1], at[:, :-1]], axis=1)
    top, bottom = np.fmin(at, before) - thickness / 2, np.fmax(at, before) + thickness / 2
    nowhere = np.isnan(at)
    if nowhere.any():
        at, top = np.where(nowhere, _FAR, at), np.where(nowhere, _FAR, top)
    rows = np.arange(height, dtype=np.float32)[None, :, None]
    line = np.minimum(rows + 1, bottom[:, None]) - np.maximum(rows, top[:, None])
    return np.clip(np.nan_to_num(line, copy=False), 0.0, 1.0), np.clip(rows + 1 - at[:, None], 0.0, 1.0)
