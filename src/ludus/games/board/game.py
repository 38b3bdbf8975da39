"""`BoardGame`: a board game with Ludus's own rules, for matches without TextArena."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from ludus.config.language import GameConfig, GameSpec
from ludus.envs.seats import GameOutcome, Observed
from ludus.errors import UserError
from ludus.games.board.codecs import BoardCodec, codec_for
from ludus.types import BoolArray


class BoardGame:
    """A `TurnGame` for two. As in TextArena, a first illegal move is rejected; a second one in a row loses."""

    n_seats = 2

    def __init__(self, spec: GameSpec, codec: BoardCodec[Any]) -> None:
        self.spec, self.codec = spec, codec
        self.seed = self.seat = self.turns = 0
        self.over = True
        self.state: Any = None
        self._rejected = False
        self._outcome = GameOutcome((0.0, 0.0), "", (False, False), cut_off=True)

    def reset(self, seed: int) -> None:
        self.seed, self.turns = seed, 0
        self.over = self._rejected = False
        self._rng = np.random.default_rng(seed)
        self.state = self.codec.rules.start(self._rng)
        self._next_turn()

    def observe(self) -> Observed:
        position = self.codec.describe(self)
        legal = " ".join(self.codec.text(action) for action in self.codec.rules.legal(self.state))
        refused = "\nThat move is not available." if self._rejected else ""
        shown = (
            f"Player {self.seat} at {self.spec.id}\nposition: {position}\navailable moves: {legal}{refused}"
        )
        return Observed(shown, position, "", self.seat, position)

    def mask(self) -> BoolArray:
        return self.codec.mask(self.state)

    def play(self, action: str) -> bool:
        if self.over:
            raise RuntimeError("the game is over")
        self.turns += 1
        chosen = self.codec.index(action)
        accepted = chosen is not None and chosen in self.codec.rules.legal(self.state)
        if chosen is not None and accepted:
            self.state = self.codec.rules.after(self.state, chosen, self._rng)
        elif self._rejected:
            lost = tuple(seat == self.seat for seat in range(2))
            rewards = tuple(-1.0 if loses else 1.0 for loses in lost)
            self._end(GameOutcome(rewards, f"Player {self.seat} made invalid moves", lost, cut_off=False))
        self._rejected = not accepted
        self._next_turn()
        return accepted

    def outcome(self) -> GameOutcome:
        return self._outcome

    def _next_turn(self) -> None:
        if self.over:
            return
        rewards = self.codec.rules.result(self.state)
        self.seat = self.codec.rules.seat(self.state)
        if rewards is not None:
            won = max(range(2), key=rewards.__getitem__)
            reason = "a draw" if rewards[0] == rewards[1] else f"Player {won} has won"
            self._end(GameOutcome(rewards, reason, (False, False), cut_off=False))
        elif self.turns >= self.spec.max_turns:
            reason = f"not over after {self.turns} turns"
            self._end(GameOutcome((0.0, 0.0), reason, (False, False), cut_off=True))

    def _end(self, outcome: GameOutcome) -> None:
        self.over, self._outcome = True, outcome


def make_board_game(config: GameConfig) -> BoardGame | None:
    """Return the game by its TextArena id; None for other games, or if TextArena is installed."""
    codec = codec_for(config.id, config.kwargs)
    if codec is None or importlib.util.find_spec("textarena") is not None:
        return None
    if config.players not in (None, 2):
        raise UserError(
            f"{config.id} cannot be played by {config.players} players", where="players", fix="players: 2"
        )
    return BoardGame(config.spec(), codec)
