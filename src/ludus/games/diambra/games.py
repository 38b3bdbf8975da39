"""The nine games and the keys of their observations, available without the client.

tests/diambra compares this table with the client's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from ludus.errors import UnknownName, require_types

GLOBAL_KEYS = ("stage", "timer", "action", "frame")


@dataclass(frozen=True)
class FightingGame:
    """One game: its title, bounds of its settings, and the states that each player has.

    `states` are all states that the engine reports of a player, `kept` those that `get_filter_keys` returns.
    """

    title: str
    difficulties: int
    outfits: int
    team: int
    states: tuple[str, ...]
    kept: tuple[str, ...]


_ONE = ("side", "wins", "character", "health")
_TEAM = ("side", "wins", "character_1", "character_2", "health_1", "health_2")
_SUPER = ("super_bar", "super_count")
_STREET = ("super_bar", "stun_bar", "super_count", "stunned", "super_type", "super_max_count")
_SAMURAI = ("rage_bar", "weapon_bar", "power_bar")
_KING = ("side", "wins", "character_1", "character_2", "character_3", "health", "power_bar")

GAMES: dict[str, FightingGame] = {
    "doapp": FightingGame("Dead Or Alive ++", 4, 4, 1, _ONE, _ONE),
    "sfiii3n": FightingGame("Street Fighter III", 8, 7, 1, (*_ONE, *_STREET), (*_ONE, *_STREET)),
    "tektagt": FightingGame(
        "Tekken Tag Tournament",
        9,
        5,
        2,
        (*_TEAM, "character", "active_character", "bar_status"),
        (*_TEAM, "active_character"),
    ),
    "umk3": FightingGame(
        "Ultimate Mortal Kombat 3", 5, 1, 1, (*_ONE, "aggressor_bar"), (*_ONE, "aggressor_bar")
    ),
    "samsh5sp": FightingGame(
        "Samurai Showdown 5 Special",
        8,
        4,
        1,
        (*_ONE, *_SAMURAI, "rage_on", "rage_used", "weapon_lost", "weapon_fight"),
        (*_ONE, *_SAMURAI),
    ),
    "kof98umh": FightingGame(
        "The King Of Fighters '98 UMH", 8, 4, 3, (*_KING, "character", "special_attacks", "bar_type"), _KING
    ),
    "mvsc": FightingGame(
        "Marvel VS Capcom",
        8,
        2,
        2,
        (*_TEAM, *_SUPER, "character", "active_character", "partner", "partner_attacks"),
        (*_TEAM, "super_bar", "active_character"),
    ),
    "xmvsf": FightingGame(
        "X-Men VS Street Fighter",
        8,
        2,
        2,
        (*_TEAM, *_SUPER, "character", "active_character"),
        (*_TEAM, "super_bar", "active_character"),
    ),
    "soulclbr": FightingGame("Soul Calibur", 5, 2, 1, _ONE, _ONE),
}


def find_game(game_id: str) -> FightingGame:
    """Return the game called `game_id`. UnknownName suggests the nearest."""
    require_types("get_filter_keys", game_id=(game_id, (str,)))
    if game_id not in GAMES:
        raise UnknownName("DIAMBRA game", game_id, GAMES, where="env.id", fix=f"known: {', '.join(GAMES)}")
    return GAMES[game_id]


def get_filter_keys(game_id: str, flatten: bool = True) -> list[str]:
    """Return the useful observation keys of a game: the global ones, then each state of both players.

    Flattened observations name the players by role (`own_health`, `opp_health`), nested ones by side
    (`P1.health`, `P2.health`). UnknownName for an unknown game.
    """
    players = ("own_", "opp_") if flatten else ("P1.", "P2.")
    return [*GLOBAL_KEYS, *(f"{player}{state}" for state in find_game(game_id).kept for player in players)]


def known_keys(game_id: str, *, role_relative: bool, last_action: bool) -> list[str]:
    """Return every key that a flattened observation of the game can have with these wrappers."""
    players = ("own_", "opp_") if role_relative else ("P1_", "P2_")
    keys = [key for key in GLOBAL_KEYS if key != "action" or last_action]
    return [*keys, *(f"{player}{state}" for player in players for state in find_game(game_id).states)]
