"""Tags: which come with blinds, and when each of those held is used up."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.chance import GIVEN_TAG, below, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import JOKER_RARITY, RARES, TAG_MIN_ANTE
from ludus.games.balatro.jokers import create_joker, random_hand_type
from ludus.games.balatro.names import (
    CHOOSING_BLIND,
    FOIL,
    HOLOGRAPHIC,
    NEGATIVE,
    POLYCHROME,
    TAG_BOSS,
    TAG_BUFFOON,
    TAG_CHARM,
    TAG_COUPON,
    TAG_D_SIX,
    TAG_DOUBLE,
    TAG_ECONOMY,
    TAG_ETHEREAL,
    TAG_FOIL,
    TAG_GARBAGE,
    TAG_HANDY,
    TAG_HOLO,
    TAG_INVESTMENT,
    TAG_JUGGLE,
    TAG_METEOR,
    TAG_NEGATIVE,
    TAG_ORBITAL,
    TAG_POLYCHROME,
    TAG_RARE,
    TAG_SKIP,
    TAG_STANDARD,
    TAG_TOP_UP,
    TAG_UNCOMMON,
    TAG_VOUCHER,
)
from ludus.games.balatro.packs import open_pack
from ludus.games.balatro.pools import new_joker
from ludus.games.balatro.state import (
    ANTE,
    BLIND_TAG,
    BLIND_TAG_HAND,
    BOSS_REROLLED,
    D6,
    HANDS_PLAYED,
    JOKER,
    LEVEL,
    MAX_TAGS,
    MONEY,
    N_JOKERS,
    N_TAGS,
    ROUND_HAND_SIZE,
    SKIPS,
    TAG,
    TAG_HAND,
    UNUSED_DISCARDS,
)

# the packs that tags open: boosters counted from 1 in the order of facts.json
_MEGA_ARCANA, _MEGA_CELESTIAL, _MEGA_STANDARD, _MEGA_BUFFOON, _SPECTRAL = 7, 15, 23, 28, 29


@kernel
def _hold(s: Any, tag: Any, hand: Any) -> None:
    if s[N_TAGS] < MAX_TAGS:
        s[TAG + s[N_TAGS]] = tag
        s[TAG_HAND + s[N_TAGS]] = hand
        s[N_TAGS] += 1


@kernel
def _drop(s: Any, at: Any) -> None:
    for i in range(at, s[N_TAGS] - 1):
        s[TAG + i] = s[TAG + i + 1]
        s[TAG_HAND + i] = s[TAG_HAND + i + 1]
    s[N_TAGS] -= 1
    s[TAG + s[N_TAGS]] = 0
    s[TAG_HAND + s[N_TAGS]] = 0


@kernel
def add_tag(s: Any, tag: Any, hand: Any) -> None:
    """A tag is gained; each Double Tag held makes one more of it and is gone."""
    copies = 1
    if tag != TAG_DOUBLE:
        i = 0
        while i < s[N_TAGS]:
            if s[TAG + i] == TAG_DOUBLE:
                _drop(s, i)
                copies += 1
            else:
                i += 1
    for _ in range(copies):
        _hold(s, tag, hand)


@kernel
def use_up(s: Any, tag: Any) -> Any:
    """Takes one tag of a kind; whether there was one."""
    for i in range(s[N_TAGS]):
        if s[TAG + i] == tag:
            _drop(s, i)
            return True
    return False


@kernel
def choose_tags(s: Any, q: Any) -> None:
    """The tags that skipping the small and the big blind of this ante gives."""
    for k in range(2):
        tag = given(q, GIVEN_TAG)
        while tag <= 0:
            drawn = 1 + below(s, 24)
            if TAG_MIN_ANTE[drawn] <= s[ANTE]:
                tag = drawn
        s[BLIND_TAG + k] = tag
        s[BLIND_TAG_HAND + k] = random_hand_type(s, q, -1) if tag == TAG_ORBITAL else 0


@kernel
def _at_once(s: Any, f: Any, q: Any, tag: Any, hand: Any) -> Any:
    """Tags that act the moment they are gained; whether this is one."""
    if tag == TAG_HANDY:
        s[MONEY] += s[HANDS_PLAYED]
    elif tag == TAG_GARBAGE:
        s[MONEY] += s[UNUSED_DISCARDS]
    elif tag == TAG_TOP_UP:
        create_joker(s, f, q, 1)
        create_joker(s, f, q, 1)
    elif tag == TAG_SKIP:
        s[MONEY] += 5 * s[SKIPS]
    elif tag == TAG_ORBITAL:
        s[LEVEL + hand] += 3
    elif tag == TAG_ECONOMY:
        s[MONEY] += min(40, max(0, s[MONEY]))
    else:
        return False
    return True


@kernel
def tags_at_once(s: Any, f: Any, q: Any) -> None:
    i = 0
    while i < s[N_TAGS]:
        if _at_once(s, f, q, s[TAG + i], s[TAG_HAND + i]):
            _drop(s, i)
        else:
            i += 1


@kernel
def tags_at_blind_choice(s: Any, q: Any) -> None:
    """The oldest tag that opens a pack or rerolls the boss; packs come one at a time."""
    i = 0
    while i < s[N_TAGS]:
        tag = s[TAG + i]
        booster = 0
        if tag == TAG_CHARM:
            booster = _MEGA_ARCANA
        elif tag == TAG_METEOR:
            booster = _MEGA_CELESTIAL
        elif tag == TAG_STANDARD:
            booster = _MEGA_STANDARD
        elif tag == TAG_BUFFOON:
            booster = _MEGA_BUFFOON
        elif tag == TAG_ETHEREAL:
            booster = _SPECTRAL
        if tag == TAG_BOSS:
            _drop(s, i)
            s[BOSS_REROLLED] = 1
            choose_boss(s, q)
        elif booster > 0:
            _drop(s, i)
            open_pack(s, q, booster, CHOOSING_BLIND)
            return
        else:
            i += 1


@kernel
def tags_at_round(s: Any) -> None:
    """Juggle Tags enlarge the hand for the round that begins."""
    while use_up(s, TAG_JUGGLE):
        s[ROUND_HAND_SIZE] += 3


@kernel
def tags_at_cash_out(s: Any, after_boss: Any) -> Any:
    """What Investment Tags pay once a boss is beaten."""
    pay = 0
    while after_boss and use_up(s, TAG_INVESTMENT):
        pay += 25
    return pay


@kernel
def tags_at_shop(s: Any) -> Any:
    """D6 makes rerolls start at $0; returns how many vouchers Voucher Tags add."""
    if use_up(s, TAG_D_SIX):
        s[D6] = 1
    vouchers = 0
    while use_up(s, TAG_VOUCHER):
        vouchers += 1
    return vouchers


@kernel
def tags_make_all_free(s: Any) -> Any:
    """Coupon Tag: what the shop opens with is free."""
    return use_up(s, TAG_COUPON)


@kernel
def _rares_held(s: Any) -> Any:
    count = 0
    for i in range(s[N_JOKERS]):
        if JOKER_RARITY[s[JOKER + i]] == 3:
            count += 1
    return count


@kernel
def tag_makes_joker(s: Any) -> Any:
    """The joker that an Uncommon or Rare Tag puts into the shop for nothing; 0 without such a tag."""
    for i in range(s[N_TAGS]):
        if s[TAG + i] == TAG_UNCOMMON:
            _drop(s, i)
            return new_joker(s, 2)
        if s[TAG + i] == TAG_RARE:
            _drop(s, i)
            if _rares_held(s) < len(RARES):
                return new_joker(s, 3)
            return 0
    return 0


@kernel
def tag_marks_joker(s: Any) -> Any:
    """The edition that a tag gives to a plain joker of the shop, which is free then; 0 without such a tag."""
    for i in range(s[N_TAGS]):
        edition = 0
        if s[TAG + i] == TAG_FOIL:
            edition = FOIL
        elif s[TAG + i] == TAG_HOLO:
            edition = HOLOGRAPHIC
        elif s[TAG + i] == TAG_POLYCHROME:
            edition = POLYCHROME
        elif s[TAG + i] == TAG_NEGATIVE:
            edition = NEGATIVE
        if edition > 0:
            _drop(s, i)
            return edition
    return 0
