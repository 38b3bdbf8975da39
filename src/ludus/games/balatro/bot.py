"""Rule-based bot, the baseline for learned agents. It reads the same observation and uses `actions: moves`.

It plays the best hand if that hand beats the blind or the remaining hands are expected to. Otherwise it first discards
towards the most likely better hand. It buys the joker that adds most, planets for its hands, and joker and planet
packs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.envs.make import EnvSpec
from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import moves as mv
from ludus.games.balatro.facts import PLANET_HAND
from ludus.games.balatro.names import BUFFOON, C_ERIS, C_FOOL, C_MERCURY, CELESTIAL
from ludus.types import Array, BoolArray, Observation

_WORTH_BUYING = 0.02  # least gain of a joker, in log10 of the score
_MONEY = 3  # index in the observation: money / 50, at most 1


def bot_env() -> EnvSpec:
    """Return the env that the bot plays by default: Balatro with `actions: moves`."""
    return EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_hand": 10})


def make_bot(observation_space: spaces.Space[Any] | None, action_space: spaces.Space[Any]) -> RulesBot:
    """Return the bot for an env with these spaces. UserError when its actions are not moves."""
    if not isinstance(action_space, spaces.Discrete) or int(action_space.n) != mv.N_MOVES:
        raise UserError(
            "the bot 'rules' plays Balatro with actions: moves, and this env has other actions",
            where="env.kwargs.actions",
            fix="leave --env out; in a config: env: {id: ludus/Balatro-v0, kwargs: {actions: moves}}",
        )
    return RulesBot()


class RulesBot:
    """Plays Balatro with `actions: moves`; see `ludus.evaluation.evaluate.Actor`."""

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        """Return the move for one observation, or the moves for a batch of observations."""
        assert isinstance(obs, np.ndarray) and mask is not None
        rows, masks = np.atleast_2d(obs), np.atleast_2d(mask)
        moves = np.array([self._choose(row, legal) for row, legal in zip(rows, masks, strict=True)])
        return moves if obs.ndim == 2 else moves[0]

    def _choose(self, obs: Array, legal: BoolArray) -> int:
        features = obs[-mv.N_WORKED_OUT :]
        for move in (act.TAKE_BLIND, act.CASH_OUT):
            if legal[move]:
                return move
        planets = np.flatnonzero(legal[mv.USE + C_MERCURY - C_FOOL : mv.USE + C_ERIS - C_FOOL + 1])
        if len(planets):
            return int(mv.USE + C_MERCURY - C_FOOL + planets[0])
        if legal[mv.ARRANGE]:
            return mv.ARRANGE
        if legal[mv.PLAY_BEST]:
            return self._choose_in_round(features, legal)
        if legal[act.NEXT_ROUND] or legal[act.SKIP_PACK]:
            return self._choose_in_shop_or_pack(obs, features, legal)
        return int(np.flatnonzero(legal)[0])

    def _choose_in_round(self, features: Array, legal: BoolArray) -> int:
        share, in_hands_left = features[mv.X_BEST_SHARE], features[mv.X_BEST_SHARE + 1]
        flush, pairs = features[mv.X_DRAWS + 1], features[mv.X_DRAWS + 4]
        if share >= 1.0 or in_hands_left >= 0.1 or not legal[mv.DISCARD : mv.CHOOSE].any():
            return mv.PLAY_BEST_FULL if legal[mv.PLAY_BEST_FULL] else mv.PLAY_BEST
        wanted = [0, 2, 3, 4] if flush > 0.35 else ([2, 4, 0] if pairs >= 0.5 else [0, 3, 2, 4])
        for kind in (*wanted, 9, 8, 7):
            if legal[mv.DISCARD + kind]:
                return mv.DISCARD + kind
        return mv.PLAY_BEST

    def _choose_in_shop_or_pack(self, obs: Array, features: Array, legal: BoolArray) -> int:
        if legal[mv.TAKE_BEST] and features[mv.X_BEST_GAIN] > _WORTH_BUYING:
            return mv.TAKE_BEST
        usual = np.flatnonzero(features[mv.X_USUAL : mv.X_USUAL + len(PLANET_HAND)])
        for start in (mv.USE_NOW, mv.TAKE + C_FOOL - 1):
            for planet, hand in enumerate(PLANET_HAND):
                move = start + C_MERCURY - C_FOOL + planet
                if hand in usual and legal[move]:
                    return int(move)
        if legal[act.SKIP_PACK]:
            return act.SKIP_PACK
        if obs[_MONEY] * 50 >= 8:
            for kind in (BUFFOON, CELESTIAL):
                for size in range(3):
                    if legal[mv.OPEN + 3 * kind + size]:
                        return mv.OPEN + 3 * kind + size
        return act.NEXT_ROUND
