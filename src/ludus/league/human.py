"""A person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from ludus.errors import UserError
from ludus.league.league import Kind
from ludus.league.players import Reply, Seated


class HumanPlayer:
    """Shows what is new to the seat since its last turn and reads the move, one line.

    `spell` may turn what was typed into what the game understands (`4` into `[4]`). UserError when the input ends.
    """

    kind: Kind = "human"
    name = "human"
    plays: frozenset[str] | None = None

    def __init__(
        self,
        spell: Callable[[Seated, str], str] | None = None,
        screen: TextIO | None = None,
        keyboard: TextIO | None = None,
    ) -> None:
        self._spell = spell
        self._screen = screen or sys.stdout
        self._keyboard = keyboard or sys.stdin
        self._shown: dict[tuple[int, int], str] = {}

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: Seated) -> Reply:
        place = (turn.match, turn.seat)
        seen = turn.game.observe().text
        before = self._shown.get(place, "")
        news = seen.removeprefix(before)
        self._shown[place] = seen
        print(news.strip("\n"), file=self._screen)
        typed = ""
        while not typed:
            print(f"\nplayer {turn.seat}, your move: ", end="", file=self._screen, flush=True)
            line = self._keyboard.readline()
            if not line:
                print(file=self._screen)
                raise UserError("the input ended before the game did", fix="play at a terminal")
            typed = line.strip()
        return Reply(typed if self._spell is None else self._spell(turn, typed), typed)
