"""List of the text games, and the numbers of players of each."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ludus.config.language import GameSpec
from ludus.envs.catalog import check_env_exists
from ludus.envs.seats import GameFault
from ludus.errors import UnknownName, UserError
from ludus.language.text_games.arena import registry, start_env
from ludus.language.text_games.seclusion import Seclusion, secluded

GYMNASIUM = "gym:"
"""Prefix of the id of a Gymnasium env whose observations are texts: a game with one seat."""

_MAX_PLAYERS_TRIED = 15  # no game of TextArena has more players
_GAP = 2  # some games only accept even numbers of players
# these games start with any number of players; by their rules they need at least this many
_MIN_PLAYERS_BY_RULES = {"PublicGoodsGame": 2, "MarketEntryGame": 2}


def game_ids() -> list[str]:
    """Return all game ids of TextArena, variants included, sorted. Raises MissingExtra."""
    return sorted(registry())


def games() -> dict[str, list[str]]:
    """Return the ids of each game, sorted. The name of a game is its id without the version, such as `TicTacToe`."""
    by_game: dict[str, list[str]] = {}
    for game_id in game_ids():
        by_game.setdefault(_game_of(game_id), []).append(game_id)
    return by_game


def check_game(game_id: str, *, where: str = "games") -> None:
    """Raise UnknownName, with the nearest id, if `game_id` is not known; MissingExtra without TextArena."""
    if game_id.startswith(GYMNASIUM):
        check_env_exists(game_id.removeprefix(GYMNASIUM))
    elif game_id not in registry():
        raise UnknownName(
            "game", game_id, game_ids(), where=where, fix="`ludus envs textarena` lists the games"
        )


@functools.cache
def fewest_players(spec: GameSpec) -> int:
    """Return the minimum number of players of the game; `spec.players` has no effect.

    Raises like `check_game`, and GameFault if the game cannot be started.
    """
    return next(_accepted(spec))


@functools.cache
def player_counts(spec: GameSpec) -> tuple[int, ...]:
    """Return the possible numbers of players, up to 15. Raises like `fewest_players`."""
    return tuple(_accepted(spec))


def check_players(spec: GameSpec) -> None:
    """Raise UserError if the game does not accept `spec.players` players."""
    if spec.players is None:
        return
    counts = player_counts(spec)
    if spec.players not in counts:
        raise UserError(
            f"{spec.id} cannot be played by {spec.players} players",
            where="players",
            fix=f"players: {' or '.join(map(str, counts))}",
        )


def _accepted(spec: GameSpec) -> Iterator[int]:
    check_game(spec.id)
    if spec.id.startswith(GYMNASIUM):
        yield 1
        return
    faults: list[GameFault] = []
    accepted = 0
    for players in range(_MIN_PLAYERS_BY_RULES.get(_game_of(spec.id), 1), _MAX_PLAYERS_TRIED + 1):
        try:
            with secluded(Seclusion(0), f"{spec.id} cannot be started"):
                start_env(spec, players, seed=0)
        except GameFault as fault:  # TextArena raises for a wrong number of players
            if fault.__cause__ is None:  # it timed out, so the number may be valid
                raise
            faults.append(fault)
            if accepted and players >= accepted + _GAP:
                return
        else:
            accepted = players
            yield players
    if not accepted:
        # the last error that is not about the number of players is the informative one
        raise next((f for f in faults[::-1] if not isinstance(f.__cause__, AssertionError)), faults[-1])


def _game_of(game_id: str) -> str:
    return game_id.partition("-v")[0]
