"""`BoardGameEnv`: one seat of a board game as an env, against a bot, with Ludus's own fast rules.

A network trained here can also play in matches, also against language models.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from ludus.errors import UnknownName, UserError
from ludus.games.board.bots import bots_for, chooser
from ludus.games.board.codecs import GAMES, codec_for
from ludus.types import Array


class BoardGameEnv(gym.Env[Array, Any]):
    """One seat of `game` against the bot `opponent`; `info["action_mask"]` marks the legal actions.

    `seat` is the agent's seat, random in every episode if it is None. The reward of the game is given at its end. As in
    matches, a first illegal action is rejected (`info["invalid_move"]`); a second one in a row loses.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(
        self,
        game: str,
        opponent: str = "random",
        seat: int | None = None,
        game_kwargs: dict[str, Any] | None = None,
    ) -> None:
        codec = codec_for(game, game_kwargs)
        if codec is None:
            raise UnknownName("game", game, GAMES, where="env.kwargs.game", fix=f"one of {', '.join(GAMES)}")
        playing = bots_for(codec.rules)
        if opponent not in playing:
            raise UnknownName(
                "opponent", opponent, playing, where="env.kwargs.opponent", fix=f"one of {', '.join(playing)}"
            )
        if seat not in (None, 0, 1):
            raise UserError(f"invalid seat {seat}", where="env.kwargs.seat", fix="seat: 0, 1 or null")
        self.game = game
        self.codec, self.rules = codec, codec.rules
        self.observation_space, self.action_space = codec.observation_space, codec.action_space
        self._fixed_seat = seat
        self._choose = chooser(opponent, codec.rules)
        self.seat = seat or 0
        self.position: Any = None
        self._rejected = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start a game. If the opponent begins, it moves first."""
        super().reset(seed=seed)
        if self._fixed_seat is None:
            self.seat = int(self.np_random.integers(2))
        self._rejected = False
        self.position = self.rules.start(self.np_random)
        self._let_opponent_move()
        return self._observe(), {"action_mask": self.codec.mask(self.position)}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Play one move and the opponent's answer."""
        if int(action) not in self.rules.legal(self.position):
            return self._reject()
        self._rejected = False
        self.position = self.rules.after(self.position, int(action), self.np_random)
        self._let_opponent_move()
        result = self.rules.result(self.position)
        info: dict[str, Any] = {"action_mask": self.codec.mask(self.position)}
        if result is None:
            return self._observe(), 0.0, False, False, info
        info["is_success"] = result[self.seat] > 0
        return self._observe(), result[self.seat], True, False, info

    def _reject(self) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        info: dict[str, Any] = {"action_mask": self.codec.mask(self.position), "invalid_move": True}
        lost, self._rejected = self._rejected, True
        if lost:
            info["is_success"] = False
        return self._observe(), -1.0 if lost else 0.0, lost, False, info

    def _let_opponent_move(self) -> None:
        rules, rng = self.rules, self.np_random
        while rules.seat(self.position) != self.seat and rules.result(self.position) is None:
            self.position = rules.after(self.position, self._choose(rules, self.position, rng), rng)

    def _observe(self) -> Array:
        return self.codec.observe(self.position, self.seat)
