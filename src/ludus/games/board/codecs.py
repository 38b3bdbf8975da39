"""Codecs of the board games: positions as arrays with a mask of the legal actions, actions as texts.

They parse the positions of `BoardGame`, and of TextArena's games of the same names, in every variant. An observation
contains only what the seat may know: in Kuhn Poker its own card, not the other.
"""

from __future__ import annotations

import functools
import json
import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

import numpy as np
from gymnasium import spaces

from ludus.envs.seats import GameCodec, TurnGame
from ludus.games.board.rules import Board, ConnectFour, GameRules, Hand, KuhnPoker, Nim, P, Piles, TicTacToe
from ludus.types import Array, BoolArray

_KINDS = ("-train", "-raw")  # suffixes of ids in TextArena: other prompts, the same rules


class BoardCodec(GameCodec, Generic[P]):
    """The rules of a game, with its positions as arrays and texts and its actions as texts."""

    def __init__(self, rules: GameRules[P], features: int) -> None:
        self.rules = rules
        self.observation_space = spaces.Box(0.0, 1.0, (features,), np.float32)
        self.action_space = spaces.Discrete(rules.n_actions)

    def encode(self, game: TurnGame) -> tuple[Array, BoolArray]:
        position = self.position(game)
        return self.observe(position, game.seat), self.mask(position)

    def describe(self, game: TurnGame) -> str:
        return self.write(self.position(game), game.seat)

    def mask(self, position: P) -> BoolArray:
        """Return the legal actions of the seat to move."""
        legal = np.zeros(self.rules.n_actions, dtype=bool)
        legal[list(self.rules.legal(position))] = True
        return legal

    def index(self, text: str) -> int | None:
        # TextArena adds brackets to an answer without brackets
        return self._read(text if "[" in text or "]" in text else f"[{text}]")

    def position(self, game: TurnGame) -> P:
        """Return the position of `game`, which is not over."""
        state = game.state
        return self._parse(state, game.seat) if isinstance(state, Mapping) else state

    @abstractmethod
    def observe(self, position: P, seat: int) -> Array:
        """Return the observation of `seat`."""

    @abstractmethod
    def write(self, position: P, seat: int) -> str:
        """Return the observation of `seat` as a short text."""

    @abstractmethod
    def _parse(self, state: Mapping[str, Any], seat: int) -> P:
        """Return the position in the state of TextArena's game, in which `seat` is to move."""

    @abstractmethod
    def _read(self, text: str) -> int | None: ...


class TicTacToeCodec(BoardCodec[Board]):
    """Own stones, then the opponent's, cell by cell."""

    _stones = np.array([[stones >> cell & 1 for cell in range(9)] for stones in range(512)], dtype=np.float32)
    _number = re.compile(r"\[\s*(\d+)\s*\]")

    def __init__(self) -> None:
        super().__init__(TicTacToe(), 18)

    def _parse(self, state: Mapping[str, Any], seat: int) -> Board:
        cells = [cell for row in state["board"] for cell in row]
        noughts, crosses = (sum(1 << at for at, cell in enumerate(cells) if cell == mark) for mark in "OX")
        return Board(noughts, crosses, 0) if seat == 0 else Board(crosses, noughts, 1)

    def observe(self, position: Board, seat: int) -> Array:
        mover, waiter, to_move = position
        own, other = (mover, waiter) if seat == to_move else (waiter, mover)
        return np.concatenate((self._stones[own], self._stones[other]))

    def write(self, position: Board, seat: int) -> str:
        return _stones(self.observe(position, seat))

    def text(self, action: int) -> str:
        return f"[{action}]"

    def _read(self, text: str) -> int | None:
        number = self._number.search(text)
        return _below(9, number and number.group(1))


