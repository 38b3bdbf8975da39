"""A person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from ludus.envs.seats import TurnGame
from ludus.errors import UserError, printable
from ludus.league.league import Kind
from ludus.league.players import PendingTurn, Player, Reply


class HumanPlayer(Player):
    """Shows what is new to the seat since its last turn and reads the move, one line.

    What was typed may be shorter than what the game reads: `4` for `[4]`. UserError when the input ends.
    """

    kind: Kind = "human"
    name = "human"

    def __init__(self, screen: TextIO | None = None, keyboard: TextIO | None = None) -> None:
        self._screen = screen or sys.stdout
        self._keyboard = keyboard or sys.stdin
        self._shown: dict[tuple[int, int], str] = {}

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        return [self._answer(turn) for turn in turns]

    def _answer(self, turn: PendingTurn) -> Reply:
        key = (turn.match, turn.seat)
        seen = turn.game.observe().text
        before = self._shown.get(key, "")
        news = seen.removeprefix(before)
        self._shown[key] = seen
        print(printable(news.strip("\n"), keep="\n\t"), file=self._screen)  # an opponent's words may be in it
        typed = ""
        while not typed:
            print(f"\nplayer {turn.seat}, your move: ", end="", file=self._screen, flush=True)
            line = self._keyboard.readline()
            if not line:
                print(file=self._screen)
                raise UserError("the input ended before the game did", fix="play at a terminal")
            typed = line.strip()
        return Reply(_as_written(turn.game, typed), typed)


def _as_written(game: TurnGame, typed: str) -> str:
    """Return what was typed as the game writes it: `4` or `col 4` for `[4]`, where its codec understands it."""
    action = None if game.codec is None else game.codec.index(typed)
    return typed if game.codec is None or action is None else game.codec.text(action)
