"""Tags: the tags of blinds, and when each held tag takes effect."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.chance import GIVEN_TAG, below_again, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import JOKER_RARITY, RARES, TAG_MIN_ANTE
from ludus.games.balatro.jokers import create_joker, random_hand_type
from ludus.games.balatro.packs import open_pack
from ludus.games.balatro.pools import new_joker

# the packs that tags open: positions in the boosters of facts.json, counted from 1
_MEGA_ARCANA, _MEGA_CELESTIAL, _MEGA_STANDARD, _MEGA_BUFFOON, _SPECTRAL = 7, 15, 23, 28, 29


@kernel
def _append(s: Any, tag: Any, hand: Any) -> None:
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
    """Gain a tag. Each held Double Tag adds a copy of it and is used up."""
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
        _append(s, tag, hand)


@kernel
def use_up(s: Any, tag: Any) -> Any:
    """Remove one tag of a kind; return whether there was one."""
    for i in range(s[st.N_TAGS]):
        if s[st.TAG + i] == tag:
            _drop(s, i)
            return True
    return False


@kernel
def choose_tags(s: Any, queue: Any) -> None:
    """Choose the tags for skipping the small and the big blind of this ante."""
    for k in range(2):
        attempt = 0
        tag = given(queue, GIVEN_TAG)
        while tag <= 0:
            attempt += 1
            drawn = 1 + below_again(s, streams.TAG, attempt, 24)
            if TAG_MIN_ANTE[drawn] <= s[st.ANTE]:
                tag = drawn
        s[st.BLIND_TAG + k] = tag
        s[st.BLIND_TAG_HAND + k] = (
            random_hand_type(s, queue, streams.ORBITAL, -1) if tag == nm.TAG_ORBITAL else 0
        )


@kernel
def _at_once(s: Any, f: Any, queue: Any, tag: Any, hand: Any) -> Any:
    """Apply a tag that acts when it is gained; return whether it is such a tag."""
    if tag == nm.TAG_HANDY:
        s[st.MONEY] += s[st.HANDS_PLAYED]
    elif tag == nm.TAG_GARBAGE:
        s[st.MONEY] += s[st.UNUSED_DISCARDS]
    elif tag == nm.TAG_TOP_UP:
        create_joker(s, f, queue, streams.FROM_TOP_UP_TAG, 1)
        create_joker(s, f, queue, streams.FROM_TOP_UP_TAG, 1)
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
def tags_at_once(s: Any, f: Any, queue: Any) -> None:
    i = 0
    while i < s[st.N_TAGS]:
        if _at_once(s, f, queue, s[st.TAG + i], s[st.TAG_HAND + i]):
            _drop(s, i)
        else:
            i += 1


@kernel
def tags_at_blind_choice(s: Any, queue: Any) -> None:
    """Apply the oldest tag that opens a pack or rerolls the boss; only one pack is opened at a time."""
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
            choose_boss(s, queue)
        elif booster > 0:
            _drop(s, i)
            open_pack(s, queue, booster, nm.CHOOSING_BLIND)
            return
        else:
            i += 1


@kernel
def tags_at_round(s: Any) -> None:
    """Apply Juggle Tags: a larger hand for the round that begins."""
    while use_up(s, nm.TAG_JUGGLE):
        s[st.ROUND_HAND_SIZE] += 3


@kernel
def tags_at_cash_out(s: Any, after_boss: Any) -> Any:
    """Return the pay of Investment Tags after a boss was beaten."""
    pay = 0
    while after_boss and use_up(s, nm.TAG_INVESTMENT):
        pay += 25
    return pay


@kernel
def tags_at_shop(s: Any) -> Any:
    """Apply D6 Tags (rerolls start at $0); return how many vouchers Voucher Tags add."""
    if use_up(s, nm.TAG_D_SIX):
        s[st.D6] = 1
    vouchers = 0
    while use_up(s, nm.TAG_VOUCHER):
        vouchers += 1
    return vouchers


@kernel
def tags_make_all_free(s: Any) -> Any:
    """Use a Coupon Tag, which makes the initial items of the shop free; return whether there was one."""
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
    """Return the free joker that an Uncommon or Rare Tag puts into the shop, and the event; 0 without such a tag."""
    for i in range(s[st.N_TAGS]):
        if s[st.TAG + i] == nm.TAG_UNCOMMON:
            _drop(s, i)
            return new_joker(s, streams.FROM_UNCOMMON_TAG, 2), streams.FROM_UNCOMMON_TAG
        if s[st.TAG + i] == nm.TAG_RARE:
            _drop(s, i)
            if _rares_held(s) < len(RARES):
                return new_joker(s, streams.FROM_RARE_TAG, 3), streams.FROM_RARE_TAG
            return 0, streams.FROM_SHOP
    return 0, streams.FROM_SHOP


@kernel
def tag_marks_joker(s: Any) -> Any:
    """Return the edition that a tag gives to a plain joker of the shop, which becomes free; 0 without such a tag."""
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