class ConnectFourCodec(BoardCodec[Board]):
    """Own stones, then the opponent's: column by column, from the bottom."""

    _number = re.compile(r"\[(?:col\s*)?(\d+)\]", re.IGNORECASE)
    rules: ConnectFour

    def __init__(self, rows: int = 6, columns: int = 7) -> None:
        rules = ConnectFour(rows, columns)
        super().__init__(rules, 2 * rows * columns)
        self._bytes = (rules.height * columns + 7) // 8
        self._cells = np.array(
            [column * rules.height + row for column in range(columns) for row in range(rows)], dtype=np.intp
        )

    def _parse(self, state: Mapping[str, Any], seat: int) -> Board:
        rows = state["board"][::-1]  # TextArena's first row is the top
        stones = {"X": 0, "O": 0}
        for row, cells in enumerate(rows):
            for column, cell in enumerate(cells):
                if cell in stones:
                    stones[cell] |= 1 << column * self.rules.height + row
        crosses, noughts = stones["X"], stones["O"]
        return Board(crosses, noughts, 0) if seat == 0 else Board(noughts, crosses, 1)

    def observe(self, position: Board, seat: int) -> Array:
        mover, waiter, to_move = position
        own, other = (mover, waiter) if seat == to_move else (waiter, mover)
        return np.concatenate((self._unpack(own), self._unpack(other)))

    def write(self, position: Board, seat: int) -> str:
        return _stones(self.observe(position, seat))

    def text(self, action: int) -> str:
        return f"[col {action}]"

    def _unpack(self, stones: int) -> Array:
        packed = np.frombuffer(stones.to_bytes(self._bytes, "little"), dtype=np.uint8)
        return np.unpackbits(packed, bitorder="little")[self._cells].astype(np.float32)

    def _read(self, text: str) -> int | None:
        # TextArena's own pattern begins with `.*`: it finds the last match of a line, in quadratic time
        found = list(self._number.finditer(text))
        if not found:
            return None
        end = text.find("\n", found[0].start())
        last = found[-1] if end < 0 else next(move for move in reversed(found) if move.start() < end)
        return _below(self.rules.columns, last.group(1))


class NimCodec(BoardCodec[Piles]):
    """One-hot size of every pile."""

    _numbers = re.compile(r"\[\s*(\d+)\s+(\d+)\s*\]")
    rules: Nim

    def __init__(self, piles: tuple[int, ...] = (3, 4, 5)) -> None:
        rules = Nim(piles)
        super().__init__(rules, sum(piles) + len(piles))
        self._first = np.cumsum([0, *(size + 1 for size in piles)])[:-1]
        self._actions = {move: action for action, move in enumerate(rules.moves)}

    def _parse(self, state: Mapping[str, Any], seat: int) -> Piles:
        return Piles(tuple(state["piles"]), seat)

    def observe(self, position: Piles, seat: int) -> Array:
        seen = np.zeros(self.observation_space.shape, dtype=np.float32)
        seen[self._first + position.left] = 1.0
        return seen

    def write(self, position: Piles, seat: int) -> str:
        return " ".join(map(str, position.left))

    def text(self, action: int) -> str:
        pile, take = self.rules.moves[action]
        return f"[{pile} {take}]"

    def _read(self, text: str) -> int | None:
        numbers = self._numbers.search(text)
        return self._actions.get((_number(numbers[1]), _number(numbers[2]))) if numbers else None


