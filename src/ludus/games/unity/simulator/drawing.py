"""Camera image of the yard from above, as a PNG."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np

from ludus.games.unity.simulator.tank import RADIUS, REACH, YARD, Body, Yard
from ludus.types import Array

_GROUND, _OBSTACLE, _ZONE = (236, 232, 220), (120, 113, 108), (190, 227, 180)
_TARGET, _TANK, _GUN = (217, 72, 15), (37, 99, 235), (15, 23, 42)


def draw(yard: Yard, size: int) -> Array:
    """Return an image of shape (size, size, 3)."""
    half = YARD + 0.5
    line = (np.arange(size) + 0.5) / size * 2 * half - half
    x, y = np.meshgrid(line, -line)
    image = np.empty((size, size, 3), np.uint8)
    image[:] = _GROUND
    image[(abs(x) > YARD) | (abs(y) > YARD)] = _OBSTACLE

    def disc(cx: float, cy: float, radius: float, color: tuple[int, int, int]) -> None:
        image[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = color

    def pointer(body: Body, angle: float, length: float) -> None:
        for way in np.linspace(0.0, length, 6):
            disc(body.x - math.sin(angle) * way, body.y + math.cos(angle) * way, 0.28, _GUN)

    for cx, cy, radius in yard.obstacles.tolist():
        disc(cx, cy, radius, _OBSTACLE)
    if yard.use_case == "uc1":
        disc(yard.target.x, yard.target.y, REACH, _ZONE)
        disc(yard.target.x, yard.target.y, 0.4, _TARGET)
    else:
        disc(yard.target.x, yard.target.y, RADIUS, _TARGET)
        pointer(yard.target, yard.target.heading, 1.0)
    disc(yard.tank.x, yard.tank.y, RADIUS, _TANK)
    pointer(yard.tank, yard.tank.heading + (0.0 if yard.use_case == "uc1" else yard.turret), 1.2)
    return image


def as_png(image: Array) -> bytes:
    height, width, _ = image.shape
    rows = np.zeros(
        (height, 1 + 3 * width), np.uint8
    )  # every row begins with its filter type: 0 for no filter
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
