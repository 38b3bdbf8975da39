"""Signals of Balatro (score, target, ante, …) for videos and `ludus analyze`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ludus.envs.signals import ActionNames, Reader, Signal
from ludus.games.balatro import state
from ludus.games.balatro.actions import describe
from ludus.games.balatro.moves import describe_move


def signals() -> tuple[Sequence[Signal], ActionNames]:
    """Return the signals, and the function that names the actions of an env."""
    return SIGNALS, _actions


def _cell(row: str, cell: str) -> Reader:
    def read(env: Any, obs: Any, info: dict[str, Any]) -> float:
        return float(getattr(env.games, row)[0, getattr(state, cell)])

    return read


def _target(env: Any, obs: Any, info: dict[str, Any]) -> float:
    """Return the target of the blind that is being played; 0 between blinds."""
    return float(env.games.f[0, state.TARGET]) if env.games.s[0, state.BLIND] else 0.0


def _actions(env: Any) -> Sequence[str]:
    in_words = describe_move if env.settings.actions == "moves" else describe
    return [in_words(action) for action in range(int(env.action_space.n))]


SIGNALS = [
    Signal("score", _cell("f", "CHIPS")),
    Signal("target", _target),
    Signal("ante", _cell("s", "ANTE")),
    Signal("round", _cell("s", "ROUND")),
    Signal("money", _cell("s", "MONEY"), "$"),
    Signal("hands left", _cell("s", "HANDS_LEFT")),
    Signal("discards left", _cell("s", "DISCARDS_LEFT")),
    Signal("jokers", _cell("s", "N_JOKERS")),
]
