"""What jokers do for a single card: one that scores, or one that is held in hand."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.cards import chips_of_rank, enhancement_of, is_face, is_suit, rank_shown
from ludus.games.balatro.chance import happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import consumable_room, luck
from ludus.games.balatro.names import (
    CLUBS,
    DIAMONDS,
    HEARTS,
    J_8_BALL,
    J_ANCIENT,
    J_ARROWHEAD,
    J_BARON,
    J_BLOODSTONE,
    J_BUSINESS,
    J_DUSK,
    J_EVEN_STEVEN,
    J_FIBONACCI,
    J_GLUTTENOUS_JOKER,
    J_GREEDY_JOKER,
    J_HACK,
    J_HANGING_CHAD,
    J_HIKER,
    J_IDOL,
    J_LUCKY_CAT,
    J_LUSTY_JOKER,
    J_MIME,
    J_ODD_TODD,
    J_ONYX_AGATE,
    J_PHOTOGRAPH,
    J_RAISED_FIST,
    J_RESERVED_PARKING,
    J_ROUGH_GEM,
    J_SCARY_FACE,
    J_SCHOLAR,
    J_SELZER,
    J_SHOOT_THE_MOON,
    J_SMILEY,
    J_SOCK_AND_BUSKIN,
    J_TICKET,
    J_TRIBOULET,
    J_WALKIE_TALKIE,
    J_WEE,
    J_WRATHFUL_JOKER,
    M_GOLD,
    SPADES,
)
from ludus.games.balatro.pools import create_tarot
from ludus.games.balatro.state import (
    ANCIENT_SUIT,
    CARD,
    CARD_BONUS,
    HAND,
    HANDS_LEFT,
    IDOL_RANK,
    IDOL_SUIT,
    J_VALUE,
    JOKER,
    N_HAND,
    N_JOKERS,
    N_PLAY,
    PLAY,
    W_ACTING,
    W_AGAIN,
    W_ALL_FACES,
    W_FOR_HELD,
    W_FOR_SCORED,
    W_SCORING,
    W_SMEARED,
)
from ludus.games.balatro.tally import FROM_JOKER, add_chips, add_money, add_mult, times_mult


@kernel
def extra_triggers(s: Any, place: Any, first: Any) -> Any:
    """How many more times jokers let a scoring card count; `first` says whether it is the first that scores."""
    card = s[CARD + place]
    rank = rank_shown(card)
    more = 0
    if s[W_AGAIN] == 0:
        return more
    for i in range(s[N_JOKERS]):
        if not (s[W_AGAIN] >> i) & 1:
            continue
        joker = s[JOKER + s[W_ACTING + i]]
        if joker == J_HANGING_CHAD:
            if first:
                more += 2
        elif (
            (joker == J_SOCK_AND_BUSKIN and is_face(card, s[W_ALL_FACES], False))
            or (joker == J_HACK and 2 <= rank <= 5)
            or (joker == J_DUSK and s[HANDS_LEFT] == 0)
            or joker == J_SELZER
        ):
            more += 1
    return more


@kernel
def _first_face(s: Any) -> Any:
    """The place of the first face card that scores, for Photograph; -1 for none."""
    for i in range(s[N_PLAY]):
        place = s[PLAY + i]
        if (s[W_SCORING] >> i) & 1 and is_face(s[CARD + place], s[W_ALL_FACES], False):
            return place
    return -1


@kernel
def _suit_joker(s: Any, f: Any, q: Any, log: Any, i: Any, joker: Any, card: Any) -> None:
    smeared = s[W_SMEARED]
    if joker == J_GREEDY_JOKER:
        if is_suit(card, DIAMONDS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == J_LUSTY_JOKER:
        if is_suit(card, HEARTS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == J_WRATHFUL_JOKER:
        if is_suit(card, SPADES, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == J_GLUTTENOUS_JOKER:
        if is_suit(card, CLUBS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 3.0)
    elif joker == J_ROUGH_GEM:
        if is_suit(card, DIAMONDS, smeared, False):
            add_money(s, f, log, FROM_JOKER, i, 1)
    elif joker == J_BLOODSTONE:
        if is_suit(card, HEARTS, smeared, False) and happens(s, q, luck(s), 2):
            times_mult(f, log, FROM_JOKER, i, 1.5)
    elif joker == J_ARROWHEAD:
        if is_suit(card, SPADES, smeared, False):
            add_chips(f, log, FROM_JOKER, i, 50.0)
    elif joker == J_ONYX_AGATE:
        if is_suit(card, CLUBS, smeared, False):
            add_mult(f, log, FROM_JOKER, i, 7.0)
    elif joker == J_ANCIENT:
        if is_suit(card, s[ANCIENT_SUIT], smeared, False):
            times_mult(f, log, FROM_JOKER, i, 1.5)
    elif joker == J_IDOL and rank_shown(card) == s[IDOL_RANK] and is_suit(card, s[IDOL_SUIT], smeared, False):
        times_mult(f, log, FROM_JOKER, i, 2.0)


@kernel
def _rank_joker(s: Any, f: Any, q: Any, log: Any, i: Any, joker: Any, rank: Any) -> None:
    if joker == J_FIBONACCI:
        if rank == 2 or rank == 3 or rank == 5 or rank == 8 or rank == 14:
            add_mult(f, log, FROM_JOKER, i, 8.0)
    elif joker == J_EVEN_STEVEN:
        if 2 <= rank <= 10 and rank % 2 == 0:
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == J_ODD_TODD:
        if rank == 14 or (2 <= rank <= 10 and rank % 2 == 1):
            add_chips(f, log, FROM_JOKER, i, 31.0)
    elif joker == J_SCHOLAR:
        if rank == 14:
            add_chips(f, log, FROM_JOKER, i, 20.0)
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == J_WALKIE_TALKIE:
        if rank == 10 or rank == 4:
            add_chips(f, log, FROM_JOKER, i, 10.0)
            add_mult(f, log, FROM_JOKER, i, 4.0)
    elif joker == J_TRIBOULET:
        if rank == 12 or rank == 13:
            times_mult(f, log, FROM_JOKER, i, 2.0)
    elif joker == J_8_BALL and rank == 8 and consumable_room(s) > 0 and happens(s, q, luck(s), 4):
        create_tarot(s, q)


@kernel
def _face_joker(s: Any, f: Any, q: Any, log: Any, i: Any, joker: Any, place: Any) -> None:
    """Called for face cards only."""
    if joker == J_SCARY_FACE:
        add_chips(f, log, FROM_JOKER, i, 30.0)
    elif joker == J_SMILEY:
        add_mult(f, log, FROM_JOKER, i, 5.0)
    elif joker == J_PHOTOGRAPH:
        if _first_face(s) == place:
            times_mult(f, log, FROM_JOKER, i, 2.0)
    elif joker == J_BUSINESS and happens(s, q, luck(s), 2):
        add_money(s, f, log, FROM_JOKER, i, 2)


@kernel
def jokers_for_scored(s: Any, f: Any, q: Any, log: Any, place: Any, was_lucky: Any) -> None:
    """Every joker, left to right, answers to one trigger of a scoring card."""
    if s[W_FOR_SCORED] == 0:
        return
    card = s[CARD + place]
    rank = rank_shown(card)
    face = is_face(card, s[W_ALL_FACES], False)
    for i in range(s[N_JOKERS]):
        if not (s[W_FOR_SCORED] >> i) & 1:
            continue
        at = s[W_ACTING + i]
        joker = s[JOKER + at]
        if joker == J_HIKER:
            s[CARD_BONUS + place] += 5
        elif joker == J_TICKET:
            if enhancement_of(card) == M_GOLD:
                add_money(s, f, log, FROM_JOKER, i, 4)
        elif joker == J_WEE:
            if rank == 2 and at == i:
                f[J_VALUE + i] += 8.0
        elif joker == J_LUCKY_CAT:
            if was_lucky and at == i:
                f[J_VALUE + i] += 0.25
        else:
            if face:
                _face_joker(s, f, q, log, i, joker, place)
            _rank_joker(s, f, q, log, i, joker, rank)
            _suit_joker(s, f, q, log, i, joker, card)


@kernel
def _raised(s: Any) -> Any:
    """The place of the lowest card held, the rightmost of equals, for Raised Fist; -1 for none."""
    lowest, place = 15, -1
    for i in range(s[N_HAND]):
        rank = rank_shown(s[CARD + s[HAND + i]])
        if 0 < rank <= lowest:
            lowest, place = rank, s[HAND + i]
    return place


@kernel
def jokers_for_held(s: Any, f: Any, q: Any, log: Any, place: Any) -> Any:
    """Every joker, left to right, answers to one trigger of a card held in hand; whether any did something.

    Not to be called for a debuffed card.
    """
    if s[W_FOR_HELD] == 0:
        return False
    card = s[CARD + place]
    rank = rank_shown(card)
    did = False
    for i in range(s[N_JOKERS]):
        if not (s[W_FOR_HELD] >> i) & 1:
            continue
        joker = s[JOKER + s[W_ACTING + i]]
        if joker == J_SHOOT_THE_MOON:
            if rank == 12:
                add_mult(f, log, FROM_JOKER, i, 13.0)
                did = True
        elif joker == J_BARON:
            if rank == 13:
                times_mult(f, log, FROM_JOKER, i, 1.5)
                did = True
        elif joker == J_RESERVED_PARKING:
            if is_face(card, s[W_ALL_FACES], False) and happens(s, q, luck(s), 2):
                add_money(s, f, log, FROM_JOKER, i, 1)
                did = True
        elif joker == J_RAISED_FIST and _raised(s) == place:
            add_mult(f, log, FROM_JOKER, i, 2.0 * chips_of_rank(rank))
            did = True
    return did


@kernel
def held_triggers(s: Any) -> Any:
    """How many more times jokers let a held card count that did something: one for each Mime."""
    more = 0
    for i in range(s[N_JOKERS]):
        at = s[W_ACTING + i]
        if at >= 0 and s[JOKER + at] == J_MIME:
            more += 1
    return more
