"""Jokers coming and going: what one starts with, what it changes while it is held, and its destruction."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_EDITION, GIVEN_HAND, GIVEN_ITEM, below, given
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.lineup import joker_room
from ludus.games.balatro.pools import new_edition, new_joker

PERISH_ROUNDS = 5


@kernel
def change_discards(s: Any, by: Any) -> None:
    """Changes the discards left in this round, never below 0."""
    s[st.DISCARDS_LEFT] = max(0, s[st.DISCARDS_LEFT] + by)


@kernel
def _while_held(s: Any, q: Any, joker: Any, sign: Any, count: Any) -> None:
    """What a joker changes by being held; the sign is 1 when it comes and -1 when it goes or is debuffed."""
    if joker == nm.J_JUGGLER:
        change_hand_size(s, q, sign)
    elif joker == nm.J_TROUBADOUR:
        change_hand_size(s, q, 2 * sign)
        s[st.HANDS_PER_ROUND] -= sign
    elif joker == nm.J_TURTLE_BEAN:
        change_hand_size(s, q, sign * count)
    elif joker == nm.J_STUNTMAN:
        change_hand_size(s, q, -2 * sign)
    elif joker == nm.J_MERRY_ANDY:
        change_hand_size(s, q, -sign)
        s[st.DISCARDS_PER_ROUND] += 3 * sign
        change_discards(s, 3 * sign)
    elif joker == nm.J_DRUNKARD:
        s[st.DISCARDS_PER_ROUND] += sign
        change_discards(s, sign)
    elif joker == nm.J_CHAOS:
        s[st.FREE_REROLLS] = max(0, s[st.FREE_REROLLS] + sign)


@kernel
def random_hand_type(s: Any, q: Any, other_than: Any) -> Any:
    """A poker hand among those that are known: the three secret ones once they were played."""
    hand = given(q, GIVEN_HAND)
    if hand >= 0:
        return hand
    while True:
        hand = below(s, 12)
        if hand != other_than and (hand < 9 or s[st.PLAYED + hand] > 0):
            return hand


@entry
def add_joker(s: Any, f: Any, q: Any, joker: Any, edition: Any, stickers: Any) -> Any:
    """Puts a joker at the right end; returns its position, -1 when even the row is full."""
    at = s[st.N_JOKERS]
    if at >= st.MAX_JOKERS:
        return -1
    s[st.N_JOKERS] += 1
    s[st.JOKER + at] = joker
    s[st.J_EDITION + at] = edition
    s[st.J_STICKERS + at] = stickers
    s[st.J_EXTRA + at] = 0
    s[st.J_PERISH + at] = PERISH_ROUNDS if stickers & st.PERISHABLE else 0
    count, value = 0, 0.0
    if joker == nm.J_LOYALTY_CARD:
        count = s[st.HANDS_PLAYED]
    elif joker == nm.J_SELZER:
        count = 10
    elif joker == nm.J_TURTLE_BEAN:
        count = 5
    elif joker == nm.J_ROCKET:
        count = 1
    elif joker == nm.J_YORICK:
        count, value = 23, 1.0
    elif joker == nm.J_TODO_LIST:
        count = random_hand_type(s, q, -1)
    elif joker == nm.J_ICE_CREAM:
        value = 100.0
    elif joker == nm.J_POPCORN:
        value = 20.0
    elif joker == nm.J_RAMEN:
        value = 2.0
    elif joker in (
        nm.J_CONSTELLATION,
        nm.J_MADNESS,
        nm.J_VAMPIRE,
        nm.J_HOLOGRAM,
        nm.J_OBELISK,
        nm.J_LUCKY_CAT,
        nm.J_CAMPFIRE,
        nm.J_GLASS,
        nm.J_HIT_THE_ROAD,
        nm.J_CAINO,
    ):
        value = 1.0
    s[st.J_COUNT + at] = count
    f[st.J_VALUE + at] = value
    _while_held(s, q, joker, 1, count)
    return at


@kernel
def _copy_place(s: Any, f: Any, to: Any, source: Any) -> None:
    s[st.JOKER + to] = s[st.JOKER + source]
    s[st.J_EDITION + to] = s[st.J_EDITION + source]
    s[st.J_STICKERS + to] = s[st.J_STICKERS + source]
    s[st.J_EXTRA + to] = s[st.J_EXTRA + source]
    s[st.J_PERISH + to] = s[st.J_PERISH + source]
    s[st.J_COUNT + to] = s[st.J_COUNT + source]
    f[st.J_VALUE + to] = f[st.J_VALUE + source]


@kernel
def duplicate_joker(s: Any, f: Any, q: Any, source: Any, keep_negative: Any) -> Any:
    """A copy with everything the joker has gathered, at the right end; -1 when the row is full."""
    at = s[st.N_JOKERS]
    if at >= st.MAX_JOKERS:
        return -1
    s[st.N_JOKERS] += 1
    _copy_place(s, f, at, source)
    if s[st.J_EDITION + at] == 4 and not keep_negative:
        s[st.J_EDITION + at] = 0
    if not s[st.J_STICKERS + at] & st.DEBUFFED:
        _while_held(s, q, s[st.JOKER + at], 1, s[st.J_COUNT + at])
    return at


@kernel
def remove_joker(s: Any, f: Any, q: Any, at: Any) -> None:
    """Takes a joker out of the row, and with it what it changed."""
    joker, count = s[st.JOKER + at], s[st.J_COUNT + at]
    held = not s[st.J_STICKERS + at] & st.DEBUFFED
    for i in range(at, s[st.N_JOKERS] - 1):
        _copy_place(s, f, i, i + 1)
    s[st.N_JOKERS] -= 1
    last = s[st.N_JOKERS]
    s[st.JOKER + last] = 0
    s[st.J_EDITION + last] = 0
    s[st.J_STICKERS + last] = 0
    s[st.J_EXTRA + last] = 0
    s[st.J_PERISH + last] = 0
    s[st.J_COUNT + last] = 0
    f[st.J_VALUE + last] = 0.0
    if held:
        _while_held(s, q, joker, -1, count)


@kernel
def set_debuffed(s: Any, q: Any, at: Any, debuffed: Any) -> None:
    """Debuffs a joker or lifts it, with what it changes while held."""
    is_now = (s[st.J_STICKERS + at] & st.DEBUFFED) != 0
    if is_now == debuffed:
        return
    if debuffed:
        s[st.J_STICKERS + at] |= st.DEBUFFED
        _while_held(s, q, s[st.JOKER + at], -1, s[st.J_COUNT + at])
    else:
        s[st.J_STICKERS + at] &= ~st.DEBUFFED
        _while_held(s, q, s[st.JOKER + at], 1, s[st.J_COUNT + at])


@entry
def swap_jokers(s: Any, f: Any, a: Any, b: Any) -> None:
    """Two jokers change places."""
    for base in (st.JOKER, st.J_EDITION, st.J_STICKERS, st.J_EXTRA, st.J_PERISH, st.J_COUNT):
        kept = s[base + a]
        s[base + a] = s[base + b]
        s[base + b] = kept
    value = f[st.J_VALUE + a]
    f[st.J_VALUE + a] = f[st.J_VALUE + b]
    f[st.J_VALUE + b] = value


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
