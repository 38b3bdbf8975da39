"""Playing cards: how one is packed into an integer, and what the rules ask of it.

Bits: rank 0-3 (2 to 14), suit 4-5, enhancement 6-9, edition 10-12, seal 13-15, then conditions. A Stone card
keeps its rank and suit but shows neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.names import DIAMONDS, HEARTS, M_STONE, M_WILD

DEBUFF, HIDDEN, PLAYED_ANTE, FORCED = 1 << 16, 1 << 17, 1 << 18, 1 << 19
FACE_MASK = (1 << 16) - 1  # what a card is, without its conditions
IDENTITY = (1 << 6) - 1  # rank and suit


@kernel
def rank_of(card: Any) -> Any:
    """2 to 14 (ace), printed on the card; see `rank_shown`."""
    return card & 15


@kernel
def suit_of(card: Any) -> Any:
    return (card >> 4) & 3


@kernel
def enhancement_of(card: Any) -> Any:
    return (card >> 6) & 15


@kernel
def edition_of(card: Any) -> Any:
    return (card >> 10) & 7


@kernel
def seal_of(card: Any) -> Any:
    return (card >> 13) & 7


@kernel
def make_card(rank: Any, suit: Any, enhancement: Any, edition: Any, seal: Any) -> Any:
    return rank | (suit << 4) | (enhancement << 6) | (edition << 10) | (seal << 13)


@kernel
def with_enhancement(card: Any, enhancement: Any) -> Any:
    return (card & ~(15 << 6)) | (enhancement << 6)


@kernel
def with_edition(card: Any, edition: Any) -> Any:
    return (card & ~(7 << 10)) | (edition << 10)


@kernel
def with_seal(card: Any, seal: Any) -> Any:
    return (card & ~(7 << 13)) | (seal << 13)


@kernel
def with_rank(card: Any, rank: Any) -> Any:
    return (card & ~15) | rank


@kernel
def with_suit(card: Any, suit: Any) -> Any:
    return (card & ~(3 << 4)) | (suit << 4)


@kernel
def rank_shown(card: Any) -> Any:
    """The rank that rules see: 0 for a Stone card."""
    if enhancement_of(card) == M_STONE:
        return card & 0
    return card & 15


@kernel
def chips_of_rank(rank: Any) -> Any:
    if rank == 14:
        return 11
    return min(rank, 10)


@kernel
def is_suit(card: Any, suit: Any, smeared: Any, through_debuff: Any) -> Any:
    """Whether a rule that asks for a suit takes this card."""
    if card & DEBUFF and not through_debuff:
        return False
    enhancement = enhancement_of(card)
    if enhancement == M_STONE:
        return False
    if enhancement == M_WILD:
        return True
    return _same_suit(suit_of(card), suit, smeared)


@kernel
def in_flush(card: Any, suit: Any, smeared: Any) -> Any:
    """Whether the card counts towards a flush: a debuffed one does, but a debuffed Wild has its own suit only."""
    enhancement = enhancement_of(card)
    if enhancement == M_STONE:
        return False
    if enhancement == M_WILD and not card & DEBUFF:
        return True
    return _same_suit(suit_of(card), suit, smeared)


@kernel
def _same_suit(mine: Any, suit: Any, smeared: Any) -> Any:
    if smeared:
        return (mine in (HEARTS, DIAMONDS)) == (suit in (HEARTS, DIAMONDS))
    return mine == suit


@kernel
def is_face(card: Any, all_faces: Any, through_debuff: Any) -> Any:
    """Jack, Queen, King; every card with Pareidolia. A debuffed card is none unless a boss asks."""
    if card & DEBUFF and not through_debuff:
        return False
    rank = rank_shown(card)
    return all_faces or (rank >= 11 and rank <= 13)


@kernel
def sort_key(card: Any) -> Any:
    """Larger stands further left: rank, then Spades, Hearts, Clubs, Diamonds.

    Stone cards come last, by suit the other way round and then by rank.
    """
    if enhancement_of(card) == M_STONE:
        return suit_of(card) * 16 + (card & 15) - 1000
    return (card & 15) * 4 + (3 - suit_of(card))


@kernel
def sort_hand(s: Any) -> None:
    """Sorts the hand as the game does after every draw; cards that tie keep their order."""
    for i in range(1, s[st.N_HAND]):
        card = s[st.HAND + i]
        key = sort_key(s[st.CARD + card])
        j = i - 1
        while j >= 0 and sort_key(s[st.CARD + s[st.HAND + j]]) < key:
            s[st.HAND + j + 1] = s[st.HAND + j]
            j -= 1
        s[st.HAND + j + 1] = card


@kernel
def new_card(s: Any, card: Any) -> Any:
    """Puts a card into the deck's record and returns its place there, -1 when the record is full.

    The caller says where it lies: in the draw pile or in the hand.
    """
    for place in range(st.MAX_CARDS):
        if s[st.CARD + place] == 0:
            s[st.CARD + place] = card
            s[st.CARD_BONUS + place] = 0
            s[st.N_CARDS] += 1
            s[st.CARD_TOP] = max(s[st.CARD_TOP], place + 1)
            return place
    return -1


@kernel
def _count_in_pile(s: Any, card: Any, by: Any) -> None:
    enhancement = enhancement_of(card)
    s[st.PILE_ENHANCED + enhancement] += by
    if enhancement != M_STONE:
        s[st.PILE_CARDS + suit_of(card) * 13 + rank_of(card) - 2] += by


@entry
def count_pile(s: Any) -> None:
    """Counts what the draw pile holds; to be called by whoever lays cards there or changes them by hand."""
    for k in range(st.PILE_CARDS, st.PILE_ENHANCED + 9):
        s[k] = 0
    plain = 0
    for i in range(s[st.N_DRAW]):
        card = s[st.CARD + s[st.DRAW_PILE + i]]
        if enhancement_of(card) == 0:  # most are: a count in memory would have to wait for itself
            plain += 1
            s[st.PILE_CARDS + suit_of(card) * 13 + rank_of(card) - 2] += 1
        else:
            _count_in_pile(s, card, 1)
    s[st.PILE_ENHANCED] = plain


@kernel
def to_draw_pile(s: Any, place: Any) -> None:
    s[st.DRAW_PILE + s[st.N_DRAW]] = place
    s[st.N_DRAW] += 1
    _count_in_pile(s, s[st.CARD + place], 1)


@kernel
def from_draw_pile(s: Any, at: Any) -> Any:
    """Takes the card at a position of the draw pile, in whose place the last one goes; its place in the record."""
    place = s[st.DRAW_PILE + at]
    s[st.N_DRAW] -= 1
    s[st.DRAW_PILE + at] = s[st.DRAW_PILE + s[st.N_DRAW]]
    _count_in_pile(s, s[st.CARD + place], -1)
    return place


@kernel
def to_hand(s: Any, place: Any) -> None:
    """Adds a card to the hand; one that does not fit into the row goes to the draw pile."""
    if s[st.N_HAND] >= st.MAX_HAND:
        to_draw_pile(s, place)
        return
    s[st.HAND + s[st.N_HAND]] = place
    s[st.N_HAND] += 1


@kernel
def leave_hand(s: Any, at: Any) -> None:
    """Takes the card at a position out of the hand; it stays in the deck's record."""
    for i in range(at, s[st.N_HAND] - 1):
        s[st.HAND + i] = s[st.HAND + i + 1]
    s[st.N_HAND] -= 1