class KuhnPokerCodec(BoardCodec[Hand]):
    """The own card, the actions of this round, the number of the round, and the chips."""

    _moves = ("check", "bet", "call", "fold")
    _move = re.compile(r"\[(check|bet|call|fold)\]", re.IGNORECASE)
    rules: KuhnPoker

    def __init__(self, rounds: int = 3, *, stakes: bool = False) -> None:
        super().__init__(KuhnPoker(rounds, stakes=stakes), 9)
        self._most = rounds * (2 if stakes else 1)

    def _parse(self, state: Mapping[str, Any], seat: int) -> Hand:
        starter, may_bet = state["starting_player"], "bet" in state["current_legal_action_tree"]
        said = (0 if may_bet else 3) if seat == starter else (1 if may_bet else 2)
        # subtract the antes of this round, and a bet on the table, which are not lost yet
        put_in = {0: 1, 1: 1}
        if self.rules.stakes and not may_bet:
            put_in[1 - seat] += 1
        chips = state["player_chips"]
        cards = state["player_cards"]
        return Hand(
            (cards[0], cards[1]),
            said,
            seat,
            starter,
            (chips[0] + put_in[0], chips[1] + put_in[1]),
            state["current_round"],
        )

    def observe(self, position: Hand, seat: int) -> Array:
        seen = np.zeros(9, dtype=np.float32)
        seen[position.cards[seat]] = 1.0
        seen[3 + position.said] = 1.0
        seen[7] = min(position.number, self.rules.rounds) / self.rules.rounds
        seen[8] = 0.5 + 0.5 * position.chips[seat] / self._most
        return seen

    def write(self, position: Hand, seat: int) -> str:
        said = ("", "check", "bet", "check, bet")[position.said]
        return f"{'JQK'[position.cards[seat]]} {said}; {position.number} {position.chips[seat]:+d}"

    def text(self, action: int) -> str:
        return f"[{self._moves[action]}]"

    def _read(self, text: str) -> int | None:
        move = self._move.search(text)
        return self._moves.index(move.group(1).lower()) if move else None


_PILES = {"Nim-v0": (3, 4, 5), "Nim-v0-medium": (4, 2, 3, 7), "Nim-v0-large": (5, 7, 9, 11, 2)}
_SIZES = {"ConnectFour-v0": (6, 7), "ConnectFour-v0-blind": (6, 7), "ConnectFour-v0-large": (12, 15)}
_ROUNDS = {
    "KuhnPoker-v0": 3,
    "KuhnPoker-v0-short": 5,
    "KuhnPoker-v0-medium": 9,
    "KuhnPoker-v0-long": 15,
    "KuhnPoker-v0-extreme": 25,
    "KuhnPoker-v0-stakes": 1,
}
GAMES = ("TicTacToe-v0", *_SIZES, *_PILES, *_ROUNDS)
"""The ids with a codec; each also exists with the suffixes `-train` and `-raw`."""


def codec_for(game_id: str, kwargs: Mapping[str, Any] | None = None) -> BoardCodec[Any] | None:
    """Return the codec of a game by its id and its keyword arguments; None for other games."""
    for kind in _KINDS:
        game_id = game_id.removesuffix(kind)
    return _codec(game_id, json.dumps(dict(kwargs or {}), sort_keys=True, default=str))


@functools.cache
def _codec(game_id: str, settings: str) -> BoardCodec[Any] | None:
    given = json.loads(settings)
    if game_id == "TicTacToe-v0":
        return TicTacToeCodec()
    if game_id in _SIZES:
        rows, columns = _SIZES[game_id]
        return ConnectFourCodec(given.get("num_rows", rows), given.get("num_cols", columns))
    if game_id in _PILES:
        return NimCodec(tuple(given.get("piles") or _PILES[game_id]))
    if game_id in _ROUNDS:
        return KuhnPokerCodec(given.get("max_rounds", _ROUNDS[game_id]), stakes=game_id.endswith("-stakes"))
    return None


def _stones(seen: Array) -> str:
    """Return the cells in order: `+` is an own stone, `-` the opponent's, `.` an empty cell."""
    own, other = np.split(seen, 2)
    return "".join("+" if mine else "-" if theirs else "." for mine, theirs in zip(own, other, strict=True))


def _below(limit: int, number: str | None) -> int | None:
    found = _number(number) if number else -1
    return found if 0 <= found < limit else None


def _number(digits: str) -> int:
    """Parse a number; -1 for thousands of digits, which Python does not parse."""
    try:
        return int(digits)
    except ValueError:
        return -1
