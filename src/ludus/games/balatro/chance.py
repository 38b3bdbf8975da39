"""Chance, from one of two sources: a counter-based generator in the game's row, or a queue of given outcomes.

Every random event of the rules asks here and says its kind. `q` is the queue of the game: pairs (kind, outcome),
where a used pair has kind 0. The oldest outcome of the asked kind is taken; where there is none (and in training,
where `q` is empty) the generator decides. The generator hashes (seed, counter), so a copied row repeats its future.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.state import DRAWS, SEED_HIGH, SEED_LOW

# Kinds of events that can be given. An outcome is what the comment says.
(
    GIVEN_DRAW,  # the packed rank and suit of the card drawn
    GIVEN_SHOP,  # the item in the next place of the shop
    GIVEN_SHOP_EDITION,  # its edition
    GIVEN_SHOP_CARD,  # the packed playing card in it
    GIVEN_VOUCHER,  # the voucher of the ante
    GIVEN_BOOSTER,  # the next booster of the shop
    GIVEN_PACK,  # the next item of a pack that is opened
    GIVEN_PACK_EDITION,
    GIVEN_PACK_CARD,
    GIVEN_TAG,  # the tag of the next blind
    GIVEN_BOSS,
    GIVEN_PROC,  # 1 when the next chance effect happens, 0 when not
    GIVEN_NUMBER,  # the number that a joker or card draws (Misprint)
    GIVEN_POSITION,  # which of several: a position counted from 0
    GIVEN_DISCARD,  # the position in the hand that The Hook takes
    GIVEN_ITEM,  # a joker or consumable that an effect creates
    GIVEN_STICKERS,
    GIVEN_HAND,  # a poker hand (Orbital Tag, To Do List)
    GIVEN_RANK,
    GIVEN_SUIT,
    GIVEN_EDITION,  # of a joker that an effect creates or changes
) = range(1, 22)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@kernel
def _bits(s: Any) -> Any:
    low = np.uint64(np.uint32(s[SEED_LOW]))
    high = np.uint64(np.uint32(s[SEED_HIGH]))
    s[DRAWS] += 1
    x = (low | (high << np.uint64(32))) + _GOLDEN * np.uint64(np.uint32(s[DRAWS]))
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


@entry
def uniform(s: Any) -> Any:
    """A number in [0, 1)."""
    return np.float64(_bits(s) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@entry
def below(s: Any, n: Any) -> Any:
    """An integer from 0 to n - 1."""
    return np.int64(((_bits(s) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel
def given(q: Any, kind: Any) -> Any:
    """Takes the oldest outcome of a kind from the queue; -1 where there is none."""
    for i in range(0, len(q), 2):
        if q[i] == kind:
            q[i] = 0
            return np.int64(q[i + 1])
    return np.int64(-1)


@kernel
def happens(s: Any, q: Any, luck: Any, odds: Any) -> Any:
    """Whether an effect with a chance of luck in odds happens."""
    outcome = given(q, GIVEN_PROC)
    if outcome >= 0:
        return outcome == 1
    return uniform(s) * odds < luck


@kernel
def position(s: Any, q: Any, n: Any) -> Any:
    """Which of n things chance takes."""
    outcome = given(q, GIVEN_POSITION)
    if 0 <= outcome < n:
        return outcome
    return below(s, n)
