"""Tarots, planets and spectrals: when one can be used, on which cards, and what it does."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.bosses import refresh_debuffs
from ludus.games.balatro.cards import (
    DEBUFF,
    FACE_MASK,
    FORCED,
    PLAYED_ANTE,
    destroy_card,
    edition_of,
    enhancement_of,
    is_face,
    make_card,
    new_card,
    rank_of,
    to_hand,
    with_edition,
    with_enhancement,
    with_rank,
    with_seal,
    with_suit,
)
from ludus.games.balatro.chance import GIVEN_EDITION, GIVEN_RANK, GIVEN_SUIT, below, given, happens, position
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import PLANET_HAND, TARGETS_MAX
from ludus.games.balatro.joker_hands import cards_added, cards_destroyed
from ludus.games.balatro.jokers import create_joker, duplicate_joker, remove_joker
from ludus.games.balatro.lineup import (
    add_consumable,
    consumable_room,
    count_joker,
    joker_limit,
    joker_room,
    joker_sell_value,
    luck,
)
from ludus.games.balatro.names import (
    BL_FINAL_BELL,
    BLUE_SEAL,
    C_ANKH,
    C_AURA,
    C_BLACK_HOLE,
    C_CHARIOT,
    C_CRYPTID,
    C_DEATH,
    C_DEJA_VU,
    C_DEVIL,
    C_ECTOPLASM,
    C_EMPEROR,
    C_EMPRESS,
    C_ERIS,
    C_FAMILIAR,
    C_FOOL,
    C_GRIM,
    C_HANGED_MAN,
    C_HEIROPHANT,
    C_HERMIT,
    C_HEX,
    C_HIGH_PRIESTESS,
    C_IMMOLATE,
    C_INCANTATION,
    C_JUDGEMENT,
    C_JUSTICE,
    C_LOVERS,
    C_MAGICIAN,
    C_MEDIUM,
    C_MERCURY,
    C_MOON,
    C_OUIJA,
    C_SIGIL,
    C_SOUL,
    C_STAR,
    C_STRENGTH,
    C_SUN,
    C_TALISMAN,
    C_TEMPERANCE,
    C_TOWER,
    C_TRANCE,
    C_WHEEL_OF_FORTUNE,
    C_WORLD,
    C_WRAITH,
    CLUBS,
    DIAMONDS,
    GOLD_SEAL,
    HEARTS,
    J_CONSTELLATION,
    J_PAREIDOLIA,
    M_BONUS,
    M_GLASS,
    M_GOLD,
    M_LUCKY,
    M_MULT,
    M_STEEL,
    M_STONE,
    M_WILD,
    NEGATIVE,
    POLYCHROME,
    PURPLE_SEAL,
    RED_SEAL,
    SPADES,
)
from ludus.games.balatro.pools import create_planet, create_tarot, sure_edition
from ludus.games.balatro.state import (
    BLIND,
    CARD,
    CARD_BONUS,
    DEBUFFED,
    ECTOPLASM_COST,
    ETERNAL,
    HAND,
    J_EDITION,
    J_STICKERS,
    J_VALUE,
    JOKER,
    LAST_CONSUMABLE,
    LEVEL,
    MAX_CARDS,
    MONEY,
    N_CARDS,
    N_HAND,
    N_JOKERS,
    PLANETS_USED,
    TAROTS_USED,
)


@kernel
def is_planet(item: Any) -> Any:
    return C_MERCURY <= item <= C_ERIS


@kernel
def _plain_jokers(s: Any) -> Any:
    """How many jokers have no edition."""
    count = 0
    for i in range(s[N_JOKERS]):
        if s[J_EDITION + i] == 0:
            count += 1
    return count


@kernel
def _forced(s: Any) -> Any:
    """The position of the card that Cerulean Bell keeps selected; -1 for none."""
    if s[BLIND] != BL_FINAL_BELL:
        return -1
    for i in range(s[N_HAND]):
        if s[CARD + s[HAND + i]] & FORCED:
            return i
    return -1


@kernel
def can_use(s: Any, item: Any, held: Any, reach: Any) -> Any:
    """Whether a consumable can be used now. A `held` one frees its own place first.

    Targets are among the first `reach` cards of the hand.
    """
    if TARGETS_MAX[item] > 0:
        if _forced(s) >= reach:
            return False
        if item == C_AURA:
            return _can_aura(s, reach)
        if item == C_CRYPTID and s[N_CARDS] > MAX_CARDS - 2:
            return False
        return s[N_HAND] >= (2 if item == C_DEATH else 1)
    if is_planet(item) or item in (C_BLACK_HOLE, C_HERMIT, C_TEMPERANCE):
        return True
    if item in (C_EMPEROR, C_HIGH_PRIESTESS):
        return held or consumable_room(s) > 0
    if item == C_FOOL:
        copied = s[LAST_CONSUMABLE]
        return copied != 0 and copied != C_FOOL and (held or consumable_room(s) > 0)
    if item in (C_JUDGEMENT, C_WRAITH, C_SOUL):
        return joker_room(s) > 0
    if item in (C_WHEEL_OF_FORTUNE, C_ECTOPLASM, C_HEX):
        return _plain_jokers(s) > 0
    if item == C_ANKH:
        return s[N_JOKERS] > 0 and joker_limit(s) > 1 and joker_room(s) > 0
    if C_FAMILIAR <= item <= C_INCANTATION:
        return s[N_HAND] > 1 and s[N_CARDS] <= MAX_CARDS - 3
    return s[N_HAND] > 1


@kernel
def _can_aura(s: Any, reach: Any) -> Any:
    forced = _forced(s)
    for i in range(min(s[N_HAND], reach)):
        if (forced < 0 or forced == i) and edition_of(s[CARD + s[HAND + i]]) == 0:
            return True
    return False


@kernel
def can_target(s: Any, item: Any, bits: Any) -> Any:
    """Whether these positions of the hand may be the targets; their number is the caller's to check."""
    forced = _forced(s)
    if forced >= 0 and not (bits >> forced) & 1:
        return False
    if item == C_AURA:
        for i in range(s[N_HAND]):
            if (bits >> i) & 1 and edition_of(s[CARD + s[HAND + i]]) != 0:
                return False
    return True


