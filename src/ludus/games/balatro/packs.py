"""Booster packs: their contents, picking from them, and closing them."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards, chance, pools, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import refresh_debuffs
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import draw, hand_limit
from ludus.games.balatro.facts import BOOSTER_CARDS, BOOSTER_KIND, BOOSTER_PICKS, HAND_PLANET
from ludus.games.balatro.joker_hands import cards_added
from ludus.games.balatro.lineup import acting, consumable_room, luck, new_age


@kernel
def _telescope_planet(s: Any) -> Any:
    """Return the planet of the hand played most, the higher of equals; 0 if no hand was played yet."""
    most = -1
    for hand in range(st.N_HANDS):
        if s[st.PLAYED + hand] > 0 and (most < 0 or s[st.PLAYED + hand] >= s[st.PLAYED + most]):
            most = hand
    return HAND_PLANET[most] if most >= 0 else 0


@kernel
def _arcana(s: Any) -> Any:
    if s[st.VOUCHER + nm.V_OMEN_GLOBE] and chance.uniform(s, streams.OMEN_GLOBE) > 0.8:
        return _spectral(s, streams.SPECTRALAR2)
    soul = pools.pack_soul(s, streams.SOUL_TAROT)
    return soul if soul else pools.new_tarot(s, streams.TAROTAR1)


@kernel
def _celestial(s: Any, first: Any) -> Any:
    if first and s[st.VOUCHER + nm.V_TELESCOPE]:
        planet = _telescope_planet(s)
        if planet > 0:
            return planet
    hole = pools.pack_black_hole(s, streams.SOUL_PLANET)
    return hole if hole else pools.new_planet(s, streams.PLANETPL1)


@kernel
def _spectral(s: Any, stream: Any) -> Any:
    soul = pools.pack_soul(s, streams.SOUL_SPECTRAL)
    hole = pools.pack_black_hole(s, streams.SOUL_SPECTRAL)
    if hole:
        return hole
    return soul if soul else pools.new_spectral(s, stream)


@kernel
def _standard(s: Any, queue: Any) -> Any:
    """Return a playing card: enhanced in 2 of 5 cases, with twice the usual editions, in 1 of 5 cases with a seal."""
    card = chance.given(queue, chance.GIVEN_PACK_CARD)
    if card > 0:
        return card
    enhancement = 0
    if chance.uniform(s, streams.STDSET) > 0.6:
        enhancement = 1 + chance.below(s, streams.ENHANCEDSTA, 8)
    card = cards.with_enhancement(pools.random_card(s, streams.FRONTSTA), enhancement)
    card = cards.with_edition(card, pools.new_edition(s, streams.STANDARD_EDITION, 2.0, False))
    if chance.uniform(s, streams.STDSEAL) > 0.8:
        card = cards.with_seal(card, pools.random_seal(s, streams.STDSEALTYPE))
    return card


@kernel
def _fill(s: Any, queue: Any, kind: Any, k: Any) -> None:
    """Put an item into slot k of the pack."""
    item = chance.given(queue, chance.GIVEN_PACK)
    s[st.PACK_AGE + k] = new_age(s)
    if kind == nm.STANDARD:
        s[st.PACK_CARD + k] = _standard(s, queue)
        s[st.PACK + k] = nm.PLAYING_CARD
        return
    if item <= 0:
        if kind == nm.ARCANA:
            item = _arcana(s)
        elif kind == nm.CELESTIAL:
            item = _celestial(s, k == 0)
        elif kind == nm.SPECTRAL:
            item = _spectral(s, streams.SPECTRALSPE)
        else:
            item = pools.new_joker(s, streams.FROM_PACK, 0)
    if kind == nm.BUFFOON:
        edition = chance.given(queue, chance.GIVEN_PACK_EDITION)
        s[st.PACK_EDITION + k] = edition if edition >= 0 else pools.new_edition(s, streams.EDIBUF, 1.0, True)
        s[st.PACK_STICKERS + k] = pools.new_stickers(s, item, True)
    s[st.PACK + k] = item


@kernel
def open_pack(s: Any, queue: Any, booster: Any, back: Any) -> None:
    """Open a booster. When it is closed, the game returns to phase `back`."""
    kind = BOOSTER_KIND[booster]
    s[st.PACK_KIND] = kind
    s[st.PACK_PICKS] = BOOSTER_PICKS[booster]
    s[st.PACK_BACK] = back
    clear_pack(s)
    for i in range(s[st.N_JOKERS]):
        at = acting(s, i)
        if (
            at >= 0
            and s[st.JOKER + at] == nm.J_HALLUCINATION
            and consumable_room(s) > 0
            and chance.happens(s, queue, streams.HALU, luck(s), 2)
        ):
            pools.create_tarot(s, queue, streams.TAROTHAL)
    for k in range(min(BOOSTER_CARDS[booster], st.PACK_SLOTS)):
        _fill(s, queue, kind, k)
    if kind in (nm.ARCANA, nm.SPECTRAL):
        draw(s, queue, hand_limit(s))
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
    """Add a playing card to the deck; return False if all slots are used."""
    slot = cards.new_card(s, card)
    if slot < 0:
        return False
    cards.to_draw_pile(s, slot)
    cards_added(s, f, 1)
    refresh_debuffs(s)
    return True


@kernel
def picked(s: Any, k: Any) -> Any:
    """Remove the picked item from slot k; return whether the pack is finished."""
    s[st.PACK + k] = 0
    s[st.PACK_PICKS] -= 1
    left = 0
    for i in range(st.PACK_SLOTS):
        if s[st.PACK + i] != 0:
            left += 1
    return s[st.PACK_PICKS] <= 0 or left == 0


@kernel
def close_pack(s: Any) -> None:
    """Remove the remaining items and put the hand back."""
    clear_pack(s)
    cards.return_hand(s)
    s[st.PHASE] = s[st.PACK_BACK]


@kernel
def skip_pack(s: Any, f: Any) -> None:
    """Close the pack without picking the rest: Red Card grows."""
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_RED_CARD and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 3.0
    close_pack(s)
