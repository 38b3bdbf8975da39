"""Jokers triggered by a single card: one that scores, or one held in hand."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.cards import chips_of_rank, enhancement_of, is_face, is_suit, rank_shown
from ludus.games.balatro.chance import happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import consumable_room, luck
from ludus.games.balatro.pools import create_tarot
from ludus.games.balatro.tally import FROM_JOKER, add_chips, add_money, add_mult, times_mult


@kernel
def extra_triggers(s: Any, slot: Any, first: Any) -> Any:
    """Return how often jokers retrigger a scoring card; `first` is whether it is the first card that scores."""
    card = s[st.CARD + slot]
    rank = rank_shown(card)
    more = 0
    if s[st.W_RETRIGGER] == 0:
        return more
    for i in range(s[st.N_JOKERS]):
        if not (s[st.W_RETRIGGER] >> i) & 1:
            continue
        joker = s[st.JOKER + s[st.W_ACTING + i]]
        if joker == nm.J_HANGING_CHAD:
            if first:
                more += 2
        elif (
            (joker == nm.J_SOCK_AND_BUSKIN and is_face(card, s[st.W_ALL_FACES], False))
            or (joker == nm.J_HACK and 2 <= rank <= 5)
            or (joker == nm.J_DUSK and s[st.HANDS_LEFT] == 0)
            or joker == nm.J_SELZER
        ):
            more += 1
    return more


@kernel
def _first_face(s: Any) -> Any:
    """Return the slot of the first face card that scores, for Photograph; -1 if there is none."""
    for i in range(s[st.N_PLAY]):
        slot = s[st.PLAY + i]
        if (s[st.W_SCORING] >> i) & 1 and is_face(s[st.CARD + slot], s[st.W_ALL_FACES], False):
            return slot
    return -1


@kernel
def _suit_joker(s: Any, f: Any, queue: Any, log: Any, i: Any, joker: Any, card: Any) -> None:
    smeared = s[st.W_SMEARED]
    if joker == nm.J_GREEDY_JOKER:
        if is_suit(card, nm.DIAMONDS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == nm.J_LUSTY_JOKER:
        if is_suit(card, nm.HEARTS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == nm.J_WRATHFUL_JOKER:
        if is_suit(card, nm.SPADES, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == nm.J_GLUTTENOUS_JOKER:
        if is_suit(card, nm.CLUBS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == nm.J_ROUGH_GEM:
        if is_suit(card, nm.DIAMONDS, smeared, False):
            add_money(s, f, log, FROM_JOKER, i, 1)
    elif joker == nm.J_BLOODSTONE:
        if is_suit(card, nm.HEARTS, smeared, False) and happens(s, queue, streams.BLOODSTONE, luck(s), 2):
            times_mult(f, log, FROM_JOKER, i, 1.5)
    elif joker == nm.J_ARROWHEAD:
        if is_suit(card, nm.SPADES, smeared, False):
            add_chips(f, log, FROM_JOKER, i, 50.0)
    elif joker == nm.J_ONYX_AGATE:
        if is_suit(card, nm.CLUBS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 7.0)
    elif joker == nm.J_ANCIENT:
        if is_suit(card, s[st.ANCIENT_SUIT], smeared, False):
            times_mult(f, log, FROM_JOKER, i, 1.5)
    elif (
        joker == nm.J_IDOL
        and rank_shown(card) == s[st.IDOL_RANK]
        and is_suit(card, s[st.IDOL_SUIT], smeared, False)
    ):
        times_mult(f, log, FROM_JOKER, i, 2.0)


@kernel
def _rank_joker(s: Any, f: Any, queue: Any, log: Any, i: Any, joker: Any, rank: Any) -> None:
    if joker == nm.J_FIBONACCI:
        if rank == 2 or rank == 3 or rank == 5 or rank == 8 or rank == 14:
            add_mult(f, log, FROM_JOKER, i, 8.0)
    elif joker == nm.J_EVEN_STEVEN:
        if 2 <= rank <= 10 and rank % 2 == 0:
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == nm.J_ODD_TODD:
        if rank == 14 or (2 <= rank <= 10 and rank % 2 == 1):
            add_chips(f, log, FROM_JOKER, i, 31.0)
    elif joker == nm.J_SCHOLAR:
        if rank == 14:
            add_chips(f, log, FROM_JOKER, i, 20.0)
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == nm.J_WALKIE_TALKIE:
        if rank == 10 or rank == 4:
            add_chips(f, log, FROM_JOKER, i, 10.0)
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == nm.J_TRIBOULET:
        if rank == 12 or rank == 13:
            times_mult(f, log, FROM_JOKER, i, 2.0)
    elif (
        joker == nm.J_8_BALL
        and rank == 8
        and consumable_room(s) > 0
        and happens(s, queue, streams.EIGHT_BALL, luck(s), 4)
    ):
        create_tarot(s, queue, streams.TAROT8BA)


@kernel
def _face_joker(s: Any, f: Any, queue: Any, log: Any, i: Any, joker: Any, slot: Any) -> None:
    """Apply a joker to a face card."""
    if joker == nm.J_SCARY_FACE:
        add_chips(f, log, FROM_JOKER, i, 30.0)
    elif joker == nm.J_SMILEY:
        add_mult(f, log, FROM_JOKER, i, 5.0)
    elif joker == nm.J_PHOTOGRAPH:
        if _first_face(s) == slot:
            times_mult(f, log, FROM_JOKER, i, 2.0)
    elif joker == nm.J_BUSINESS and happens(s, queue, streams.BUSINESS, luck(s), 2):
        add_money(s, f, log, FROM_JOKER, i, 2)


@kernel
def jokers_for_scored(s: Any, f: Any, queue: Any, log: Any, slot: Any, was_lucky: Any) -> None:
    """Apply every joker, left to right, to one trigger of a scoring card."""
    if s[st.W_FOR_SCORED] == 0:
        return
    card = s[st.CARD + slot]
    rank = rank_shown(card)
    face = is_face(card, s[st.W_ALL_FACES], False)
    for i in range(s[st.N_JOKERS]):
        if not (s[st.W_FOR_SCORED] >> i) & 1:
            continue
        at = s[st.W_ACTING + i]
        joker = s[st.JOKER + at]
        if joker == nm.J_HIKER:
            s[st.CARD_BONUS + slot] += 5
        elif joker == nm.J_TICKET:
            if enhancement_of(card) == nm.M_GOLD:
                add_money(s, f, log, FROM_JOKER, i, 4)
        elif joker == nm.J_WEE:
            if rank == 2 and at == i:
                f[st.J_VALUE + i] += 8.0
        elif joker == nm.J_LUCKY_CAT:
            if was_lucky and at == i:
                f[st.J_VALUE + i] += 0.25
        else:
            if face:
                _face_joker(s, f, queue, log, i, joker, slot)
            _rank_joker(s, f, queue, log, i, joker, rank)
            _suit_joker(s, f, queue, log, i, joker, card)


@kernel
def _raised_fist_card(s: Any) -> Any:
    """Return the slot of the lowest held card, the rightmost of equals, for Raised Fist; -1 if there is none."""
    lowest, slot = 15, -1
    for i in range(s[st.N_HAND]):
        rank = rank_shown(s[st.CARD + s[st.HAND + i]])
        if 0 < rank <= lowest:
            lowest, slot = rank, s[st.HAND + i]
    return slot


@kernel
def jokers_for_held(s: Any, f: Any, queue: Any, log: Any, slot: Any) -> Any:
    """Apply every joker, left to right, to one trigger of a held card; return whether any had an effect.

    Do not call it for a debuffed card.
    """
    if s[st.W_FOR_HELD] == 0:
        return False
    card = s[st.CARD + slot]
    rank = rank_shown(card)
    did = False
    for i in range(s[st.N_JOKERS]):
        if not (s[st.W_FOR_HELD] >> i) & 1:
            continue
        joker = s[st.JOKER + s[st.W_ACTING + i]]
        if joker == nm.J_SHOOT_THE_MOON:
            if rank == 12:
                add_mult(f, log, FROM_JOKER, i, 13.0)
                did = True
        elif joker == nm.J_BARON:
            if rank == 13:
                times_mult(f, log, FROM_JOKER, i, 1.5)
                did = True
        elif joker == nm.J_RESERVED_PARKING:
            if is_face(card, s[st.W_ALL_FACES], False) and happens(s, queue, streams.PARKING, luck(s), 2):
                add_money(s, f, log, FROM_JOKER, i, 1)
                did = True
        elif joker == nm.J_RAISED_FIST and _raised_fist_card(s) == slot:
            add_mult(f, log, FROM_JOKER, i, 2.0 * chips_of_rank(rank))
            did = True
    return did


@kernel
def held_triggers(s: Any) -> Any:
    """Return how often jokers retrigger a held card that had an effect: once for each Mime."""
    more = 0
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        if at >= 0 and s[st.JOKER + at] == nm.J_MIME:
            more += 1
    return more
