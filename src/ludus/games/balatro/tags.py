"""Tags: which come with blinds, and when each of those held is used up."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.chance import GIVEN_TAG, below, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import JOKER_RARITY, RARES, TAG_MIN_ANTE
from ludus.games.balatro.jokers import create_joker, random_hand_type
from ludus.games.balatro.packs import open_pack
from ludus.games.balatro.pools import new_joker

# the packs that tags open: boosters counted from 1 in the order of facts.json
_MEGA_ARCANA, _MEGA_CELESTIAL, _MEGA_STANDARD, _MEGA_BUFFOON, _SPECTRAL = 7, 15, 23, 28, 29


@kernel
def _hold(s: Any, tag: Any, hand: Any) -> None:
    if s[st.N_TAGS] < st.MAX_TAGS:
        s[st.TAG + s[st.N_TAGS]] = tag
        s[st.TAG_HAND + s[st.N_TAGS]] = hand
        s[st.N_TAGS] += 1


@kernel
def _drop(s: Any, at: Any) -> None:
    for i in range(at, s[st.N_TAGS] - 1):
        s[st.TAG + i] = s[st.TAG + i + 1]
        s[st.TAG_HAND + i] = s[st.TAG_HAND + i + 1]
    s[st.N_TAGS] -= 1
    s[st.TAG + s[st.N_TAGS]] = 0
    s[st.TAG_HAND + s[st.N_TAGS]] = 0


@kernel
def add_tag(s: Any, tag: Any, hand: Any) -> None:
    """A tag is gained; each Double Tag held makes one more of it and is gone."""
    copies = 1
    if tag != nm.TAG_DOUBLE:
        i = 0
        while i < s[st.N_TAGS]:
            if s[st.TAG + i] == nm.TAG_DOUBLE:
                _drop(s, i)
                copies += 1
            else:
                i += 1
    for _ in range(copies):
        _hold(s, tag, hand)


@kernel
def use_up(s: Any, tag: Any) -> Any:
    """Takes one tag of a kind; whether there was one."""
    for i in range(s[st.N_TAGS]):
        if s[st.TAG + i] == tag:
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
            if TAG_MIN_ANTE[drawn] <= s[st.ANTE]:
                tag = drawn
        s[st.BLIND_TAG + k] = tag
        s[st.BLIND_TAG_HAND + k] = random_hand_type(s, q, -1) if tag == nm.TAG_ORBITAL else 0


@kernel
def _at_once(s: Any, f: Any, q: Any, tag: Any, hand: Any) -> Any:
    """Tags that act the moment they are gained; whether this is one."""
    if tag == nm.TAG_HANDY:
        s[st.MONEY] += s[st.HANDS_PLAYED]
    elif tag == nm.TAG_GARBAGE:
        s[st.MONEY] += s[st.UNUSED_DISCARDS]
    elif tag == nm.TAG_TOP_UP:
        create_joker(s, f, q, 1)
        create_joker(s, f, q, 1)
    elif tag == nm.TAG_SKIP:
        s[st.MONEY] += 5 * s[st.SKIPS]
    elif tag == nm.TAG_ORBITAL:
        s[st.LEVEL + hand] += 3
    elif tag == nm.TAG_ECONOMY:
        s[st.MONEY] += min(40, max(0, s[st.MONEY]))
    else:
        return False
    return True


@kernel
def tags_at_once(s: Any, f: Any, q: Any) -> None:
    i = 0
    while i < s[st.N_TAGS]:
        if _at_once(s, f, q, s[st.TAG + i], s[st.TAG_HAND + i]):
            _drop(s, i)
        else:
            i += 1


@kernel
def tags_at_blind_choice(s: Any, q: Any) -> None:
    """The oldest tag that opens a pack or rerolls the boss; packs come one at a time."""
    i = 0
    while i < s[st.N_TAGS]:
        tag = s[st.TAG + i]
        booster = 0
        if tag == nm.TAG_CHARM:
            booster = _MEGA_ARCANA
        elif tag == nm.TAG_METEOR:
            booster = _MEGA_CELESTIAL
        elif tag == nm.TAG_STANDARD:
            booster = _MEGA_STANDARD
        elif tag == nm.TAG_BUFFOON:
            booster = _MEGA_BUFFOON
        elif tag == nm.TAG_ETHEREAL:
            booster = _SPECTRAL
        if tag == nm.TAG_BOSS:
            _drop(s, i)
            s[st.BOSS_REROLLED] = 1
            choose_boss(s, q)
        elif booster > 0:
            _drop(s, i)
            open_pack(s, q, booster, nm.CHOOSING_BLIND)
            return
        else:
            i += 1


@kernel
def tags_at_round(s: Any) -> None:
    """Juggle Tags enlarge the hand for the round that begins."""
    while use_up(s, nm.TAG_JUGGLE):
        s[st.ROUND_HAND_SIZE] += 3


@kernel
def tags_at_cash_out(s: Any, after_boss: Any) -> Any:
    """What Investment Tags pay once a boss is beaten."""
    pay = 0
    while after_boss and use_up(s, nm.TAG_INVESTMENT):
        pay += 25
    return pay


@kernel
def tags_at_shop(s: Any) -> Any:
    """D6 makes rerolls start at $0; returns how many vouchers Voucher Tags add."""
    if use_up(s, nm.TAG_D_SIX):
        s[st.D6] = 1
    vouchers = 0
    while use_up(s, nm.TAG_VOUCHER):
        vouchers += 1
    return vouchers


@kernel
def tags_make_all_free(s: Any) -> Any:
    """Coupon Tag: what the shop opens with is free."""
    return use_up(s, nm.TAG_COUPON)


@kernel
def _rares_held(s: Any) -> Any:
    count = 0
    for i in range(s[st.N_JOKERS]):
        if JOKER_RARITY[s[st.JOKER + i]] == 3:
            count += 1
    return count


@kernel
def tag_makes_joker(s: Any) -> Any:
    """The joker that an Uncommon or Rare Tag puts into the shop for nothing; 0 without such a tag."""
    for i in range(s[st.N_TAGS]):
        if s[st.TAG + i] == nm.TAG_UNCOMMON:
            _drop(s, i)
            return new_joker(s, 2)
        if s[st.TAG + i] == nm.TAG_RARE:
            _drop(s, i)
            if _rares_held(s) < len(RARES):
                return new_joker(s, 3)
            return 0
    return 0


@kernel
def tag_marks_joker(s: Any) -> Any:
    """The edition that a tag gives to a plain joker of the shop, which is free then; 0 without such a tag."""
    for i in range(s[st.N_TAGS]):
        edition = 0
        if s[st.TAG + i] == nm.TAG_FOIL:
            edition = nm.FOIL
        elif s[st.TAG + i] == nm.TAG_HOLO:
            edition = nm.HOLOGRAPHIC
        elif s[st.TAG + i] == nm.TAG_POLYCHROME:
            edition = nm.POLYCHROME
        elif s[st.TAG + i] == nm.TAG_NEGATIVE:
            edition = nm.NEGATIVE
        if edition > 0:
            _drop(s, i)
            return edition
    return 0
