"""What is remembered of a game: every turn with the very tokens that were sampled, and how the game ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ludus.types import Array

if TYPE_CHECKING:
    from ludus.language.text_games.game import TextGame


@dataclass
class Turn:
    """One turn of a language model: what it was shown, what it sampled, and what came of it.

    `prompt` and `completion` are token ids as the sampler had and drew them; training uses these and never
    tokenises a text again. `log_probs` are those of the distribution that was sampled from, `raw_log_probs`
    those of the plain policy (temperature 1, nothing cut off).
    """

    game: str
    match: int
    seat: int
    index: int
    """Which of the match's turns this is, counting all seats."""
    player: str
    """The member of the league who played it."""
    version: int
    """How many updates its weights had seen."""
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    log_probs: Array
    raw_log_probs: Array
    observation: str
    text: str
    action: str
    well_formed: bool = True
    """The completion held an action in the asked form."""
    invalid: bool = False
    """The game refused the action."""
    truncated: bool = False
    """The completion was cut off at its longest."""
    prompt_cut: int = 0
    """Tokens lost from the beginning of a prompt that was too long."""
    entropy: float = 0.0
    group: int | None = None
    """Matches of one group were played from one and the same state; a seat's turns in them are compared."""
    reward: float = 0.0
    """After the transforms of the final and of the step reward."""
    reward_parts: dict[str, float] = field(default_factory=dict)
    """The result itself (`game`) and the reward after each transform, by name."""
    weight: float = 1.0
    """How much it counts in its batch."""
    advantage: float | None = None


@dataclass
class MatchRecord:
    """One game as it was played. `turns` holds the turns of language models only, in order."""

    match: int
    game: str
    seed: int
    players: tuple[str, ...]
    """Who sat on each seat."""
    rewards: tuple[float, ...]
    reason: str
    invalid: tuple[bool, ...]
    """Seats whose invalid move ended the game."""
    cut_off: bool
    """It did not end by itself, or raised."""
    length: int
    """Turns of all seats."""
    moves: list[tuple[int, str]]
    """Seat and action of every turn."""
    turns: list[Turn] = field(default_factory=list)
    group: int | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, match: int, game: TextGame, players: tuple[str, ...], **more: Any) -> MatchRecord:
        """The record of a `game` that is over; `more` are further fields."""
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
