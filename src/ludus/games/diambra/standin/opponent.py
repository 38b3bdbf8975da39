"""The computer opponent of a single player: it walks up, strikes, and guards more at higher difficulty."""

from __future__ import annotations

import random

from ludus.games.diambra.standin.fight import HEAVY, LIGHT, MEDIUM, Fight

_THINK_TICKS = 5
_LEFT, _RIGHT = 1, 5
_NOTHING = (0, 0)


class Opponent:
    """Plays side `side` of a fight; `skill` is 0 (easy) to 1, `chance` its random numbers."""

    def __init__(self, side: int, skill: float, chance: random.Random) -> None:
        self._side = side
        self._skill = skill
        self._chance = chance
        self._until = 0
        self._choice = _NOTHING

    def choose(self, fight: Fight, ticks: int) -> tuple[int, int]:
        """Return (move, attack) at tick `ticks` of the round."""
        if ticks >= self._until:
            self._until = ticks + _THINK_TICKS
            self._choice = self._think(fight)
        return self._choice

    def _think(self, fight: Fight) -> tuple[int, int]:
        me, other = fight.fighters[self._side], fight.fighters[1 - self._side]
        towards, away = (_RIGHT, _LEFT) if me.facing > 0 else (_LEFT, _RIGHT)
        draw = self._chance.random()
        distance = fight.distance
        if distance <= MEDIUM.reach and (other.recovering or other.dizzy):
            return (0, 2) if draw < 0.4 + 0.6 * self._skill else (away, 0)
        if distance < HEAVY.reach + 0.03 and (other.winding_up or other.striking):
            return (away, 0) if draw < 0.35 + 0.6 * self._skill else _NOTHING
        if distance > LIGHT.reach:
            return (towards, 0) if draw < 0.75 + 0.2 * self._skill else (0, 3)
        if draw < 0.45 + 0.25 * self._skill:
            return 0, 1 + self._chance.choice((0, 0, 1, 1, 2))
        return (away, 0) if draw < 0.9 else _NOTHING
