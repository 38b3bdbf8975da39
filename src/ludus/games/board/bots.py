"""Scripted players of the board games.

random       a random legal action
greedy       wins or blocks if it can do so in one move, otherwise plays at random; in Kuhn Poker it
             considers only its own card
minimax      plays perfectly, at random among equally good moves; in Connect Four it searches four moves deep
equilibrium  for Kuhn Poker: no opponent wins chips from it in the long run
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ludus.config.language import GameSpec
from ludus.envs.seats import TurnGame
from ludus.games.board.codecs import BoardCodec, codec_for
from ludus.games.board.rules import BET, CALL, CHECK, FOLD, GameRules, Hand, KuhnPoker

Choose = Callable[[GameRules[Any], Any, np.random.Generator], int]
"""A function that chooses an action from the rules, a position and a generator."""


class ChoosingBot:
    """Plays by the rules of a codec; `choose` is one of the functions below."""

    def __init__(self, codec: BoardCodec[Any], choose: Choose, rng: np.random.Generator) -> None:
        self._codec, self._choose, self._rng = codec, choose, rng

    def act(self, game: TurnGame) -> str:
        return self._codec.text(self.choose(self._codec.position(game)))

    def choose(self, position: Any) -> int:
        """Return an action in `position`, which is not terminal."""
        return self._choose(self._codec.rules, position, self._rng)


def make_bot(name: str, spec: GameSpec, rng: np.random.Generator) -> ChoosingBot | None:
    """Return the bot called `name` for this game, drawing from `rng`; None if it does not play the game."""
    codec = codec_for(spec.id, spec.kwargs)
    if codec is None or name not in bots_for(codec.rules):
        return None
    return ChoosingBot(codec, chooser(name, codec.rules), rng)


random_bot = functools.partial(make_bot, "random")
greedy_bot = functools.partial(make_bot, "greedy")
minimax_bot = functools.partial(make_bot, "minimax")
equilibrium_bot = functools.partial(make_bot, "equilibrium")


def bots_for(rules: GameRules[Any]) -> list[str]:
    """Return the names of the bots that play by these rules."""
    return ["random", "greedy", "equilibrium" if rules.hidden else "minimax"]


def chooser(name: str, rules: GameRules[Any]) -> Choose:
    """Return the function that chooses the actions of the bot `name`."""
    if isinstance(rules, KuhnPoker):
        return {"random": random, "greedy": greedy_at_poker, "equilibrium": equilibrium}[name]
    return {"random": random, "greedy": greedy, "minimax": minimax}[name]


def random(rules: GameRules[Any], position: Any, rng: np.random.Generator) -> int:
    return _random_choice(rules.legal(position), rng)


def greedy(rules: GameRules[Any], position: Any, rng: np.random.Generator) -> int:
    seat = rules.seat(position)
    safe = []
    for action in rules.legal(position):
        then = rules.after(position, action, rng)
        result = rules.result(then)
        if result is not None and result[seat] > 0:
            return int(action)
        if result is not None or not _can_win_at_once(rules, then, rng):
            safe.append(action)
    return _random_choice(safe or rules.legal(position), rng)


def minimax(rules: GameRules[Any], position: Any, rng: np.random.Generator) -> int:
    plies = rules.plies
    values = {
        action: -_value(rules, rules.after(position, action, rng), None if plies is None else plies - 1)
        for action in rules.legal(position)
    }
    best = max(values.values())
    return _random_choice([action for action, value in values.items() if value == best], rng)


def greedy_at_poker(rules: GameRules[Any], position: Hand, rng: np.random.Generator) -> int:
    return _bet_or_call(rules, position, aggressive=bet_probability("greedy", rules, position) == 1)


def equilibrium(rules: GameRules[Any], position: Hand, rng: np.random.Generator) -> int:
    """Play the equilibrium of one round in which the first player never bets first (Kuhn's family with alpha = 0)."""
    return _bet_or_call(
        rules, position, aggressive=rng.random() < bet_probability("equilibrium", rules, position)
    )


def bet_probability(name: str, rules: GameRules[Any], position: Hand) -> float:
    """Return the probability that the bot `name` bets or calls at Kuhn Poker, where it could check or fold."""
    card, may_bet = position.cards[position.seat], BET in rules.legal(position)
    if name == "random":
        return 0.5
    if name == "greedy":
        return float(card == _KING if may_bet else card != _JACK)
    if may_bet and position.seat == position.starter:
        return 0.0
    if card == _KING:
        return 1.0
    return 1 / 3 if card == (_JACK if may_bet else _QUEEN) else 0.0


def _bet_or_call(rules: GameRules[Any], position: Hand, *, aggressive: bool) -> int:
    if BET in rules.legal(position):
        return BET if aggressive else CHECK
    return CALL if aggressive else FOLD


_JACK, _QUEEN, _KING = range(3)
_WIN = 1_000  # greater than the number of moves in any game
_NO_CHANCE = np.random.default_rng(0)  # games that are searched have no chance moves


@functools.cache
def _value_cache(rules: GameRules[Any]) -> dict[Any, int]:
    return {}


def _value(rules: GameRules[Any], position: Any, plies: int | None) -> int:
    """Return the value of `position` for the seat to move. Earlier wins and losses have larger values."""
    if plies is None:
        known, key = _value_cache(rules), rules.key(position)
        if key not in known:
            known[key] = _search(rules, position, None, -_WIN, _WIN)
        return known[key]
    return _search(rules, position, plies, -_WIN, _WIN)


def _search(rules: GameRules[Any], position: Any, plies: int | None, low: int, high: int) -> int:
    result = rules.result(position)
    if result is not None:
        return int(result[rules.seat(position)]) * _WIN
    if plies == 0:
        return 0
    best = -_WIN
    for action in rules.legal(position):
        then = rules.after(position, action, _NO_CHANCE)
        value = -(
            _value(rules, then, None)
            if plies is None
            else _search(rules, then, plies - 1, -high - 1, -low + 1)
        )
        value -= (value > 0) - (value < 0)  # a later win or loss counts less
        best = max(best, value)
        low = max(low, best)
        if plies is not None and low >= high:
            break
    return best


def _can_win_at_once(rules: GameRules[Any], position: Any, rng: np.random.Generator) -> bool:
    seat = rules.seat(position)
    results = (rules.result(rules.after(position, action, rng)) for action in rules.legal(position))
    return any(result is not None and result[seat] > 0 for result in results)


def _random_choice(actions: Any, rng: np.random.Generator) -> int:
    return int(actions[int(rng.integers(len(actions)))])
