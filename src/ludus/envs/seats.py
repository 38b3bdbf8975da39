"""Games with seats: the contract between a game and those who play it.

`TurnGame` has one seat to move at a time; `SimultaneousGame` asks all seats at once. A move is text, as it would be
typed at the game. A `GameCodec` writes positions as arrays and numbers the moves, which lets a network play.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gymnasium import spaces

from ludus import plugins
from ludus.config.language import GameConfig, GameSpec
from ludus.errors import LudusError, UnknownName, UserError
from ludus.types import Array, BoolArray

SEAT_ENV = "Text/"
"""Before a game's id: the env that is one seat of it, where a network learns the game. Its kwargs may name another
`game` and `game_kwargs`."""


class GameFault(LudusError):
    """The game itself raised; `game_traceback` is its own traceback as text."""

    def __init__(self, what: str, game_traceback: str = "") -> None:
        super().__init__(f"{what}\n\n{game_traceback.rstrip()}" if game_traceback else what)
        self.what = what
        self.game_traceback = game_traceback

    @classmethod
    def of(cls, error: Exception, doing: str) -> GameFault:
        """Make the fault of a game that raised `error` while `doing`."""
        return cls(f"{doing}: {type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


@dataclass(frozen=True)
class Observed:
    """The observation of the seat to move, in words.

    `text` is all it has been shown so far; `board` the newest board alone and `rules` the first prompt alone, both
    empty where the game has none. `position` is the state in a few characters, empty for a game without a codec.
    """

    text: str
    board: str
    rules: str
    seat: int
    position: str = ""


@dataclass(frozen=True)
class GameOutcome:
    """The end of a game: the reward of each seat, the reason in the game's words, and whether it ended by itself."""

    rewards: tuple[float, ...]
    reason: str
    invalid: tuple[bool, ...]
    """Seats that lost by invalid moves."""
    cut_off: bool
    """It had not ended after `max_turns`, or raised: all rewards are 0."""


class SeatGame(Protocol):
    """One game for `n_seats` players, from `reset` until it is `over`."""

    n_seats: int

    @property
    def over(self) -> bool: ...

    def reset(self, seed: int) -> None:
        """Start from `seed`."""
        ...

    def outcome(self) -> GameOutcome:
        """Return how the game ended, once it is over."""
        ...


class TurnGame(SeatGame, Protocol):
    """A game in which `seat` is to move."""

    spec: GameSpec
    seed: int
    seat: int

    @property
    def codec(self) -> GameCodec | None:
        """None for a game of free text."""
        ...

    @property
    def turns(self) -> int:
        """Moves played so far, refused ones too."""
        ...

    @property
    def state(self) -> Any:
        """The game's own state, for its codec to read; not to be changed."""
        ...

    def observe(self) -> Observed:
        """Return what the seat to move sees; the same however often it is asked."""
        ...

    def mask(self) -> BoolArray | None:
        """Return which actions of the codec are legal; None for a game of free text."""
        ...

    def play(self, action: str) -> bool:
        """Play for the seat to move. False: refused as invalid; the game may ask again, or be over."""
        ...


class SimultaneousGame(SeatGame, Protocol):
    """A game in which all seats act at the same time, on observations and with actions as of an env."""

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Of every seat."""
        ...

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Of every seat."""
        ...

    def observations(self) -> Sequence[Any]:
        """Return what each seat observes."""
        ...

    def play(self, actions: Sequence[Any]) -> None:
        """Play the action of each seat."""
        ...


class GameCodec(ABC):
    """Between a `TurnGame` and a network: positions as arrays, actions as numbers."""

    observation_space: spaces.Box
    action_space: spaces.Discrete

    @abstractmethod
    def encode(self, game: TurnGame) -> tuple[Array, BoolArray]:
        """Return what the seat to move observes, and which actions are legal."""

    @abstractmethod
    def describe(self, game: TurnGame) -> str:
        """Return what the seat to move sees in a few characters, for models that read little."""

    @abstractmethod
    def text(self, action: int) -> str:
        """Return the action as it is written at the game."""

    @abstractmethod
    def index(self, text: str) -> int | None:
        """Return the action that the game would read in `text`; None where it would find none."""


class GameBot(Protocol):
    """A scripted player of one game."""

    def act(self, game: TurnGame) -> str:
        """Return a move for the seat to move."""
        ...


def make_game(config: GameConfig) -> TurnGame:
    """Make the game that `config` names, by the first plugin that has it.

    Raises the first plugin's UserError where none has it: the game is unknown, or its package is not installed.
    """
    refusal: UserError | None = None
    for make in plugins.listed("seat_games"):
        try:
            game: TurnGame | None = make(config)
        except UserError as error:
            refusal = refusal or error
        else:
            if game is not None:
                return game
    raise refusal or UnknownName("game", config.id, ())


def find_codec(game_id: str, kwargs: Mapping[str, Any] | None = None) -> GameCodec | None:
    """Return the codec of a game by its id and its keyword arguments; None where no plugin has one."""
    for find in plugins.listed("codecs"):
        codec: GameCodec | None = find(game_id, kwargs)
        if codec is not None:
            return codec
    return None
