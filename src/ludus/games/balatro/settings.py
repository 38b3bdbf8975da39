"""Settings of a game: deck, stake, last ante, rewards, and the kind of observation and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from ludus.errors import NONE, ConfigError, UnknownName, require_types
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import DECK_NAMES, STAKE_NAMES
from ludus.games.balatro.state import MAX_HAND

DEFAULT_MAX_HAND = 12
DEFAULT_MAX_STEPS = 5_000


@dataclass(frozen=True)
class Rewards:
    """The rewards of a step: progress towards the blind (0 to 1 over a round), a beaten blind, a won run."""

    chips: float = 0.5
    blind: float = 1.0
    win: float = 10.0
    illegal: float = -0.05


@dataclass(frozen=True)
class BalatroSettings:
    """Settings of the env. Raises ConfigError or UnknownName for an invalid value.

    `max_ante` is the ante whose boss ends the run as won; None plays until the run is lost. `max_hand` is the number of
    positions of the hand that actions can select (see `actions.py`).
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
        require_types(
            "env.kwargs",
            max_ante=(self.max_ante, (Integral, NONE)),
            max_hand=(self.max_hand, (Integral,)),
            max_steps=(self.max_steps, (Integral,)),
            rewards=(self.rewards, (Mapping, Rewards)),
        )
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
        """Write the rewards into the rows of the games."""
        pay = self.rewards
        games.f[:, st.R_CHIPS : st.R_ILLEGAL + 1] = np.array([pay.chips, pay.blind, pay.win, pay.illegal])


def _rewards(given: Any) -> Rewards:
    if isinstance(given, Rewards):
        return given
    known = [f.name for f in fields(Rewards)]
    for name in dict(given):
        if name not in known:
            raise UnknownName("reward", str(name), known, where="env.kwargs.rewards")
    for name, value in dict(given).items():
        require_types("env.kwargs.rewards", **{name: (value, (Real,))})
    return Rewards(**{name: float(value) for name, value in dict(given).items()})


def _number(table: dict[int, str], name: Any, kind: str, suffix: str) -> int:
    wanted = str(name).strip().lower().removeprefix("b_").removeprefix("stake_").removesuffix(suffix.lower())
    for number, known in table.items():
        if known.lower().removesuffix(suffix.lower()) == wanted:
            return number
    raise UnknownName(kind, str(name), table.values(), where=f"env.kwargs.{kind}")
