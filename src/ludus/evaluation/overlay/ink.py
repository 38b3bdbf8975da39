"""Text, lines and dots on an array of pixels, fast enough for every frame.

Text is drawn by Pillow once and cached, because most of a frame repeats. Numbers, which change, are composed of cached
digits of equal width, so that they do not move. Curves are drawn by compiled code.
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
_FIGURES = frozenset("0123456789.,-+%e")


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@lru_cache(maxsize=8192)
def text_tile(text: str, size: int, color: Color = INK, ground: Color = GROUND) -> Array:
    """Draw `text` as pixels on a flat ground. All tiles of a size have the same height and baseline."""
    if text and _FIGURES.issuperset(text):
        return np.concatenate([_figure(sign, size, color, ground) for sign in text], axis=1)
    return _set(text, max(1, math.ceil(_font(size).getlength(text))), size, color, ground)


@lru_cache(maxsize=1024)
def _figure(sign: str, size: int, color: Color, ground: Color) -> Array:
    """Draw one character of a number; all digits of a size are equally wide."""
    alike = "0123456789" if sign.isdigit() else sign
    return _set(sign, round(max(_font(size).getlength(one) for one in alike)), size, color, ground)


def _set(text: str, width: int, size: int, color: Color, ground: Color) -> Array:
    from PIL import Image, ImageDraw

    font = _font(size)
    image = Image.new("RGB", (width, sum(font.getmetrics())), ground)
    left = (width - font.getlength(text)) / 2 if len(text) == 1 else 0  # centre a digit in its cell
    ImageDraw.Draw(image).text((left, 0), text, font=font, fill=color)
    return np.asarray(image)


@lru_cache(maxsize=1024)
def fitted(text: str, size: int, room: int) -> str:
    """Return `text`, cut to `room` pixels."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def width(text: str, size: int) -> float:
    """Return the width of `text` in pixels."""
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
    """Draw a bar on a flat `ground`; its ends may be fractions of a pixel."""
    shades, end = _shades(color, ground), x + length
    first, last = math.floor(x), math.ceil(end) - 1
    bar = canvas[y : y + height]
    bar[:, first:last] = shades[255]
    bar[:, last] = shades[round((end - last) * 255)]
    bar[:, first] = shades[round((min(first + 1, end) - x) * 255)]


def mixed(covered: Array, color: Color, ground: Color = GROUND) -> Array:
    """Blend `color` over a flat `ground` by the covered share of each pixel, as bytes."""
    return _shades(color, ground)[(covered * 255 + 0.5).astype(np.uint8)]


@lru_cache(maxsize=64)
def _shades(color: Color, ground: Color) -> Array:
    """Return the 256 blends from `ground` to `color`."""
    share = np.arange(256)[:, None] / 255
    shades: Array = np.rint(np.array(ground) + share * (np.array(color) - np.array(ground)))
    return shades.astype(np.uint8)


@lru_cache(maxsize=16)
def dot(radius: float, color: Color, ground: Color = GROUND) -> Array:
    """Draw a filled circle on a square tile."""
    size = math.ceil(2 * radius) + 1
    rows, columns = np.mgrid[:size, :size]
    distance = np.hypot(rows + 0.5 - size / 2, columns + 0.5 - size / 2)
    return mixed(np.clip(radius + 0.5 - distance, 0.0, 1.0), color, ground)


def latest(trail: Array, width: int, stride: int = 1) -> Array:
    """Return the newest values that fit into `width` pixels, each `stride` pixels wide.

    They fill the space from the left. When it is full, the older half is dropped. Nothing else moves, which is easy to
    read and to encode.
    """
    room = max(2, width // stride)
    half = room // 2
    return trail[max(0, -(-(len(trail) - room) // half) * half) :]


def curve(
    canvas: Array,
    trail: Array,
    low: float,
    high: float,
    *,
    stride: int,
    thickness: float,
    color: Color,
    ground: Color = GROUND,
    below: float = 0.0,
    zero: int = -1,
) -> None:
    """Fill `canvas` with the newest of `trail`, between `low` and `high`; see `draw_curve`."""
    from ludus.evaluation.pixels import draw_curve  # compiled at the first import

    shown = latest(trail, canvas.shape[1], stride)
    draw_curve(
        canvas,
        shown,
        low,
        high,
        stride,
        thickness,
        below,
        _shades(color, ground),
        zero,
        _shades(FAINT, FAINT)[0],
    )
