"""Tarots, planets and spectrals: when they can be used, on which cards, and their effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import cards, lineup, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import refresh_debuffs
from ludus.games.balatro.chance import GIVEN_EDITION, GIVEN_RANK, GIVEN_SUIT, below, given, happens, shuffle
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import PLANET_HAND, TARGETS_MAX
from ludus.games.balatro.joker_hands import cards_added, cards_destroyed
from ludus.games.balatro.jokers import create_joker, duplicate_joker, remove_joker
from ludus.games.balatro.pools import create_planet, create_tarot, sure_edition

_SUIT_LIST = np.array(
    [nm.SPADES, nm.HEARTS, nm.DIAMONDS, nm.CLUBS], dtype=np.int64
)  # in the order of the game


@kernel
def is_planet(item: Any) -> Any:
    return nm.C_MERCURY <= item <= nm.C_ERIS


@kernel
def _plain_jokers(s: Any) -> Any:
    """Return the number of jokers without an edition."""
    count = 0
    for i in range(s[st.N_JOKERS]):
        if s[st.J_EDITION + i] == 0:
            count += 1
    return count


@kernel
def _forced(s: Any) -> Any:
    """Return the position of the card that Cerulean Bell keeps selected; -1 if there is none."""
    if s[st.BLIND] != nm.BL_FINAL_BELL:
        return -1
    for i in range(s[st.N_HAND]):
        if s[st.CARD + s[st.HAND + i]] & cards.FORCED:
            return i
    return -1


@kernel
def can_use(s: Any, item: Any, held: Any, reach: Any) -> Any:
    """Return whether a consumable can be used now. A `held` one frees its own slot first.

    Only the first `reach` cards of the hand can be targets.
    """
    if TARGETS_MAX[item] > 0:
        if _forced(s) >= reach:
            return False
        if item == nm.C_AURA:
            return _can_aura(s, reach)
        if item == nm.C_CRYPTID and s[st.N_CARDS] > st.MAX_CARDS - 2:
            return False
        return s[st.N_HAND] >= (2 if item == nm.C_DEATH else 1)
    if is_planet(item) or item in (nm.C_BLACK_HOLE, nm.C_HERMIT, nm.C_TEMPERANCE):
        return True
    if item in (nm.C_EMPEROR, nm.C_HIGH_PRIESTESS):
        return held or lineup.consumable_room(s) > 0
    if item == nm.C_FOOL:
        copied = s[st.LAST_CONSUMABLE]
        return copied != 0 and copied != nm.C_FOOL and (held or lineup.consumable_room(s) > 0)
    if item in (nm.C_JUDGEMENT, nm.C_WRAITH, nm.C_SOUL):
        return lineup.joker_room(s) > 0
    if item in (nm.C_WHEEL_OF_FORTUNE, nm.C_ECTOPLASM, nm.C_HEX):
        return _plain_jokers(s) > 0
    if item == nm.C_ANKH:
        return s[st.N_JOKERS] > 0 and lineup.joker_limit(s) > 1 and lineup.joker_room(s) > 0
    if nm.C_FAMILIAR <= item <= nm.C_INCANTATION:
        return s[st.N_HAND] > 1 and s[st.N_CARDS] <= st.MAX_CARDS - 3
    return s[st.N_HAND] > 1


@kernel
def _can_aura(s: Any, reach: Any) -> Any:
    forced = _forced(s)
    for i in range(min(s[st.N_HAND], reach)):
        if (forced < 0 or forced == i) and cards.edition_of(s[st.CARD + s[st.HAND + i]]) == 0:
            return True
    return False


@kernel
def can_target(s: Any, item: Any, bits: Any) -> Any:
    """Return whether these positions of the hand may be the targets. The caller checks how many there are."""
    forced = _forced(s)
    if forced >= 0 and not (bits >> forced) & 1:
        return False
    if item == nm.C_AURA:
        for i in range(s[st.N_HAND]):
            if (bits >> i) & 1 and cards.edition_of(s[st.CARD + s[st.HAND + i]]) != 0:
                return False
    return True


@kernel
def _enhancement_given(item: Any) -> Any:
    if item == nm.C_MAGICIAN:
        return nm.M_LUCKY
    if item == nm.C_EMPRESS:
        return nm.M_MULT
    if item == nm.C_HEIROPHANT:
        return nm.M_BONUS
    if item == nm.C_LOVERS:
        return nm.M_WILD
    if item == nm.C_CHARIOT:
        return nm.M_STEEL
    if item == nm.C_JUSTICE:
        return nm.M_GLASS
    if item == nm.C_DEVIL:
        return nm.M_GOLD
    if item == nm.C_TOWER:
        return nm.M_STONE
    return 0


@kernel
def _seal_given(item: Any) -> Any:
    if item == nm.C_TALISMAN:
        return nm.GOLD_SEAL
    if item == nm.C_DEJA_VU:
        return nm.RED_SEAL
    if item == nm.C_TRANCE:
        return nm.BLUE_SEAL
    if item == nm.C_MEDIUM:
        return nm.PURPLE_SEAL
    return 0


@kernel
def _suit_given(item: Any) -> Any:
    if item == nm.C_STAR:
        return nm.DIAMONDS
    if item == nm.C_MOON:
        return nm.CLUBS
    if item == nm.C_SUN:
        return nm.HEARTS
    if item == nm.C_WORLD:
        return nm.SPADES
    return -1


@kernel
def _change_card(s: Any, queue: Any, item: Any, slot: Any) -> None:
    """Apply the effect of a consumable to one target card."""
    card = s[st.CARD + slot]
    enhancement, seal, suit = _enhancement_given(item), _seal_given(item), _suit_given(item)
    if enhancement > 0:
        card = cards.with_enhancement(card, enhancement)
    elif seal > 0:
        card = cards.with_seal(card, seal)
    elif suit >= 0:
        card = cards.with_suit(card, suit)
    elif item == nm.C_STRENGTH:
        rank = cards.rank_of(card) + 1
        card = cards.with_rank(card, 2 if rank > 14 else rank)
    elif item == nm.C_AURA:
        edition = given(queue, GIVEN_EDITION)
        card = cards.with_edition(card, edition if edition > 0 else sure_edition(s, streams.AURA))
    s[st.CARD + slot] = card


@kernel
def _destroy_hand_cards(s: Any, f: Any, bits: Any, breaks_glass: Any) -> None:
    """Destroy the cards at these positions of the hand. Glass Joker counts them only if `breaks_glass`."""
    all_faces = lineup.count_joker(s, nm.J_PAREIDOLIA) > 0
    faces, glasses = 0, 0
    for i in range(s[st.N_HAND] - 1, -1, -1):
        if (bits >> i) & 1:
            slot = s[st.HAND + i]
            card = s[st.CARD + slot]
            if cards.is_face(card, all_faces, False):
                faces += 1
            if breaks_glass and cards.enhancement_of(card) == nm.M_GLASS:
                glasses += 1
            cards.destroy_card(s, slot)
    cards_destroyed(s, f, faces, glasses)


@kernel
def _copy_card(s: Any, source: Any) -> Any:
    slot = cards.new_card(s, s[st.CARD + source] & (cards.FACE_MASK | cards.DEBUFF | cards.PLAYED_ANTE))
    if slot >= 0:
        s[st.CARD_BONUS + slot] = s[st.CARD_BONUS + source]
        cards.to_hand(s, slot)
    return slot


@kernel
def _on_targets(s: Any, f: Any, queue: Any, item: Any, bits: Any) -> None:
    if item == nm.C_HANGED_MAN:
        _destroy_hand_cards(s, f, bits, True)
        return
    first, last = -1, -1
    for i in range(s[st.N_HAND]):
        if (bits >> i) & 1:
            if first < 0:
                first = s[st.HAND + i]
            last = s[st.HAND + i]
    if item == nm.C_DEATH:
        kept = s[st.CARD + first] & cards.FORCED
        s[st.CARD + first] = s[st.CARD + last] & (cards.FACE_MASK | cards.PLAYED_ANTE) | kept
        s[st.CARD_BONUS + first] = s[st.CARD_BONUS + last]
    elif item == nm.C_CRYPTID:
        _copy_card(s, first)
        _copy_card(s, first)
        cards_added(s, f, 2)
    else:
        for i in range(s[st.N_HAND]):
            if (bits >> i) & 1:
                _change_card(s, queue, item, s[st.HAND + i])


@kernel
def _five_by_shuffle(s: Any) -> Any:
    """Return the positions of up to five random cards of the hand as bits, for Immolate: it shuffles the hand."""
    n = s[st.N_HAND]
    everything = (1 << n) - 1
    for i in range(
        n
    ):  # PLAY and the cells behind it are too few: the hand itself is shuffled and sorted again
        at = cards.hand_by_age(s, everything & ~((1 << i) - 1), 0)
        s[st.HAND + i], s[st.HAND + at] = s[st.HAND + at], s[st.HAND + i]
    shuffle(s, streams.IMMOLATE, st.HAND, n)
    return (1 << min(5, n)) - 1


@kernel
def _replace_one_card(s: Any, f: Any, queue: Any, item: Any) -> None:
    """Apply Familiar, Grim or Incantation: destroy one card, add enhanced cards."""
    _destroy_hand_cards(s, f, 1 << cards.pick_from_hand(s, queue, streams.RANDOM_DESTROY), False)
    count = 3 if item == nm.C_FAMILIAR else (2 if item == nm.C_GRIM else 4)
    added = 0
    for _ in range(count):
        stream = streams.GRIM_CREATE
        rank = 14
        if item == nm.C_FAMILIAR:
            stream = streams.FAMILIAR_CREATE
            rank = 11 + below(s, stream, 3)
        elif item == nm.C_INCANTATION:
            stream = streams.INCANTATION_CREATE
            rank = 2 + below(s, stream, 9)
        suit = _SUIT_LIST[below(s, stream, 4)]
        enhancement = 1 + below(s, streams.SPE_CARD, 7)
        if enhancement >= nm.M_STONE:
            enhancement += 1
        slot = cards.new_card(s, cards.make_card(rank, suit, enhancement, 0, 0))
        if slot >= 0:
            cards.to_hand(s, slot)
            added += 1
    cards_added(s, f, added)


@kernel
def _all_hand_cards(s: Any, queue: Any, item: Any) -> None:
    """Apply Sigil or Ouija: the whole hand gets one suit or one rank."""
    if item == nm.C_SIGIL:
        suit = given(queue, GIVEN_SUIT)
        if suit < 0:
            suit = _SUIT_LIST[below(s, streams.SIGIL, 4)]
        for i in range(s[st.N_HAND]):
            s[st.CARD + s[st.HAND + i]] = cards.with_suit(s[st.CARD + s[st.HAND + i]], suit)
    else:
        rank = given(queue, GIVEN_RANK)
        if rank < 0:
            rank = 2 + below(s, streams.OUIJA, 13)
        for i in range(s[st.N_HAND]):
            s[st.CARD + s[st.HAND + i]] = cards.with_rank(s[st.CARD + s[st.HAND + i]], rank)
        change_hand_size(s, queue, -1)


@kernel
def _pick_plain_joker(s: Any, queue: Any, stream: Any) -> Any:
    """Return the position of a random joker without an edition."""
    candidates = 0
    for i in range(s[st.N_JOKERS]):
        if s[st.J_EDITION + i] == 0:
            candidates |= 1 << i
    return lineup.pick_by_age(s, queue, stream, st.J_AGE, candidates, _plain_jokers(s))


@kernel
def _destroy_other_jokers(s: Any, f: Any, queue: Any, kept: Any) -> Any:
    """Destroy every joker except one and the Eternal ones; return the new position of the kept one."""
    i = s[st.N_JOKERS] - 1
    while i >= 0:
        if i != kept and not s[st.J_STICKERS + i] & st.ETERNAL:
            remove_joker(s, f, queue, i)
            if i < kept:
                kept -= 1
        i -= 1
    return kept


@kernel
def _on_jokers(s: Any, f: Any, queue: Any, item: Any) -> None:
    if item == nm.C_WHEEL_OF_FORTUNE:
        if happens(s, queue, streams.WHEEL_OF_FORTUNE, lineup.luck(s), 4):
            at = _pick_plain_joker(s, queue, streams.WHEEL_OF_FORTUNE)
            edition = given(queue, GIVEN_EDITION)
            s[st.J_EDITION + at] = edition if edition > 0 else sure_edition(s, streams.WHEEL_OF_FORTUNE)
    elif item == nm.C_ECTOPLASM:
        s[st.J_EDITION + _pick_plain_joker(s, queue, streams.ECTOPLASM)] = nm.NEGATIVE
        change_hand_size(s, queue, -s[st.ECTOPLASM_COST])
        s[st.ECTOPLASM_COST] += 1
    elif item == nm.C_HEX:
        at = _destroy_other_jokers(s, f, queue, _pick_plain_joker(s, queue, streams.HEX))
        s[st.J_EDITION + at] = nm.POLYCHROME
    elif item == nm.C_ANKH:
        n = s[st.N_JOKERS]
        kept = lineup.pick_by_age(s, queue, streams.ANKH_CHOICE, st.J_AGE, (1 << n) - 1, n)
        at = _destroy_other_jokers(s, f, queue, kept)
        duplicate_joker(s, f, queue, at, False)
    elif item == nm.C_WRAITH:
        create_joker(s, f, queue, streams.FROM_WRAITH, 3)
        s[st.MONEY] = 0
    elif item == nm.C_SOUL:
        create_joker(s, f, queue, streams.FROM_SOUL, 4)
    else:
        create_joker(s, f, queue, streams.FROM_JUDGEMENT, 0)


@kernel
def _without_targets(s: Any, f: Any, queue: Any, item: Any) -> None:
    if is_planet(item):
        s[st.LEVEL + PLANET_HAND[item - nm.C_MERCURY]] += 1
        s[st.PLANETS_USED] |= 1 << (item - nm.C_MERCURY)
    elif item == nm.C_BLACK_HOLE:
        for hand in range(12):
            s[st.LEVEL + hand] += 1
    elif item == nm.C_FOOL:
        lineup.add_consumable(s, s[st.LAST_CONSUMABLE], 0)
    elif item == nm.C_HIGH_PRIESTESS:
        create_planet(s, queue, streams.PLANETPRI)
        create_planet(s, queue, streams.PLANETPRI)
    elif item == nm.C_EMPEROR:
        create_tarot(s, queue, streams.TAROTEMP)
        create_tarot(s, queue, streams.TAROTEMP)
    elif item == nm.C_HERMIT:
        s[st.MONEY] += min(20, max(0, s[st.MONEY]))
    elif item == nm.C_TEMPERANCE:
        total = 0
        for i in range(s[st.N_JOKERS]):
            total += lineup.joker_sell_value(s, i)
        s[st.MONEY] += min(50, total)
    elif nm.C_FAMILIAR <= item <= nm.C_INCANTATION:
        _replace_one_card(s, f, queue, item)
    elif item in (nm.C_SIGIL, nm.C_OUIJA):
        _all_hand_cards(s, queue, item)
    elif item == nm.C_IMMOLATE:
        _destroy_hand_cards(s, f, _five_by_shuffle(s), False)
        cards.sort_hand(s)
        s[st.MONEY] += 20
    else:
        _on_jokers(s, f, queue, item)


@kernel
def use(s: Any, f: Any, queue: Any, item: Any, bits: Any) -> None:
    """Use a consumable, already removed from its slot, on the cards at these positions of the hand."""
    if TARGETS_MAX[item] > 0:
        _on_targets(s, f, queue, item, bits)
    else:
        _without_targets(s, f, queue, item)
    if item < nm.C_MERCURY:
        s[st.TAROTS_USED] += 1
        s[st.LAST_CONSUMABLE] = item
    elif is_planet(item):
        s[st.LAST_CONSUMABLE] = item
        for i in range(s[st.N_JOKERS]):
            if s[st.JOKER + i] == nm.J_CONSTELLATION and not s[st.J_STICKERS + i] & st.DEBUFFED:
                f[st.J_VALUE + i] += 0.1
    refresh_debuffs(s)
