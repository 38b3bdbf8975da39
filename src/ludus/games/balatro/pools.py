"""Where new items come from: jokers by rarity, tarots, planets, spectrals, editions, stickers, playing cards.

An item that is held or shown somewhere is not offered again (unless Showman is held), so the tables are drawn from
until something available comes up, as the game does.
"""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import facts
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import count_enhancement, make_card
from ludus.games.balatro.chance import GIVEN_ITEM, below, given, uniform
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import add_consumable, consumable_room, count_joker

_TRIES = 300


@kernel
def available(s: Any, item: Any) -> Any:
    """Whether an item may be offered: it is nowhere in the game, or Showman is held."""
    if count_joker(s, nm.J_RING_MASTER) > 0:
        return True
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == item:
            return False
    for i in range(s[st.N_CONSUMABLES]):
        if s[st.CONSUMABLE + i] == item:
            return False
    for i in range(st.SHOP_SLOTS):
        if s[st.SHOP + i] == item:
            return False
    for i in range(st.PACK_SLOTS):
        if s[st.PACK + i] == item:
            return False
    return s[st.WAITING] != item


@kernel
def joker_in_pool(s: Any, joker: Any) -> Any:
    """Whether the rules of the run let this joker appear at all."""
    if joker == nm.J_GROS_MICHEL and s[st.GROS_MICHEL_GONE]:
        return False
    if joker == nm.J_CAVENDISH and not s[st.GROS_MICHEL_GONE]:
        return False
    gate = facts.ENHANCEMENT_GATE[joker]
    return gate == 0 or count_enhancement(s, gate) > 0


@kernel
def new_joker(s: Any, rarity: Any) -> Any:
    """A joker of a rarity from 1 (common) to 4 (legendary); 0 lets chance decide between the first three."""
    if rarity == 0:
        poll = uniform(s)
        rarity = 3 if poll > 0.95 else (2 if poll > 0.7 else 1)
    for _ in range(_TRIES):
        if rarity == 1:
            joker = facts.COMMONS[below(s, len(facts.COMMONS))]
        elif rarity == 2:
            joker = facts.UNCOMMONS[below(s, len(facts.UNCOMMONS))]
        elif rarity == 3:
            joker = facts.RARES[below(s, len(facts.RARES))]
        else:
            joker = facts.LEGENDARIES[below(s, len(facts.LEGENDARIES))]
        if available(s, joker) and joker_in_pool(s, joker):
            return joker
    return nm.J_JOKER


@kernel
def new_tarot(s: Any) -> Any:
    for _ in range(_TRIES):
        item = nm.C_FOOL + below(s, 22)
        if available(s, item):
            return item
    return nm.C_STRENGTH


@kernel
def new_planet(s: Any) -> Any:
    """A planet; those of the three secret hands only once their hand was played."""
    for _ in range(_TRIES):
        item = nm.C_MERCURY + below(s, 12)
        if item >= nm.C_PLANET_X and s[st.PLAYED + facts.PLANET_HAND[item - nm.C_MERCURY]] == 0:
            continue
        if available(s, item):
            return item
    return nm.C_PLUTO


@kernel
def new_spectral(s: Any) -> Any:
    """A spectral other than The Soul and Black Hole, which only packs hold."""
    for _ in range(_TRIES):
        item = nm.C_FAMILIAR + below(s, 16)
        if available(s, item):
            return item
    return nm.C_INCANTATION


@kernel
def create_tarot(s: Any, q: Any) -> Any:
    """An effect makes a tarot, if there is room; whether it did."""
    if consumable_room(s) <= 0:
        return False
    item = given(q, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_tarot(s), nm.BASE)


@kernel
def create_planet(s: Any, q: Any) -> Any:
    """An effect makes a planet, if there is room; whether it did."""
    if consumable_room(s) <= 0:
        return False
    item = given(q, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_planet(s), nm.BASE)


@kernel
def create_spectral(s: Any, q: Any) -> Any:
    """An effect makes a spectral, if there is room; whether it did."""
    if consumable_room(s) <= 0:
        return False
    item = given(q, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_spectral(s), nm.BASE)


@kernel
def pack_soul(s: Any) -> Any:
    """The Soul, in 3 of 1,000 tarots and spectrals of a pack; 0 otherwise."""
    return nm.C_SOUL if uniform(s) > 0.997 and available(s, nm.C_SOUL) else 0


@kernel
def pack_black_hole(s: Any) -> Any:
    """Black Hole, in 3 of 1,000 planets and spectrals of a pack; 0 otherwise."""
    return nm.C_BLACK_HOLE if uniform(s) > 0.997 and available(s, nm.C_BLACK_HOLE) else 0


@kernel
def new_edition(s: Any, factor: Any, negative_too: Any) -> Any:
    """An edition at the odds of shops and packs; Hone and Glow Up multiply all but Negative."""
    poll = uniform(s)
    rate = factor * (4.0 if s[st.VOUCHER + nm.V_GLOW_UP] else (2.0 if s[st.VOUCHER + nm.V_HONE] else 1.0))
    if negative_too and poll > 1 - 0.003 * factor:
        return nm.NEGATIVE
    if poll > 1 - 0.006 * rate:
        return nm.POLYCHROME
    if poll > 1 - 0.02 * rate:
        return nm.HOLOGRAPHIC
    if poll > 1 - 0.04 * rate:
        return nm.FOIL
    return nm.BASE


@kernel
def sure_edition(s: Any) -> Any:
    """Foil, Holographic or Polychrome at 50, 35 and 15 %: Wheel of Fortune and Aura."""
    poll = uniform(s)
    if poll > 0.85:
        return nm.POLYCHROME
    return nm.HOLOGRAPHIC if poll > 0.5 else nm.FOIL


@kernel
def new_stickers(s: Any, joker: Any) -> Any:
    """Eternal, Perishable and Rental at the odds of the stake, for a joker in a shop or pack."""
    stickers = 0
    if s[st.STAKE] < 4:
        return stickers
    poll = uniform(s)
    if poll > 0.7:
        if facts.ETERNAL_OK[joker]:
            stickers |= st.ETERNAL
    elif s[st.STAKE] >= 7 and poll > 0.4 and facts.PERISHABLE_OK[joker]:
        stickers |= st.PERISHABLE
    if s[st.STAKE] >= 8 and uniform(s) > 0.7:
        stickers |= st.RENTAL
    return stickers


@kernel
def random_seal(s: Any) -> Any:
    return 1 + below(s, 4)


@kernel
def random_card(s: Any, enhanced: Any) -> Any:
    """A playing card of any rank and suit, with any of the eight enhancements if asked."""
    enhancement = 1 + below(s, 8) if enhanced else 0
    return make_card(2 + below(s, 13), below(s, 4), enhancement, 0, 0)
