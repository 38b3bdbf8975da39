"""How a game is set up: deck, stake, where it ends, what is rewarded, and how it is observed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ludus.errors import ConfigError, UnknownName
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import DECK_NAMES, STAKE_NAMES
from ludus.games.balatro.state import MAX_HAND

DEFAULT_MAX_HAND = 12
DEFAULT_MAX_STEPS = 5_000


@dataclass(frozen=True)
class Rewards:
    """What a step pays: progress towards the blind (0 to 1 over a round), a blind beaten, the run won."""

    chips: float = 0.5
    blind: float = 1.0
    win: float = 10.0
    illegal: float = -0.05


@dataclass(frozen=True)
class BalatroSettings:
    """Raises ConfigError or UnknownName where a value makes no sense.

    `max_ante` is the ante whose boss ends the run as won; None plays on until it is lost. `max_hand` is how many
    positions of the hand the actions reach at once (see `actions.py`).
    """

    deck: str = "Red Deck"
    stake: str | int = "White Stake"
    max_ante: int | None = 8
    max_hand: int = DEFAULT_MAX_HAND
    max_steps: int = DEFAULT_MAX_STEPS
    observation: str = "flat"
    actions: str = "cards"
    rewards: Rewards = field(default_factory=Rewards)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", _rewards(self.rewards))
        _ = self.deck_number, self.stake_number
        if self.max_ante is not None and self.max_ante < 1:
            raise ConfigError(f"max_ante must be 1 or more, not {self.max_ante}", key="env.kwargs.max_ante")
        if not 5 <= self.max_hand <= MAX_HAND:
            raise ConfigError(
                f"max_hand must be 5 to {MAX_HAND}, not {self.max_hand}", key="env.kwargs.max_hand"
            )
        if self.max_steps < 1:
            raise ConfigError(
                f"max_steps must be 1 or more, not {self.max_steps}", key="env.kwargs.max_steps"
            )
        if self.actions not in ("cards", "moves"):
            raise UnknownName("actions", self.actions, ["cards", "moves"], where="env.kwargs.actions")
        if self.observation not in ("flat", "dict"):
            raise UnknownName(
                "observation", self.observation, ["flat", "dict"], where="env.kwargs.observation"
            )

    @property
    def deck_number(self) -> int:
        return _number(DECK_NAMES, self.deck, "deck", " Deck")

    @property
    def stake_number(self) -> int:
        if isinstance(self.stake, int) and not isinstance(self.stake, bool):
            if self.stake not in STAKE_NAMES:
                raise ConfigError(f"stake must be 1 to 8, not {self.stake}", key="env.kwargs.stake")
            return self.stake
        return _number(STAKE_NAMES, self.stake, "stake", " Stake")

    @property
    def last_ante(self) -> int:
        return self.max_ante or 0

    def write_rewards(self, games: st.Games) -> None:
        """Tells the games what is rewarded."""
        pay = self.rewards
        games.f[:, st.R_CHIPS : st.R_ILLEGAL + 1] = np.array([pay.chips, pay.blind, pay.win, pay.illegal])


def _rewards(given: Any) -> Rewards:
    if isinstance(given, Rewards):
        return given
    known = [f.name for f in fields(Rewards)]
    for name in dict(given):
        if name not in known:
            raise UnknownName("reward", str(name), known, where="env.kwargs.rewards")
    return Rewards(**{name: float(value) for name, value in dict(given).items()})


def _number(table: dict[int, str], name: Any, kind: str, suffix: str) -> int:
    wanted = str(name).strip().lower().removeprefix("b_").removeprefix("stake_").removesuffix(suffix.lower())
    for number, known in table.items():
        if known.lower().removesuffix(suffix.lower()) == wanted:
            return number
    raise UnknownName(kind, str(name), table.values(), where=f"env.kwargs.{kind}")
