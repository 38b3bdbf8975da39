"""Which text games there are, and by how many they are played."""

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
"""Before the id of a Gymnasium env whose observations are texts: a game with one seat."""

_MOST_TRIED = 15  # no game of TextArena's is made for more
_GAP = 2  # some are played by even numbers only
# these would start with any number of players; the fewest that make a game of them
_FEWEST_BY_THEIR_RULES = {"PublicGoodsGame": 2, "MarketEntryGame": 2}


def game_ids() -> list[str]:
    """Every id of TextArena's, variants included, sorted; raises MissingExtra."""
    return sorted(registry())


def games() -> dict[str, list[str]]:
    """Ids by game (what stands before its version, as `TicTacToe`), sorted."""
    by_game: dict[str, list[str]] = {}
    for game_id in game_ids():
        by_game.setdefault(_game_of(game_id), []).append(game_id)
    return by_game


def check_game(game_id: str, *, where: str = "games") -> None:
    """Returns when `game_id` is known; raises UnknownName with the nearest id, MissingExtra without TextArena."""
    if game_id.startswith(GYMNASIUM):
        check_env_exists(game_id.removeprefix(GYMNASIUM))
    elif game_id not in registry():
        raise UnknownName(
            "game", game_id, game_ids(), where=where, fix="`ludus envs textarena` lists the games"
        )


@functools.cache
def fewest_players(spec: GameSpec) -> int:
    """The fewest that can start the game, whatever `spec.players` says.

    Raises as `check_game`, and GameFault when nobody can start it.
    """
    return next(_accepted(spec))


@functools.cache
def player_counts(spec: GameSpec) -> tuple[int, ...]:
    """The numbers of players that can start the game, up to 15; raises as `fewest_players`."""
    return tuple(_accepted(spec))


def check_players(spec: GameSpec) -> None:
    """Raises UserError when the game cannot be played by `spec.players`."""
    if spec.players is None:
        return
    counts = player_counts(spec)
    if spec.players not in counts:
        raise UserError(
            f"{spec.id} cannot be played by {spec.players}",
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
    for players in range(_FEWEST_BY_THEIR_RULES.get(_game_of(spec.id), 1), _MOST_TRIED + 1):
        try:
            with secluded(Seclusion(0), f"{spec.id} cannot be started"):
                start_env(spec, players, seed=0)
        except GameFault as fault:  # TextArena has no other way to say that a number of players does not fit
            if fault.__cause__ is None:  # it was too slow: that is no answer
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
