"""Which text games there are, and by how many they are played."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ludus.config.language import GameSpec
from ludus.envs.catalog import check_env_exists
from ludus.envs.text.arena import Seclusion, make_env, registry
from ludus.envs.text.table import GameFault
from ludus.errors import UnknownName, UserError

GYMNASIUM = "gym:"
"""Before the id of a Gymnasium env whose observations are texts: a game with one seat."""

_MOST_TRIED = 15  # no game of TextArena's is made for more
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
        raise UnknownName("game", game_id, game_ids(), where=where, fix="`ludus envs text` lists the games")


@functools.cache
def fewest_players(spec: GameSpec) -> int:
    """The fewest that can start the game, whatever `spec.players` says.

    Raises as `check_game`, and GameFault when nobody can start it.
    """
    return next(_accepted(spec))


@functools.cache
def player_counts(spec: GameSpec) -> tuple[int, ...]:
    """Every number of players up to 15 that can start the game; raises as `fewest_players`."""
    return tuple(_accepted(spec))


def check_players(spec: GameSpec) -> None:
    """Raises UserError when the game cannot be played by `spec.players`."""
    if spec.players is None or spec.id.startswith(GYMNASIUM):
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
    secluded = Seclusion(0)
    try:
        with secluded:
            env = make_env(spec.id, spec.kwargs)
    except UserError:
        raise
    except Exception as error:  # a game may raise anything
        raise GameFault.of(error, f"{spec.id} cannot be made") from error
    faults: list[Exception] = []
    fewest = _FEWEST_BY_THEIR_RULES.get(_game_of(spec.id), 1)
    for players in range(fewest, _MOST_TRIED + 1):
        try:
            with secluded:
                env.reset(num_players=players, seed=0)
        except UserError:
            raise
        except Exception as error:  # TextArena has no other way to say that a number of players does not fit
            faults.append(error)
        else:
            yield players
    if len(faults) > _MOST_TRIED - fewest:
        # the last complaint that is not about the number of players is the one that tells
        told = [fault for fault in faults if not isinstance(fault, AssertionError)] or faults
        raise GameFault.of(told[-1], f"{spec.id} cannot be started by any number of players")


def _game_of(game_id: str) -> str:
    return game_id.partition("-v")[0]
