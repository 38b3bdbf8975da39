"""Observation and action spaces: a flat vector, or a Dict of its blocks with ids to embed; the actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.games.balatro.actions import n_actions
from ludus.games.balatro.compiled import entry
from ludus.games.balatro.facts import N_ITEMS
from ludus.games.balatro.moves import N_MOVES, N_WORKED_OUT
from ludus.games.balatro.observation import N_CARD_IDS, N_IDS, observation_size, slices, write_ids
from ludus.games.balatro.state import MAX_CONSUMABLES, MAX_JOKERS, PACK_SLOTS
from ludus.types import Array


def action_space(max_hand: int) -> spaces.Discrete:
    """Return the space with one index per action, for hands of up to `max_hand` cards."""
    return spaces.Discrete(n_actions(max_hand))


def move_space() -> spaces.Discrete:
    """Return the space with one index per move of `moves.py`."""
    return spaces.Discrete(N_MOVES)


def flat_space(max_hand: int, worked_out: bool = False) -> spaces.Box:
    """Return the space of the vector of `observation.py`, if `worked_out` with the derived features of `moves.py`."""
    size = observation_size(max_hand) + (N_WORKED_OUT if worked_out else 0)
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def dict_space(max_hand: int, worked_out: bool = False) -> spaces.Dict:
    """Return the space of the blocks of the vector by name, with the ids of what is in each slot (`joker_ids`, …)."""
    parts: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-np.inf, np.inf, (part.stop - part.start,), np.float32)
        for name, part in _blocks(max_hand, worked_out).items()
    }
    parts["joker_ids"] = spaces.MultiDiscrete(np.full(MAX_JOKERS, 151))
    parts["consumable_ids"] = spaces.MultiDiscrete(np.full(MAX_CONSUMABLES, N_ITEMS))
    parts["offer_ids"] = spaces.MultiDiscrete(np.full(PACK_SLOTS, N_ITEMS))
    parts["hand_ids"] = spaces.MultiDiscrete(np.full(max_hand, N_CARD_IDS))
    return spaces.Dict(parts)


def _blocks(max_hand: int, worked_out: bool) -> dict[str, slice]:
    size = observation_size(max_hand)
    more = {"worked_out": slice(size, size + N_WORKED_OUT)} if worked_out else {}
    return slices(max_hand) | more


@entry
def _write_all_ids(games_s: Any, ids: Any, max_hand: Any) -> None:
    for i in range(len(games_s)):
        write_ids(games_s[i], ids[i], max_hand)


def as_dict(flat: Array, rows: Array, max_hand: int) -> dict[str, Array]:
    """Return the Dict observation of a batch, from its vectors and the rows `s` of its games."""
    ids: Array = np.empty((len(rows), N_IDS + max_hand), dtype=np.int64)
    _write_all_ids(rows, ids, max_hand)
    worked_out = flat.shape[1] > observation_size(max_hand)
    parts = {name: flat[:, part] for name, part in _blocks(max_hand, worked_out).items()}
    ends = np.cumsum([MAX_JOKERS, MAX_CONSUMABLES, PACK_SLOTS])
    names = ("joker_ids", "consumable_ids", "offer_ids", "hand_ids")
    return parts | dict(zip(names, np.split(ids, ends, axis=1), strict=True))
