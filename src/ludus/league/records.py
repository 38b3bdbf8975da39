"""Match records: who played, every move, and the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ludus.envs.seats import TurnGame


@dataclass
class MatchRecord:
    """One game as it was played. `turns` holds what players recorded of their own turns (`Reply.turn`), in order."""

    match: int
    game: str
    seed: int
    players: tuple[str, ...]
    """The player of each seat."""
    rewards: tuple[float, ...]
    reason: str
    invalid: tuple[bool, ...]
    """Seats whose invalid move ended the game."""
    cut_off: bool
    """It did not end by itself, or raised."""
    length: int
    """Number of turns, of all seats."""
    moves: list[tuple[int, str]]
    """Seat and action of each turn."""
    turns: list[Any] = field(default_factory=list)
    group: int | None = None
    seconds: float = 0.0
    """Time from its first turn to its last, while other games were played next to it."""

    @classmethod
    def of(cls, match: int, game: TurnGame, players: tuple[str, ...], **more: Any) -> MatchRecord:
        """Make the record of a `game` that is over; `more` are further fields."""
        outcome = game.outcome()
        return cls(
            match=match,
            game=game.spec.id,
            seed=game.seed,
            players=players,
            rewards=outcome.rewards,
            reason=outcome.reason,
            invalid=outcome.invalid,
            cut_off=outcome.cut_off,
            length=game.turns,
            **more,
        )
