"""`TextGame`: one game played by seats that read text and write text.

A game is determined by its spec, seed and actions: it can be replayed to exactly the same texts. Branching and resume
use this. A game that raises an error is cut off, and `fault` contains the error; the run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from ludus.config.language import GameConfig, GameSpec
from ludus.envs.seats import GameFault, GameOutcome, Observed, find_codec
from ludus.language.text_games.arena import ArenaTable
from ludus.language.text_games.catalog import GYMNASIUM, check_game, check_players, fewest_players
from ludus.language.text_games.extraction import Extractor, make_extractor
from ludus.language.text_games.gymnasium_table import GymnasiumTable
from ludus.language.text_games.templates import Template, make_template
from ludus.types import BoolArray

TEMPLATE, EXTRACTOR = make_template("chat"), make_extractor("brackets")
"""Default template and extractor."""


class StartedGame(Protocol):
    """A started game of one library. The constructor and `play` raise GameFault for errors of the game."""

    over: bool
    last_reward: float
    """Reward of the last move; 0 in games with rewards only at the end."""

    def observe(self) -> Observed:
        """Return the observation of the seat to move."""
        ...

    def play(self, action: str) -> bool:
        """Play an action of the seat to move; return False if the game refused it."""
        ...

    def rewards(self) -> tuple[float, ...]:
        """Return the reward of each seat so far; most games give it when they are over."""
        ...

    def reason(self) -> str:
        """Return why it is over, in the game's words."""
        ...

    def invalid(self) -> tuple[bool, ...]:
        """Return which seats lost by invalid moves."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """The game's own state, for codecs."""
        ...


class TextGame:
    """A `TurnGame` by its spec. `template` makes its prompts, `extractor` reads the moves in completions.

    Raises UnknownName for an unknown id, UserError if a dependency is missing, and GameFault if the number of players
    is asked for and the game cannot be started. `reset` raises UserError for an invalid number of players.
    """

    def __init__(
        self, spec: GameSpec, template: Template = TEMPLATE, extractor: Extractor = EXTRACTOR
    ) -> None:
        check_game(spec.id)
        self.spec = spec
        self.template = template
        self.extractor = extractor
        self.codec = find_codec(spec.id, spec.kwargs)
        self.n_seats = fewest_players(spec) if spec.players is None else spec.players
        self.seed = 0
        self.actions: list[str] = []
        self.over = True
        self.seat = 0
        self.fault: GameFault | None = None
        self._table: StartedGame | None = None
        self._observed = Observed("", "", "", 0)
        self._cut_off = ""

    @property
    def turns(self) -> int:
        """Actions played so far, including refused ones."""
        return len(self.actions)

    @property
    def state(self) -> dict[str, Any]:
        """The game's own state, for codecs; do not change it."""
        return self._started().state

    @property
    def last_reward(self) -> float:
        """Reward of the last move; the outcome has the others."""
        return self._started().last_reward

    def reset(self, seed: int) -> None:
        """Start from `seed` (not negative). If the game raises an error here, it is over and cut off."""
        self.seed, self.actions = seed, []
        self.fault, self._cut_off = None, ""
        self._observed = Observed("", "", "", 0)
        try:
            self._table = self._open()
        except GameFault as fault:
            with contextlib.suppress(GameFault):  # the game cannot be started with any number of players
                check_players(self.spec)
            self._stop(fault)
        else:
            self._next_turn()

    def observe(self) -> Observed:
        """Return the observation of the seat to move; repeated calls return the same."""
        return self._observed

    def mask(self) -> BoolArray | None:
        return None if self.codec is None else self.codec.encode(self)[1]

    def play(self, action: str) -> bool:
        """Play an action of the seat to move. Return False if it was refused: the game may ask again, or be over."""
        table = self._started()
        if self.over:
            raise RuntimeError("the game is over")
        self.actions.append(action)
        try:
            accepted = table.play(action)
        except GameFault as fault:
            self._stop(fault)
            return True
        self._next_turn()
        return accepted

    def outcome(self) -> GameOutcome:
        """Return the outcome, after the game is over."""
        if self.fault is not None:
            return GameOutcome((0.0,) * self.n_seats, self._cut_off, (False,) * self.n_seats, cut_off=True)
        table = self._started()
        if self._cut_off:
            return GameOutcome(table.rewards(), self._cut_off, (False,) * self.n_seats, cut_off=True)
        return GameOutcome(table.rewards(), table.reason(), table.invalid(), cut_off=False)

    def branch(self) -> TextGame:
        """Return a copy of the game in the same state.

        GameFault if the replayed game shows another observation.
        """
        other = TextGame.replay(self.spec, self.seed, self.actions, self.template, self.extractor)
        if other._observed != self._observed or other.over != self.over:
            raise GameFault(f"{self.spec.id} is not deterministic: the same seed gives another game")
        return other

    @classmethod
    def replay(
        cls,
        spec: GameSpec,
        seed: int,
        actions: Iterable[str],
        template: Template = TEMPLATE,
        extractor: Extractor = EXTRACTOR,
    ) -> TextGame:
        """Return the game replayed from `seed` with `actions`.

        Raises GameFault if the game cannot be started, or ends before the last action.
        """
        game = cls(spec, template, extractor)
        game.reset(seed)
        for action in actions:
            if game.over:
                why = "it ends earlier" if game.fault is None else game.fault.what
                raise GameFault(f"{spec.id} does not repeat itself from one and the same seed: {why}")
            game.play(action)
        return game

    def _open(self) -> StartedGame:
        if self.spec.id.startswith(GYMNASIUM):
            check_players(self.spec)
            return GymnasiumTable(self.spec, self.seed)
        return ArenaTable(self.spec, self.n_seats, self.seed)

    def _started(self) -> StartedGame:
        if self._table is None:
            raise RuntimeError("reset the game before it is played")
        return self._table

    def _next_turn(self) -> None:
        table = self._started()
        self.over = table.over
        if self.over:
            return
        if self.turns >= self.spec.max_turns:
            self.over, self._cut_off = True, f"not over after {self.turns} turns"
            return
        observed = table.observe()
        self.seat = observed.seat
        self._observed = (
            observed if self.codec is None else replace(observed, position=self.codec.describe(self))
        )

    def _stop(self, fault: GameFault) -> None:
        self.fault, self.over, self._cut_off = fault, True, fault.what


def make_text_game(config: GameConfig) -> TextGame:
    """Create the game of a config. ConfigError or UnknownName if it cannot be played."""
    check_game(config.id, where="")
    return TextGame(config.spec(), make_template(config.template), make_extractor(config.extract))
