"""Rules of four small games, fast enough for search and training; tests compare them with TextArena's.

A position is a plain tuple and never changes: `after` gives the next one. Both seats are 0 and 1; an action is a
number below `n_actions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

P = TypeVar("P", bound=tuple[Any, ...])
Result = tuple[float, float]

WON: tuple[Result, Result] = ((1.0, -1.0), (-1.0, 1.0))
"""The results of a win of seat 0, and of seat 1."""
DRAW: Result = (0.0, 0.0)


class GameRules(ABC, Generic[P]):
    """The rules of a game for two. Positions after the end have no legal actions."""

    n_actions: int
    hidden = False
    """True if a seat does not see the whole position."""
    plies: int | None = None
    """Search depth; None searches to the end and caches every position."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> P:
        """Return the first position."""

    @abstractmethod
    def seat(self, position: P) -> int:
        """Return the seat to move."""

    @abstractmethod
    def legal(self, position: P) -> Sequence[int]:
        """Return the legal actions of the seat to move, in ascending order."""

    @abstractmethod
    def after(self, position: P, action: int, rng: np.random.Generator) -> P:
        """Return the position after a legal action; `rng` decides chance events."""

    @abstractmethod
    def result(self, position: P) -> Result | None:
        """Return the rewards of both seats, None before the end."""

    def key(self, position: P) -> object:
        """Return the same key for positions of the same value for the seat to move."""
        return position


class Board(NamedTuple):
    """Stones as bits: of the seat to move, and of the other, who moved last."""

    mover: int
    waiter: int
    seat: int


_NINE = 0b111_111_111
_LINES = (7, 7 << 3, 7 << 6, 0b1_001_001, 0b10_010_010, 0b100_100_100, 0b100_010_001, 0b1_010_100)
_HAS_THREE = [any(stones & line == line for line in _LINES) for stones in range(_NINE + 1)]
_FREE = [tuple(cell for cell in range(9) if not taken >> cell & 1) for taken in range(_NINE + 1)]


class TicTacToe(GameRules[Board]):
    """Three in a row on nine cells; cell 0 is bit 0."""

    n_actions = 9

    def start(self, rng: np.random.Generator) -> Board:
        return Board(0, 0, 0)

    def seat(self, position: Board) -> int:
        return position.seat

    def legal(self, position: Board) -> Sequence[int]:
        mover, waiter, _ = position
        return () if _HAS_THREE[waiter] else _FREE[mover | waiter]

    def after(self, position: Board, action: int, rng: np.random.Generator) -> Board:
        mover, waiter, seat = position
        return Board(waiter, mover | 1 << action, 1 - seat)

    def result(self, position: Board) -> Result | None:
        mover, waiter, seat = position
        if _HAS_THREE[waiter]:
            return WON[1 - seat]
        return DRAW if mover | waiter == _NINE else None


class ConnectFour(GameRules[Board]):
    """Four in a row on a board that is filled from below.

    Every column has `rows + 1` bits, lowest cell first. The bit above its top stays empty, so that four in a row cannot
    continue in the next column.
    """

    def __init__(self, rows: int = 6, columns: int = 7) -> None:
        self.rows, self.columns, self.n_actions = rows, columns, columns
        self.height = rows + 1
        self._lowest = tuple(1 << column * self.height for column in range(columns))
        self._highest = tuple(lowest << rows - 1 for lowest in self._lowest)
        self._column = tuple((1 << rows) - 1 << column * self.height for column in range(columns))
        self._full = sum(self._column)
        self._directions = (1, self.height - 1, self.height, self.height + 1)
        self.plies = 4 if columns <= 7 else 2

    def start(self, rng: np.random.Generator) -> Board:
        return Board(0, 0, 0)

    def seat(self, position: Board) -> int:
        return position.seat

    def legal(self, position: Board) -> Sequence[int]:
        mover, waiter, _ = position
        if self._has_four(waiter):
            return ()
        taken = mover | waiter
        return [column for column, highest in enumerate(self._highest) if not taken & highest]

    def after(self, position: Board, action: int, rng: np.random.Generator) -> Board:
        mover, waiter, seat = position
        # adding to the lowest cell carries up to the first free cell
        free = (mover | waiter) + self._lowest[action] & self._column[action]
        return Board(waiter, mover | free, 1 - seat)

    def result(self, position: Board) -> Result | None:
        mover, waiter, seat = position
        if self._has_four(waiter):
            return WON[1 - seat]
        return DRAW if mover | waiter == self._full else None

    def _has_four(self, stones: int) -> bool:
        for direction in self._directions:
            pairs = stones & stones >> direction
            if pairs & pairs >> 2 * direction:
                return True
        return False