@kernel
def _enhancement_given(item: Any) -> Any:
    if item == C_MAGICIAN:
        return M_LUCKY
    if item == C_EMPRESS:
        return M_MULT
    if item == C_HEIROPHANT:
        return M_BONUS
    if item == C_LOVERS:
        return M_WILD
    if item == C_CHARIOT:
        return M_STEEL
    if item == C_JUSTICE:
        return M_GLASS
    if item == C_DEVIL:
        return M_GOLD
    if item == C_TOWER:
        return M_STONE
    return 0


@kernel
def _seal_given(item: Any) -> Any:
    if item == C_TALISMAN:
        return GOLD_SEAL
    if item == C_DEJA_VU:
        return RED_SEAL
    if item == C_TRANCE:
        return BLUE_SEAL
    if item == C_MEDIUM:
        return PURPLE_SEAL
    return 0


@kernel
def _suit_given(item: Any) -> Any:
    if item == C_STAR:
        return DIAMONDS
    if item == C_MOON:
        return CLUBS
    if item == C_SUN:
        return HEARTS
    if item == C_WORLD:
        return SPADES
    return -1


@kernel
def _change_card(s: Any, q: Any, item: Any, place: Any) -> None:
    """What a consumable does to one target that stays."""
    card = s[CARD + place]
    enhancement, seal, suit = _enhancement_given(item), _seal_given(item), _suit_given(item)
    if enhancement > 0:
        card = with_enhancement(card, enhancement)
    elif seal > 0:
        card = with_seal(card, seal)
    elif suit >= 0:
        card = with_suit(card, suit)
    elif item == C_STRENGTH:
        rank = rank_of(card) + 1
        card = with_rank(card, 2 if rank > 14 else rank)
    elif item == C_AURA:
        edition = given(q, GIVEN_EDITION)
        card = with_edition(card, edition if edition > 0 else sure_edition(s))
    s[CARD + place] = card