@kernel
def destroy_card(s: Any, place: Any) -> None:
    """Removes a card from the game, wherever it lies."""
    for i in range(s[st.N_HAND]):
        if s[st.HAND + i] == place:
            leave_hand(s, i)
            break
    for i in range(s[st.N_DRAW]):
        if s[st.DRAW_PILE + i] == place:
            from_draw_pile(s, i)
            break
    for i in range(s[st.N_PLAY]):
        if s[st.PLAY + i] == place:
            for j in range(i, s[st.N_PLAY] - 1):
                s[st.PLAY + j] = s[st.PLAY + j + 1]
            s[st.N_PLAY] -= 1
            break
    s[st.CARD + place] = 0
    s[st.CARD_BONUS + place] = 0
    s[st.N_CARDS] -= 1
    while s[st.CARD_TOP] > 0 and s[st.CARD + s[st.CARD_TOP] - 1] == 0:
        s[st.CARD_TOP] -= 1


@entry
def collect_cards(s: Any) -> None:
    """Every card back into the draw pile, face up and free of what the round did to it."""
    s[st.N_HAND] = 0
    s[st.N_PLAY] = 0
    count = 0
    for place in range(s[st.CARD_TOP]):
        if s[st.CARD + place] != 0:
            s[st.CARD + place] &= ~(HIDDEN | FORCED | DEBUFF)
            s[st.DRAW_PILE + count] = place
            count += 1
    s[st.N_DRAW] = count
    count_pile(s)


@kernel
def count_enhancement(s: Any, enhancement: Any) -> Any:
    """How many cards of the full deck have an enhancement."""
    count = 0
    for place in range(s[st.CARD_TOP]):
        if enhancement_of(s[st.CARD + place]) == enhancement and s[st.CARD + place] != 0:
            count += 1
    return count


def packed(rank: int, suit: int, enhancement: int = 0, edition: int = 0, seal: int = 0) -> int:
    """`make_card` for Python."""
    return int(np.int64(rank | suit << 4 | enhancement << 6 | edition << 10 | seal << 13))