class Piles(NamedTuple):
    left: tuple[int, ...]
    seat: int


class Nim(GameRules[Piles]):
    """Take from one pile; the player who takes the last one wins. Actions: 1, 2, … from pile 0, then from pile 1, …"""

    def __init__(self, piles: Sequence[int] = (3, 4, 5)) -> None:
        self.piles = tuple(piles)
        self.moves = tuple((pile, take) for pile, size in enumerate(piles) for take in range(1, size + 1))
        self.n_actions = len(self.moves)

    def start(self, rng: np.random.Generator) -> Piles:
        return Piles(self.piles, 0)

    def seat(self, position: Piles) -> int:
        return position.seat

    def legal(self, position: Piles) -> Sequence[int]:
        left = position.left
        return [action for action, (pile, take) in enumerate(self.moves) if take <= left[pile]]

    def after(self, position: Piles, action: int, rng: np.random.Generator) -> Piles:
        left, seat = position
        pile, take = self.moves[action]
        return Piles((*left[:pile], left[pile] - take, *left[pile + 1 :]), 1 - seat)

    def result(self, position: Piles) -> Result | None:
        return None if any(position.left) else WON[1 - position.seat]

    def key(self, position: Piles) -> object:
        return tuple(sorted(position.left))


CHECK, BET, CALL, FOLD = range(4)
_NOTHING, _CHECKED, _BETTED, _CHECKED_AND_BETTED = range(4)


class Hand(NamedTuple):
    """A round of Kuhn Poker: the cards (0 is the lowest), its actions so far, and the chips won before it."""

    cards: tuple[int, int]
    said: int
    """No action yet, check, bet, or check and bet: 0 to 3."""
    seat: int
    starter: int
    chips: tuple[int, int]
    number: int


class KuhnPoker(GameRules[Hand]):
    """Kuhn Poker over `rounds`; seat 1 begins the first round, then they alternate.

    TextArena's game ignores bets: the winner of a round wins one chip, and the sign of the chips is the result.
    With `stakes`, a bet and a call are a chip each, and the chips won are the result.
    """

    n_actions = 4
    hidden = True

    def __init__(self, rounds: int = 3, *, stakes: bool = False) -> None:
        self.rounds, self.stakes = rounds, stakes

    def start(self, rng: np.random.Generator) -> Hand:
        return self._deal(1, (0, 0), 1, rng)

    def seat(self, position: Hand) -> int:
        return position.seat

    def legal(self, position: Hand) -> Sequence[int]:
        if position.number > self.rounds:
            return ()
        return (CHECK, BET) if position.said <= _CHECKED else (CALL, FOLD)

    def after(self, position: Hand, action: int, rng: np.random.Generator) -> Hand:
        cards, said, seat, *_ = position
        if action == BET:
            return position._replace(said=_BETTED if said == _NOTHING else _CHECKED_AND_BETTED, seat=1 - seat)
        if action == CHECK and said == _NOTHING:
            return position._replace(said=_CHECKED, seat=1 - seat)
        higher = 0 if cards[0] > cards[1] else 1
        won = 2 if self.stakes and action == CALL else 1
        return self._next_round(position, winner=1 - seat if action == FOLD else higher, won=won, rng=rng)

    def result(self, position: Hand) -> Result | None:
        if position.number <= self.rounds:
            return None
        first, second = position.chips
        if self.stakes:
            return float(first), float(second)
        return DRAW if first == second else WON[int(second > first)]

    def _next_round(self, hand: Hand, *, winner: int, won: int, rng: np.random.Generator) -> Hand:
        gain = won if winner == 0 else -won
        chips = (hand.chips[0] + gain, hand.chips[1] - gain)
        return self._deal(1 - hand.starter, chips, hand.number + 1, rng)

    def _deal(self, starter: int, chips: tuple[int, int], number: int, rng: np.random.Generator) -> Hand:
        first, of_the_rest = divmod(int(rng.integers(6)), 2)
        second = of_the_rest + (of_the_rest >= first)
        return Hand((first, second), _NOTHING, starter, starter, chips, number)