@kernel
def _destroy_hand_cards(s: Any, f: Any, bits: Any, breaks_glass: Any) -> None:
    """Destroys the cards at these positions of the hand; Glass Joker sees it only where `breaks_glass`."""
    all_faces = count_joker(s, J_PAREIDOLIA) > 0
    faces, glasses = 0, 0
    for i in range(s[N_HAND] - 1, -1, -1):
        if (bits >> i) & 1:
            place = s[HAND + i]
            card = s[CARD + place]
            if is_face(card, all_faces, False):
                faces += 1
            if breaks_glass and enhancement_of(card) == M_GLASS:
                glasses += 1
            destroy_card(s, place)
    cards_destroyed(s, f, faces, glasses)


@kernel
def _copy_card(s: Any, source: Any) -> Any:
    place = new_card(s, s[CARD + source] & (FACE_MASK | DEBUFF | PLAYED_ANTE))
    if place >= 0:
        s[CARD_BONUS + place] = s[CARD_BONUS + source]
        to_hand(s, place)
    return place


@kernel
def _on_targets(s: Any, f: Any, q: Any, item: Any, bits: Any) -> None:
    if item == C_HANGED_MAN:
        _destroy_hand_cards(s, f, bits, True)
        return
    first, last = -1, -1
    for i in range(s[N_HAND]):
        if (bits >> i) & 1:
            if first < 0:
                first = s[HAND + i]
            last = s[HAND + i]
    if item == C_DEATH:
        kept = s[CARD + first] & FORCED
        s[CARD + first] = s[CARD + last] & (FACE_MASK | PLAYED_ANTE) | kept
        s[CARD_BONUS + first] = s[CARD_BONUS + last]
    elif item == C_CRYPTID:
        _copy_card(s, first)
        _copy_card(s, first)
        cards_added(s, f, 2)
    else:
        for i in range(s[N_HAND]):
            if (bits >> i) & 1:
                _change_card(s, q, item, s[HAND + i])


@kernel
def _random_positions(s: Any, q: Any, count: Any) -> Any:
    """Positions of so many different cards of the hand, by chance, as bits."""
    bits = 0
    for _ in range(min(count, s[N_HAND])):
        at = position(s, q, s[N_HAND])
        while (bits >> at) & 1:
            at = below(s, s[N_HAND])
        bits |= 1 << at
    return bits


@kernel
def _replace_one_card(s: Any, f: Any, q: Any, item: Any) -> None:
    """Familiar, Grim, Incantation: one card goes, enhanced ones of a kind come."""
    _destroy_hand_cards(s, f, _random_positions(s, q, 1), False)
    count = 3 if item == C_FAMILIAR else (2 if item == C_GRIM else 4)
    added = 0
    for _ in range(count):
        if item == C_FAMILIAR:
            rank = 11 + below(s, 3)
        elif item == C_GRIM:
            rank = 14
        else:
            rank = 2 + below(s, 9)
        enhancement = 1 + below(s, 7)
        if enhancement >= M_STONE:
            enhancement += 1
        place = new_card(s, make_card(rank, below(s, 4), enhancement, 0, 0))
        if place >= 0:
            to_hand(s, place)
            added += 1
    cards_added(s, f, added)


@kernel
def _all_hand_cards(s: Any, q: Any, item: Any) -> None:
    """Sigil and Ouija: the whole hand takes one suit or one rank."""
    if item == C_SIGIL:
        suit = given(q, GIVEN_SUIT)
        if suit < 0:
            suit = below(s, 4)
        for i in range(s[N_HAND]):
            s[CARD + s[HAND + i]] = with_suit(s[CARD + s[HAND + i]], suit)
    else:
        rank = given(q, GIVEN_RANK)
        if rank < 0:
            rank = 2 + below(s, 13)
        for i in range(s[N_HAND]):
            s[CARD + s[HAND + i]] = with_rank(s[CARD + s[HAND + i]], rank)
        change_hand_size(s, q, -1)


