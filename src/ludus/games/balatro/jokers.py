"""Jokers coming and going: what one starts with, what it changes while it is held, and its destruction."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.chance import GIVEN_EDITION, GIVEN_HAND, GIVEN_ITEM, below, given
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.lineup import joker_room
from ludus.games.balatro.names import (
    J_CAINO,
    J_CAMPFIRE,
    J_CHAOS,
    J_CONSTELLATION,
    J_DRUNKARD,
    J_GLASS,
    J_HIT_THE_ROAD,
    J_HOLOGRAM,
    J_ICE_CREAM,
    J_JUGGLER,
    J_LOYALTY_CARD,
    J_LUCKY_CAT,
    J_MADNESS,
    J_MERRY_ANDY,
    J_OBELISK,
    J_POPCORN,
    J_RAMEN,
    J_ROCKET,
    J_SELZER,
    J_STUNTMAN,
    J_TODO_LIST,
    J_TROUBADOUR,
    J_TURTLE_BEAN,
    J_VAMPIRE,
    J_YORICK,
)
from ludus.games.balatro.pools import new_edition, new_joker
from ludus.games.balatro.state import (
    DEBUFFED,
    DISCARDS_LEFT,
    DISCARDS_PER_ROUND,
    FREE_REROLLS,
    HANDS_PER_ROUND,
    HANDS_PLAYED,
    J_COUNT,
    J_EDITION,
    J_EXTRA,
    J_PERISH,
    J_STICKERS,
    J_VALUE,
    JOKER,
    MAX_JOKERS,
    N_JOKERS,
    PERISHABLE,
    PLAYED,
)

PERISH_ROUNDS = 5


@kernel
def change_discards(s: Any, by: Any) -> None:
    """Changes the discards left in this round, never below 0."""
    s[DISCARDS_LEFT] = max(0, s[DISCARDS_LEFT] + by)


@kernel
def _while_held(s: Any, q: Any, joker: Any, sign: Any, count: Any) -> None:
    """What a joker changes by being held; the sign is 1 when it comes and -1 when it goes or is debuffed."""
    if joker == J_JUGGLER:
        change_hand_size(s, q, sign)
    elif joker == J_TROUBADOUR:
        change_hand_size(s, q, 2 * sign)
        s[HANDS_PER_ROUND] -= sign
    elif joker == J_TURTLE_BEAN:
        change_hand_size(s, q, sign * count)
    elif joker == J_STUNTMAN:
        change_hand_size(s, q, -2 * sign)
    elif joker == J_MERRY_ANDY:
        change_hand_size(s, q, -sign)
        s[DISCARDS_PER_ROUND] += 3 * sign
        change_discards(s, 3 * sign)
    elif joker == J_DRUNKARD:
        s[DISCARDS_PER_ROUND] += sign
        change_discards(s, sign)
    elif joker == J_CHAOS:
        s[FREE_REROLLS] = max(0, s[FREE_REROLLS] + sign)


@kernel
def random_hand_type(s: Any, q: Any, other_than: Any) -> Any:
    """A poker hand among those that are known: the three secret ones once they were played."""
    hand = given(q, GIVEN_HAND)
    if hand >= 0:
        return hand
    while True:
        hand = below(s, 12)
        if hand != other_than and (hand < 9 or s[PLAYED + hand] > 0):
            return hand


@entry
def add_joker(s: Any, f: Any, q: Any, joker: Any, edition: Any, stickers: Any) -> Any:
    """Puts a joker at the right end; returns its position, -1 when even the row is full."""
    at = s[N_JOKERS]
    if at >= MAX_JOKERS:
        return -1
    s[N_JOKERS] += 1
    s[JOKER + at] = joker
    s[J_EDITION + at] = edition
    s[J_STICKERS + at] = stickers
    s[J_EXTRA + at] = 0
    s[J_PERISH + at] = PERISH_ROUNDS if stickers & PERISHABLE else 0
    count, value = 0, 0.0
    if joker == J_LOYALTY_CARD:
        count = s[HANDS_PLAYED]
    elif joker == J_SELZER:
        count = 10
    elif joker == J_TURTLE_BEAN:
        count = 5
    elif joker == J_ROCKET:
        count = 1
    elif joker == J_YORICK:
        count, value = 23, 1.0
    elif joker == J_TODO_LIST:
        count = random_hand_type(s, q, -1)
    elif joker == J_ICE_CREAM:
        value = 100.0
    elif joker == J_POPCORN:
        value = 20.0
    elif joker == J_RAMEN:
        value = 2.0
    elif joker in (
        J_CONSTELLATION,
        J_MADNESS,
        J_VAMPIRE,
        J_HOLOGRAM,
        J_OBELISK,
        J_LUCKY_CAT,
        J_CAMPFIRE,
        J_GLASS,
        J_HIT_THE_ROAD,
        J_CAINO,
    ):
        value = 1.0
    s[J_COUNT + at] = count
    f[J_VALUE + at] = value
    _while_held(s, q, joker, 1, count)
    return at


@kernel
def _copy_place(s: Any, f: Any, to: Any, source: Any) -> None:
    s[JOKER + to] = s[JOKER + source]
    s[J_EDITION + to] = s[J_EDITION + source]
    s[J_STICKERS + to] = s[J_STICKERS + source]
    s[J_EXTRA + to] = s[J_EXTRA + source]
    s[J_PERISH + to] = s[J_PERISH + source]
    s[J_COUNT + to] = s[J_COUNT + source]
    f[J_VALUE + to] = f[J_VALUE + source]


@kernel
def duplicate_joker(s: Any, f: Any, q: Any, source: Any, keep_negative: Any) -> Any:
    """A copy with everything the joker has gathered, at the right end; -1 when the row is full."""
    at = s[N_JOKERS]
    if at >= MAX_JOKERS:
        return -1
    s[N_JOKERS] += 1
    _copy_place(s, f, at, source)
    if s[J_EDITION + at] == 4 and not keep_negative:
        s[J_EDITION + at] = 0
    if not s[J_STICKERS + at] & DEBUFFED:
        _while_held(s, q, s[JOKER + at], 1, s[J_COUNT + at])
    return at


@kernel
def remove_joker(s: Any, f: Any, q: Any, at: Any) -> None:
    """Takes a joker out of the row, and with it what it changed."""
    joker, count = s[JOKER + at], s[J_COUNT + at]
    held = not s[J_STICKERS + at] & DEBUFFED
    for i in range(at, s[N_JOKERS] - 1):
        _copy_place(s, f, i, i + 1)
    s[N_JOKERS] -= 1
    last = s[N_JOKERS]
    s[JOKER + last] = 0
    s[J_EDITION + last] = 0
    s[J_STICKERS + last] = 0
    s[J_EXTRA + last] = 0
    s[J_PERISH + last] = 0
    s[J_COUNT + last] = 0
    f[J_VALUE + last] = 0.0
    if held:
        _while_held(s, q, joker, -1, count)


@kernel
def set_debuffed(s: Any, q: Any, at: Any, debuffed: Any) -> None:
    """Debuffs a joker or lifts it, with what it changes while held."""
    is_now = (s[J_STICKERS + at] & DEBUFFED) != 0
    if is_now == debuffed:
        return
    if debuffed:
        s[J_STICKERS + at] |= DEBUFFED
        _while_held(s, q, s[JOKER + at], -1, s[J_COUNT + at])
    else:
        s[J_STICKERS + at] &= ~DEBUFFED
        _while_held(s, q, s[JOKER + at], 1, s[J_COUNT + at])


@entry
def swap_jokers(s: Any, f: Any, a: Any, b: Any) -> None:
    """Two jokers change places."""
    for base in (JOKER, J_EDITION, J_STICKERS, J_EXTRA, J_PERISH, J_COUNT):
        kept = s[base + a]
        s[base + a] = s[base + b]
        s[base + b] = kept
    value = f[J_VALUE + a]
    f[J_VALUE + a] = f[J_VALUE + b]
    f[J_VALUE + b] = value


@kernel
def create_joker(s: Any, f: Any, q: Any, rarity: Any) -> Any:
    """An effect makes a joker, if there is room; returns its position or -1."""
    if joker_room(s) <= 0:
        return -1
    item = given(q, GIVEN_ITEM)
    joker = item if item > 0 else new_joker(s, rarity)
    edition = given(q, GIVEN_EDITION)
    if edition < 0:
        edition = new_edition(s, 1.0, True)
    return add_joker(s, f, q, joker, edition, 0)
