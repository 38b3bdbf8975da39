"""Adding, copying and removing jokers: their starting values and their effects while held."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.chance import GIVEN_EDITION, GIVEN_HAND, GIVEN_ITEM, below, given
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import HAND_TABLE_ORDER
from ludus.games.balatro.lineup import joker_room, new_age
from ludus.games.balatro.pools import new_edition, new_joker

PERISH_ROUNDS = 5


@kernel
def change_discards(s: Any, by: Any) -> None:
    """Change the discards left in this round, never below 0."""
    s[st.DISCARDS_LEFT] = max(0, s[st.DISCARDS_LEFT] + by)


@kernel
def _apply_while_held(s: Any, queue: Any, joker: Any, sign: Any, count: Any) -> None:
    """Apply the effect of holding a joker; `sign` is 1 when it is added and -1 when it is removed or debuffed."""
    if joker == nm.J_JUGGLER:
        change_hand_size(s, queue, sign)
    elif joker == nm.J_TROUBADOUR:
        change_hand_size(s, queue, 2 * sign)
        s[st.HANDS_PER_ROUND] -= sign
    elif joker == nm.J_TURTLE_BEAN:
        change_hand_size(s, queue, sign * count)
    elif joker == nm.J_STUNTMAN:
        change_hand_size(s, queue, -2 * sign)
    elif joker == nm.J_MERRY_ANDY:
        change_hand_size(s, queue, -sign)
        s[st.DISCARDS_PER_ROUND] += 3 * sign
        change_discards(s, 3 * sign)
    elif joker == nm.J_DRUNKARD:
        s[st.DISCARDS_PER_ROUND] += sign
        change_discards(s, sign)
    elif joker == nm.J_CHAOS:
        s[st.FREE_REROLLS] = max(0, s[st.FREE_REROLLS] + sign)


@kernel
def random_hand_type(s: Any, queue: Any, stream: Any, other_than: Any) -> Any:
    """Return a random known poker hand. The three secret hands are known once they were played."""
    hand = given(queue, GIVEN_HAND)
    if hand >= 0:
        return hand
    known = 0
    for hand in range(st.N_HANDS):
        if _may_be_named(s, hand, other_than):
            known += 1
    wanted = below(s, stream, known)
    for hand in HAND_TABLE_ORDER:
        if _may_be_named(s, hand, other_than):
            if wanted == 0:
                return hand
            wanted -= 1
    return nm.HIGH_CARD


@kernel
def _may_be_named(s: Any, hand: Any, other_than: Any) -> Any:
    return hand != other_than and (hand < 9 or s[st.PLAYED + hand] > 0)


@entry
def add_joker(s: Any, f: Any, queue: Any, joker: Any, edition: Any, stickers: Any) -> Any:
    """Add a joker at the right end and return its position; -1 if all MAX_JOKERS slots are used."""
    at = s[st.N_JOKERS]
    if at >= st.MAX_JOKERS:
        return -1
    s[st.N_JOKERS] += 1
    s[st.JOKER + at] = joker
    s[st.J_EDITION + at] = edition
    s[st.J_STICKERS + at] = stickers
    s[st.J_EXTRA + at] = 0
    s[st.J_AGE + at] = new_age(s)
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
        count = random_hand_type(s, queue, streams.TO_DO, -1)
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
    _apply_while_held(s, queue, joker, 1, count)
    return at


@kernel
def _copy_place(s: Any, f: Any, to: Any, source: Any) -> None:
    s[st.JOKER + to] = s[st.JOKER + source]
    s[st.J_EDITION + to] = s[st.J_EDITION + source]
    s[st.J_STICKERS + to] = s[st.J_STICKERS + source]
    s[st.J_EXTRA + to] = s[st.J_EXTRA + source]
    s[st.J_AGE + to] = s[st.J_AGE + source]
    s[st.J_PERISH + to] = s[st.J_PERISH + source]
    s[st.J_COUNT + to] = s[st.J_COUNT + source]
    f[st.J_VALUE + to] = f[st.J_VALUE + source]


@kernel
def duplicate_joker(s: Any, f: Any, queue: Any, source: Any, keep_negative: Any) -> Any:
    """Add a copy of a joker, with all its values, at the right end; return its position, -1 if all slots are used."""
    at = s[st.N_JOKERS]
    if at >= st.MAX_JOKERS:
        return -1
    s[st.N_JOKERS] += 1
    _copy_place(s, f, at, source)
    s[st.J_AGE + at] = new_age(s)
    if s[st.J_EDITION + at] == 4 and not keep_negative:
        s[st.J_EDITION + at] = 0
    if not s[st.J_STICKERS + at] & st.DEBUFFED:
        _apply_while_held(s, queue, s[st.JOKER + at], 1, s[st.J_COUNT + at])
    return at


@kernel
def remove_joker(s: Any, f: Any, queue: Any, at: Any) -> None:
    """Remove a joker and undo the effects of holding it."""
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
    s[st.J_AGE + last] = 0
    s[st.J_PERISH + last] = 0
    s[st.J_COUNT + last] = 0
    f[st.J_VALUE + last] = 0.0
    if held:
        _apply_while_held(s, queue, joker, -1, count)


@kernel
def set_debuffed(s: Any, queue: Any, at: Any, debuffed: Any) -> None:
    """Set or clear the debuff of a joker, together with the effects of holding it."""
    is_now = (s[st.J_STICKERS + at] & st.DEBUFFED) != 0
    if is_now == debuffed:
        return
    if debuffed:
        s[st.J_STICKERS + at] |= st.DEBUFFED
        _apply_while_held(s, queue, s[st.JOKER + at], -1, s[st.J_COUNT + at])
    else:
        s[st.J_STICKERS + at] &= ~st.DEBUFFED
        _apply_while_held(s, queue, s[st.JOKER + at], 1, s[st.J_COUNT + at])


@entry
def swap_jokers(s: Any, f: Any, a: Any, b: Any) -> None:
    """Swap two jokers."""
    for base in (st.JOKER, st.J_EDITION, st.J_STICKERS, st.J_EXTRA, st.J_PERISH, st.J_COUNT, st.J_AGE):
        kept = s[base + a]
        s[base + a] = s[base + b]
        s[base + b] = kept
    value = f[st.J_VALUE + a]
    f[st.J_VALUE + a] = f[st.J_VALUE + b]
    f[st.J_VALUE + b] = value


@kernel
def create_joker(s: Any, f: Any, queue: Any, event: Any, rarity: Any) -> Any:
    """Create a joker by an event of `streams`, if there is room; return its position or -1."""
    if joker_room(s) <= 0:
        return -1
    item = given(queue, GIVEN_ITEM)
    joker = item if item > 0 else new_joker(s, event, rarity)
    edition = given(queue, GIVEN_EDITION)
    if edition < 0:
        edition = new_edition(s, streams.EDITION_STREAM[event], 1.0, True)
    return add_joker(s, f, queue, joker, edition, 0)
