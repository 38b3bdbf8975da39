"""Frames of the stand-in: arena, health bars, clock, two fighters with their actions, and the text STAND-IN."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ludus.games.diambra.standin.fight import Fighter
from ludus.games.diambra.standin.match import Match
from ludus.types import Array

WORDS = "STAND-IN"
# Letters of four by five dots, one number per row: bits from left to right.
_LETTERS = {
    "S": (7, 8, 6, 1, 14),
    "T": (14, 4, 4, 4, 4),
    "A": (6, 9, 15, 9, 9),
    "N": (9, 13, 11, 9, 9),
    "D": (14, 9, 9, 9, 14),
    "I": (14, 4, 4, 4, 14),
    "-": (0, 0, 14, 0, 0),
}
_FLOOR, _SKIES = (70, 60, 50), ((24, 32, 60), (50, 24, 60), (20, 54, 50), (60, 44, 20))
_INK = (235, 235, 235)
_BODIES = ((60, 150, 255), (255, 110, 70))
_WINDUP, _STRIKE, _HURT, _GUARD, _BAR, _EMPTY, _WIN = (
    (200, 200, 90),
    (255, 255, 255),
    (255, 240, 240),
    (130, 230, 130),
    (250, 210, 60),
    (90, 20, 20),
    (90, 230, 255),
)
_GREY = np.array([0.299, 0.587, 0.114])


def draw(match: Match, shape: tuple[int, int, int]) -> Array:
    """Return the current frame of `match`: (height, width, 1 or 3) bytes."""
    frame = _arena(shape, (match.stage - 1) % len(_SKIES)).copy()
    paint = _Painter(frame, shape[2])
    for side, fighter in enumerate(match.fight.fighters):
        _draw_bars(paint, side, fighter, match)
        _draw_fighter(paint, side, fighter)
    left = match.timer / match.rules.seconds
    paint.box(0.47, 0.03, 0.47 + 0.06 * left, 0.08, _INK)
    return frame


class _Painter:
    """Draws boxes, with coordinates as fractions of width and height."""

    def __init__(self, frame: Array, channels: int) -> None:
        self._frame = frame
        self._height, self._width = frame.shape[:2]
        self._grey = channels == 1

    def box(self, left: float, top: float, right: float, bottom: float, color: tuple[int, int, int]) -> None:
        rows = slice(max(int(top * self._height), 0), max(int(bottom * self._height), 0))
        columns = slice(max(int(left * self._width), 0), max(int(right * self._width), 0))
        self._frame[rows, columns] = _grey(color) if self._grey else color


def _draw_bars(paint: _Painter, side: int, fighter: Fighter, match: Match) -> None:
    for index, health in enumerate(fighter.healths):
        top = 0.03 + 0.05 * index
        if side == 0:
            paint.box(0.04, top, 0.44, top + 0.05, _EMPTY)
            paint.box(0.44 - 0.4 * health, top, 0.44, top + 0.05, _BAR)
        else:
            paint.box(0.56, top, 0.96, top + 0.05, _EMPTY)
            paint.box(0.56, top, 0.56 + 0.4 * health, top + 0.05, _BAR)
    for won in range(match.wins[side]):
        x = 0.4 - 0.05 * won if side == 0 else 0.57 + 0.05 * won
        paint.box(x, 0.15, x + 0.03, 0.18, _WIN)


def _draw_fighter(paint: _Painter, side: int, fighter: Fighter) -> None:
    feet = 0.8 - (0.18 if fighter.air else 0.0)
    tall = 0.2 if fighter.move[1] < 0 and not fighter.busy else 0.34
    body = _HURT if fighter.hurt or fighter.dizzy else _BODIES[side]
    paint.box(fighter.x - 0.035, feet - tall, fighter.x + 0.035, feet, body)
    if fighter.guarding:
        front = fighter.x + 0.04 * fighter.facing
        paint.box(front - 0.012, feet - tall, front + 0.012, feet, _GUARD)
    if fighter.blow is not None and (fighter.winding_up or fighter.striking):
        reach = fighter.blow.reach if fighter.striking else 0.06
        ends = sorted((fighter.x, fighter.x + reach * fighter.facing))
        thick = 0.03 + 0.2 * fighter.blow.damage
        paint.box(
            ends[0], feet - 0.24, ends[1], feet - 0.24 + thick, _STRIKE if fighter.striking else _WINDUP
        )


@lru_cache(maxsize=32)
def _arena(shape: tuple[int, int, int], scene: int) -> Array:
    """Return the background with the text STAND-IN."""
    height, width, channels = shape
    frame = np.zeros(shape, dtype=np.uint8)
    paint = _Painter(frame, channels)
    paint.box(0, 0, 1, 1, _SKIES[scene])
    paint.box(0, 0.8, 1, 1, _FLOOR)
    dots = _dots(WORDS)
    scale = max(1, min(width // (2 * dots.shape[1]), int(height * 0.16) // dots.shape[0]))
    words = np.kron(dots, np.ones((scale, scale), dtype=bool))[:height, :width]
    top = max(0, height - words.shape[0] - 1)
    left = (width - words.shape[1]) // 2
    place = frame[top : top + words.shape[0], left : left + words.shape[1]]
    place[words] = _grey(_INK) if channels == 1 else _INK
    return frame


def _dots(text: str) -> Array:
    rows = np.zeros((5, 5 * len(text) - 1), dtype=bool)
    for position, letter in enumerate(text):
        for y, bits in enumerate(_LETTERS[letter]):
            for x in range(4):
                rows[y, 5 * position + x] = bool(bits >> (3 - x) & 1)
    return rows


@lru_cache(maxsize=64)
def _grey(color: tuple[int, int, int]) -> int:
    return int(np.dot(color, _GREY))