@kernel
def _pick_plain_joker(s: Any, q: Any) -> Any:
    """A joker without an edition, by chance."""
    wanted = position(s, q, _plain_jokers(s))
    for i in range(s[N_JOKERS]):
        if s[J_EDITION + i] == 0:
            if wanted == 0:
                return i
            wanted -= 1
    return 0


@kernel
def _destroy_other_jokers(s: Any, f: Any, q: Any, kept: Any) -> Any:
    """Destroys every joker but one and the Eternal ones; returns where the kept one stands then."""
    i = s[N_JOKERS] - 1
    while i >= 0:
        if i != kept and not s[J_STICKERS + i] & ETERNAL:
            remove_joker(s, f, q, i)
            if i < kept:
                kept -= 1
        i -= 1
    return kept


@kernel
def _on_jokers(s: Any, f: Any, q: Any, item: Any) -> None:
    if item == C_WHEEL_OF_FORTUNE:
        if happens(s, q, luck(s), 4):
            at = _pick_plain_joker(s, q)
            edition = given(q, GIVEN_EDITION)
            s[J_EDITION + at] = edition if edition > 0 else sure_edition(s)
    elif item == C_ECTOPLASM:
        s[J_EDITION + _pick_plain_joker(s, q)] = NEGATIVE
        change_hand_size(s, q, -s[ECTOPLASM_COST])
        s[ECTOPLASM_COST] += 1
    elif item == C_HEX:
        at = _destroy_other_jokers(s, f, q, _pick_plain_joker(s, q))
        s[J_EDITION + at] = POLYCHROME
    elif item == C_ANKH:
        at = _destroy_other_jokers(s, f, q, position(s, q, s[N_JOKERS]))
        duplicate_joker(s, f, q, at, False)
    elif item == C_WRAITH:
        create_joker(s, f, q, 3)
        s[MONEY] = 0
    elif item == C_SOUL:
        create_joker(s, f, q, 4)
    else:
        create_joker(s, f, q, 0)


@kernel
def _without_targets(s: Any, f: Any, q: Any, item: Any) -> None:
    if is_planet(item):
        s[LEVEL + PLANET_HAND[item - C_MERCURY]] += 1
        s[PLANETS_USED] |= 1 << (item - C_MERCURY)
    elif item == C_BLACK_HOLE:
        for hand in range(12):
            s[LEVEL + hand] += 1
    elif item == C_FOOL:
        add_consumable(s, s[LAST_CONSUMABLE], 0)
    elif item == C_HIGH_PRIESTESS:
        create_planet(s, q)
        create_planet(s, q)
    elif item == C_EMPEROR:
        create_tarot(s, q)
        create_tarot(s, q)
    elif item == C_HERMIT:
        s[MONEY] += min(20, max(0, s[MONEY]))
    elif item == C_TEMPERANCE:
        total = 0
        for i in range(s[N_JOKERS]):
            total += joker_sell_value(s, i)
        s[MONEY] += min(50, total)
    elif C_FAMILIAR <= item <= C_INCANTATION:
        _replace_one_card(s, f, q, item)
    elif item in (C_SIGIL, C_OUIJA):
        _all_hand_cards(s, q, item)
    elif item == C_IMMOLATE:
        _destroy_hand_cards(s, f, _random_positions(s, q, 5), False)
        s[MONEY] += 20
    else:
        _on_jokers(s, f, q, item)


@kernel
def use(s: Any, f: Any, q: Any, item: Any, bits: Any) -> None:
    """Uses a consumable that has already left its place, on the cards at these positions of the hand."""
    if TARGETS_MAX[item] > 0:
        _on_targets(s, f, q, item, bits)
    else:
        _without_targets(s, f, q, item)
    if item < C_MERCURY:
        s[TAROTS_USED] += 1
        s[LAST_CONSUMABLE] = item
    elif is_planet(item):
        s[LAST_CONSUMABLE] = item
        for i in range(s[N_JOKERS]):
            if s[JOKER + i] == J_CONSTELLATION and not s[J_STICKERS + i] & DEBUFFED:
                f[J_VALUE + i] += 0.1
    refresh_debuffs(s)
