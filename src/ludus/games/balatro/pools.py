"""Sources of new items: jokers by rarity, tarots, planets, spectrals, editions, stickers, playing cards.

An item that is held or on offer is not offered again (unless Showman is held). As in the game, items are drawn until an
available one is found.
"""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import facts, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import count_enhancement
from ludus.games.balatro.chance import GIVEN_ITEM, below, below_again, given, uniform
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import add_consumable, consumable_room, count_joker

_TRIES = 300
_POOL_SIZE = np.array(
    [0, len(facts.COMMONS), len(facts.UNCOMMONS), len(facts.RARES), len(facts.LEGENDARIES)], dtype=np.int64
)


@kernel
def available(s: Any, item: Any) -> Any:
    """Return whether an item may be offered: it is nowhere in the game, or Showman is held."""
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
    """Return whether the rules of the run allow this joker to appear."""
    if joker == nm.J_GROS_MICHEL and s[st.GROS_MICHEL_GONE]:
        return False
    if joker == nm.J_CAVENDISH and not s[st.GROS_MICHEL_GONE]:
        return False
    gate = facts.ENHANCEMENT_GATE[joker]
    return gate == 0 or count_enhancement(s, gate) > 0


@kernel
def _joker_of(rarity: Any, index: Any) -> Any:
    if rarity == 1:
        return facts.COMMONS[index]
    if rarity == 2:
        return facts.UNCOMMONS[index]
    if rarity == 3:
        return facts.RARES[index]
    return facts.LEGENDARIES[index]


@kernel
def new_joker(s: Any, event: Any, rarity: Any) -> Any:
    """Draw a joker of a rarity from 1 (common) to 4 (legendary); 0 draws the rarity as the event does."""
    if rarity == 0:
        poll = uniform(s, streams.RARITY_STREAM[event])
        rarity = 3 if poll > 0.95 else (2 if poll > 0.7 else 1)
    stream = streams.JOKER_STREAM[event, rarity]
    size = _POOL_SIZE[rarity]
    for attempt in range(1, _TRIES):
        joker = _joker_of(rarity, below_again(s, stream, attempt, size))
        if available(s, joker) and joker_in_pool(s, joker):
            return joker
        if rarity == 4 and attempt == 1 and _no_legendary_left(s):
            return nm.J_JOKER
    return nm.J_JOKER


@kernel
def _no_legendary_left(s: Any) -> Any:
    for joker in facts.LEGENDARIES:
        if available(s, joker):
            return False
    return True


@kernel
def new_tarot(s: Any, stream: Any) -> Any:
    """Draw an available tarot."""
    for attempt in range(1, _TRIES):
        item = nm.C_FOOL + below_again(s, stream, attempt, 22)
        if available(s, item):
            return item
    return nm.C_STRENGTH


@kernel
def new_planet(s: Any, stream: Any) -> Any:
    """Draw an available planet; those of the three secret hands only once their hand was played."""
    for attempt in range(1, _TRIES):
        item = nm.C_MERCURY + below_again(s, stream, attempt, 12)
        if item >= nm.C_PLANET_X and s[st.PLAYED + facts.PLANET_HAND[item - nm.C_MERCURY]] == 0:
            continue
        if available(s, item):
            return item
    return nm.C_PLUTO


@kernel
def new_spectral(s: Any, stream: Any) -> Any:
    """Draw an available spectral. The Soul and Black Hole have their places in the list but come in packs only."""
    for attempt in range(1, _TRIES):
        item = nm.C_FAMILIAR + below_again(s, stream, attempt, 18)
        if item not in (nm.C_SOUL, nm.C_BLACK_HOLE) and available(s, item):
            return item
    return nm.C_INCANTATION


@kernel
def create_tarot(s: Any, queue: Any, stream: Any) -> Any:
    """Create a tarot by an effect, if there is room; return whether it was created."""
    if consumable_room(s) <= 0:
        return False
    item = given(queue, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_tarot(s, stream), nm.BASE)


@kernel
def create_planet(s: Any, queue: Any, stream: Any) -> Any:
    """Create a planet by an effect, if there is room; return whether it was created."""
    if consumable_room(s) <= 0:
        return False
    item = given(queue, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_planet(s, stream), nm.BASE)


@kernel
def create_spectral(s: Any, queue: Any, stream: Any) -> Any:
    """Create a spectral by an effect, if there is room; return whether it was created."""
    if consumable_room(s) <= 0:
        return False
    item = given(queue, GIVEN_ITEM)
    return add_consumable(s, item if item > 0 else new_spectral(s, stream), nm.BASE)


@kernel
def pack_soul(s: Any, stream: Any) -> Any:
    """Draw whether a tarot or spectral of a pack is The Soul (3 in 1,000); return it or 0."""
    return nm.C_SOUL if available(s, nm.C_SOUL) and uniform(s, stream) > 0.997 else 0


@kernel
def pack_black_hole(s: Any, stream: Any) -> Any:
    """Draw whether a planet or spectral of a pack is Black Hole (3 in 1,000); return it or 0."""
    return nm.C_BLACK_HOLE if available(s, nm.C_BLACK_HOLE) and uniform(s, stream) > 0.997 else 0


@kernel
def new_edition(s: Any, stream: Any, factor: Any, negative_too: Any) -> Any:
    """Return an edition at the odds of shops and packs; Hone and Glow Up multiply all except Negative."""
    poll = uniform(s, stream)
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
def sure_edition(s: Any, stream: Any) -> Any:
    """Return Foil, Holographic or Polychrome at 50, 35 and 15 %, for Wheel of Fortune and Aura."""
    poll = uniform(s, stream)
    if poll > 0.85:
        return nm.POLYCHROME
    return nm.HOLOGRAPHIC if poll > 0.5 else nm.FOIL


@kernel
def new_stickers(s: Any, joker: Any, in_pack: Any) -> Any:
    """Draw Eternal, Perishable and Rental at the odds of the stake, for a joker in a shop or pack."""
    stickers = 0
    if s[st.STAKE] < 4:  # the game draws here too, from streams that nothing else uses
        return stickers
    poll = uniform(s, streams.PACKETPER if in_pack else streams.ETPERPOLL)
    if poll > 0.7:
        if facts.ETERNAL_OK[joker]:
            stickers |= st.ETERNAL
    elif s[st.STAKE] >= 7 and poll > 0.4 and facts.PERISHABLE_OK[joker]:
        stickers |= st.PERISHABLE
    if s[st.STAKE] >= 8 and uniform(s, streams.PACKSSJR if in_pack else streams.SSJR) > 0.7:
        stickers |= st.RENTAL
    return stickers


@kernel
def random_seal(s: Any, stream: Any) -> Any:
    """Draw one of the four seals."""
    poll = uniform(s, stream)
    if poll > 0.75:
        return nm.RED_SEAL
    if poll > 0.5:
        return nm.BLUE_SEAL
    return nm.GOLD_SEAL if poll > 0.25 else nm.PURPLE_SEAL


@kernel
def random_card(s: Any, stream: Any) -> Any:
    """Draw a playing card of any rank and suit."""
    return facts.CARD_ORDER[below(s, stream, 52)]
