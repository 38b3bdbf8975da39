"""What a `TextGame` is played on: one started game of whichever library, and how it fails."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Protocol

from ludus.errors import LudusError


class GameFault(LudusError):
    """The game itself raised; `game_traceback` is its own traceback as text."""

    def __init__(self, what: str, game_traceback: str = "") -> None:
        super().__init__(f"{what}\n\n{game_traceback.rstrip()}" if game_traceback else what)
        self.what = what
        self.game_traceback = game_traceback

    @classmethod
    def of(cls, error: Exception, doing: str) -> GameFault:
        """The fault of a game that raised `error` while `doing`."""
        return cls(f"{doing}: {type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


@dataclass(frozen=True)
class Observed:
    """What the seat to move may see.

    `text` is all it has been shown so far, in the library's own words; `board` the newest board alone and `rules`
    the first prompt alone, both empty where the game has none. `position` is the whole state in a few characters,
    as the game's codec writes it; empty without a codec.
    """

    text: str
    board: str
    rules: str
    seat: int
    position: str = ""


class StartedGame(Protocol):
    """One started game; starting it and `play` raise GameFault where the game raises."""

    over: bool

    def observe(self) -> Observed:
        """What the seat to move sees."""
        ...

    def play(self, action: str) -> bool:
        """Plays for the seat to move; False when the game refused the action."""
        ...

    def rewards(self) -> tuple[float, ...]:
        """Of each seat, once the game is over."""
        ...

    def reason(self) -> str:
        """Why it is over, in the game's words."""
        ...

    def invalid(self) -> tuple[bool, ...]:
        """Seats that lost by invalid moves."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """The game's own state, for codecs to read."""
        ...
