"""Booster packs: what is in one, taking from it, and leaving it."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards, chance, pools
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import refresh_debuffs
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import draw, hand_limit
from ludus.games.balatro.facts import BOOSTER_CARDS, BOOSTER_KIND, BOOSTER_PICKS, HAND_PLANET
from ludus.games.balatro.joker_hands import cards_added
from ludus.games.balatro.lineup import acting, consumable_room, luck


@kernel
def _telescope_planet(s: Any) -> Any:
    """The planet of the hand played most, the higher of equals; 0 before any hand was played."""
    most = -1
    for hand in range(st.N_HANDS):
        if s[st.PLAYED + hand] > 0 and (most < 0 or s[st.PLAYED + hand] >= s[st.PLAYED + most]):
            most = hand
    return HAND_PLANET[most] if most >= 0 else 0


@kernel
def _arcana(s: Any) -> Any:
    if s[st.VOUCHER + nm.V_OMEN_GLOBE] and chance.uniform(s) > 0.8:
        return _spectral(s)
    soul = pools.pack_soul(s)
    return soul if soul else pools.new_tarot(s)


@kernel
def _celestial(s: Any, first: Any) -> Any:
    if first and s[st.VOUCHER + nm.V_TELESCOPE]:
        planet = _telescope_planet(s)
        if planet > 0:
            return planet
    hole = pools.pack_black_hole(s)
    return hole if hole else pools.new_planet(s)


@kernel
def _spectral(s: Any) -> Any:
    soul, hole = pools.pack_soul(s), pools.pack_black_hole(s)
    if hole:
        return hole
    return soul if soul else pools.new_spectral(s)


@kernel
def _standard(s: Any, q: Any) -> Any:
    """A playing card, in 2 of 5 enhanced, with twice the usual editions and in 1 of 5 a seal."""
    card = chance.given(q, chance.GIVEN_PACK_CARD)
    if card > 0:
        return card
    card = pools.random_card(s, chance.uniform(s) > 0.6)
    card = cards.with_edition(card, pools.new_edition(s, 2.0, False))
    if chance.uniform(s) > 0.8:
        card = cards.with_seal(card, pools.random_seal(s))
    return card


@kernel
def _fill(s: Any, q: Any, kind: Any, k: Any) -> None:
    """Puts an item into place k of the pack."""
    item = chance.given(q, chance.GIVEN_PACK)
    if kind == nm.STANDARD:
        s[st.PACK_CARD + k] = _standard(s, q)
        s[st.PACK + k] = nm.PLAYING_CARD
        return
    if item <= 0:
        if kind == nm.ARCANA:
            item = _arcana(s)
        elif kind == nm.CELESTIAL:
            item = _celestial(s, k == 0)
        elif kind == nm.SPECTRAL:
            item = _spectral(s)
        else:
            item = pools.new_joker(s, 0)
    if kind == nm.BUFFOON:
        edition = chance.given(q, chance.GIVEN_PACK_EDITION)
        s[st.PACK_EDITION + k] = edition if edition >= 0 else pools.new_edition(s, 1.0, True)
        s[st.PACK_STICKERS + k] = pools.new_stickers(s, item)
    s[st.PACK + k] = item


@kernel
def open_pack(s: Any, q: Any, booster: Any, back: Any) -> None:
    """Opens a booster; when it is done with, the game is in phase `back` again."""
    kind = BOOSTER_KIND[booster]
    s[st.PACK_KIND] = kind
    s[st.PACK_PICKS] = BOOSTER_PICKS[booster]
    s[st.PACK_BACK] = back
    clear_pack(s)
    for k in range(min(BOOSTER_CARDS[booster], st.PACK_SLOTS)):
        _fill(s, q, kind, k)
    for i in range(s[st.N_JOKERS]):
        at = acting(s, i)
        if (
            at >= 0
            and s[st.JOKER + at] == nm.J_HALLUCINATION
            and consumable_room(s) > 0
            and chance.happens(s, q, luck(s), 2)
        ):
            pools.create_tarot(s, q)
    if kind in (nm.ARCANA, nm.SPECTRAL):
        cards.collect_cards(s)
        draw(s, q, hand_limit(s))
    s[st.PHASE] = nm.OPENING_PACK


@kernel
def clear_pack(s: Any) -> None:
    for k in range(st.PACK_SLOTS):
        s[st.PACK + k] = 0
        s[st.PACK_EDITION + k] = 0
        s[st.PACK_STICKERS + k] = 0
        s[st.PACK_CARD + k] = 0


@kernel
def add_to_deck(s: Any, f: Any, card: Any) -> Any:
    """A playing card joins the deck; False when its record is full."""
    place = cards.new_card(s, card)
    if place < 0:
        return False
    cards.to_draw_pile(s, place)
    cards_added(s, f, 1)
    refresh_debuffs(s)
    return True


@kernel
def picked(s: Any, k: Any) -> Any:
    """The item in place k was taken; whether the pack is done with."""
    s[st.PACK + k] = 0
    s[st.PACK_PICKS] -= 1
    left = 0
    for i in range(st.PACK_SLOTS):
        if s[st.PACK + i] != 0:
            left += 1
    return s[st.PACK_PICKS] <= 0 or left == 0


@kernel
def close_pack(s: Any) -> None:
    """Puts the rest and the hand away."""
    clear_pack(s)
    cards.collect_cards(s)
    s[st.PHASE] = s[st.PACK_BACK]


@kernel
def skip_pack(s: Any, f: Any) -> None:
    """Leaves the pack without taking what is left: Red Card grows."""
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_RED_CARD and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 3.0
    close_pack(s)
