"""Playing cards: a card packed into one integer, and the questions that rules ask about it.

Bits: rank 0-3 (2 to 14), suit 4-5, enhancement 6-9, edition 10-12, seal 13-15, then conditions. A Stone card
keeps its rank and suit in these bits, but counts as having neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_POSITION, begin_shuffle, below, given, shuffle_up_to
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.names import DIAMONDS, HEARTS, M_STONE, M_WILD

DEBUFF, HIDDEN, PLAYED_ANTE, FORCED = 1 << 16, 1 << 17, 1 << 18, 1 << 19
FACE_MASK = (1 << 16) - 1  # the card itself, without its conditions
IDENTITY = (1 << 6) - 1  # rank and suit


@kernel
def rank_of(card: Any) -> Any:
    """Return the printed rank, 2 to 14 (ace). `rank_shown` is the rank that rules see."""
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
    """Return the rank that rules see: 0 for a Stone card."""
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
    """Return whether the card counts as a suit. `through_debuff` also accepts debuffed cards."""
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
    """Return whether the card counts towards a flush. A debuffed one does, a debuffed Wild only in its own suit."""
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
    """Return whether it is a Jack, Queen or King (with Pareidolia: any card); debuffed only if `through_debuff`."""
    if card & DEBUFF and not through_debuff:
        return False
    rank = rank_shown(card)
    return all_faces or (rank >= 11 and rank <= 13)


@kernel
def sort_key(card: Any) -> Any:
    """Return the sort key; larger keys are further left: by rank, then Spades, Hearts, Clubs, Diamonds.

    Stone cards come last, in reverse order of suit and then by rank.
    """
    if enhancement_of(card) == M_STONE:
        return suit_of(card) * 16 + (card & 15) - 1000
    return (card & 15) * 4 + (3 - suit_of(card))


@kernel
def sort_hand(s: Any) -> None:
    """Sort the hand as the game does after every draw; the sort is stable."""
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
    """Add a card to the deck and return its slot, or -1 if all slots are used.

    The caller puts it into the draw pile or the hand.
    """
    slot = s[st.CARD_TOP]
    if slot == st.MAX_CARDS:  # `collect_cards` closes gaps; until then a card may come before older ones
        slot = 0
        while slot < st.MAX_CARDS and s[st.CARD + slot] != 0:
            slot += 1
        if slot == st.MAX_CARDS:
            return -1
    s[st.CARD + slot] = card
    s[st.CARD_BONUS + slot] = 0
    s[st.N_CARDS] += 1
    s[st.CARD_TOP] = max(s[st.CARD_TOP], slot + 1)
    return slot


@kernel
def _count_in_pile(s: Any, card: Any, by: Any) -> None:
    enhancement = enhancement_of(card)
    s[st.PILE_ENHANCED + enhancement] += by
    if enhancement != M_STONE:
        s[st.PILE_CARDS + suit_of(card) * 13 + rank_of(card) - 2] += by


@entry
def count_pile(s: Any) -> None:
    """Count the cards of the draw pile. Call it after writing the pile or its cards directly."""
    for k in range(st.PILE_CARDS, st.PILE_ENHANCED + 9):
        s[k] = 0
    plain = 0
    for i in range(s[st.N_DRAW]):
        card = s[st.CARD + s[st.DRAW_PILE + i]]
        if (
            enhancement_of(card) == 0
        ):  # the common case: counting in a local variable is faster than in memory
            plain += 1
            s[st.PILE_CARDS + suit_of(card) * 13 + rank_of(card) - 2] += 1
        else:
            _count_in_pile(s, card, 1)
    s[st.PILE_ENHANCED] = plain


@kernel
def to_draw_pile(s: Any, slot: Any) -> None:
    """Put a card at the bottom of the draw pile, which is the front of the list."""
    shuffle_up_to(s, 0)
    for i in range(s[st.N_DRAW], 0, -1):
        s[st.DRAW_PILE + i] = s[st.DRAW_PILE + i - 1]
    s[st.DRAW_PILE] = slot
    s[st.N_DRAW] += 1
    _count_in_pile(s, s[st.CARD + slot], 1)


@kernel
def from_draw_pile(s: Any, at: Any) -> Any:
    """Remove the card at a position of the draw pile and return its slot; the others keep their order."""
    shuffle_up_to(s, at)
    slot = s[st.DRAW_PILE + at]
    s[st.N_DRAW] -= 1
    for i in range(at, s[st.N_DRAW]):
        s[st.DRAW_PILE + i] = s[st.DRAW_PILE + i + 1]
    _count_in_pile(s, s[st.CARD + slot], -1)
    return slot


@kernel
def random_from_draw_pile(s: Any, at: Any) -> Any:
    """Remove the card at a position of a draw pile without an order, and return its slot."""
    slot = s[st.DRAW_PILE + at]
    s[st.N_DRAW] -= 1
    s[st.DRAW_PILE + at] = s[st.DRAW_PILE + s[st.N_DRAW]]
    _count_in_pile(s, s[st.CARD + slot], -1)
    return slot


@kernel
def shuffle_draw_pile(s: Any, stream: Any) -> None:
    """Shuffle the draw pile from the order in which its cards were created, while it holds every card."""
    count = 0
    for slot in range(s[st.CARD_TOP]):
        if s[st.CARD + slot] != 0:
            s[st.DRAW_PILE + count] = slot
            count += 1
    begin_shuffle(s, stream)


@kernel
def return_hand(s: Any) -> None:
    """Put the cards of the hand at the bottom of the draw pile, face up, when a pack is closed."""
    for i in range(s[st.N_HAND]):
        s[st.CARD + s[st.HAND + i]] &= ~(HIDDEN | FORCED)
        to_draw_pile(s, s[st.HAND + i])
    s[st.N_HAND] = 0


@kernel
def hand_by_age(s: Any, candidates: Any, index: Any) -> Any:
    """Return the position in the hand of the candidate (a bit each) that was created as number `index` of them."""
    for i in range(s[st.N_HAND]):
        if (candidates >> i) & 1:
            older = 0
            for k in range(s[st.N_HAND]):
                if (candidates >> k) & 1 and s[st.HAND + k] < s[st.HAND + i]:
                    older += 1
            if older == index:
                return i
    return 0


@kernel
def pick_from_hand(s: Any, queue: Any, stream: Any) -> Any:
    """Return the position of a card of the hand, drawn in the order of creation; a given outcome is a position."""
    at = given(queue, GIVEN_POSITION)
    if 0 <= at < s[st.N_HAND]:
        return at
    return hand_by_age(s, (1 << s[st.N_HAND]) - 1, below(s, stream, s[st.N_HAND]))


@kernel
def to_hand(s: Any, slot: Any) -> None:
    """Add a card to the hand. If the hand is full, it goes to the draw pile."""
    if s[st.N_HAND] >= st.MAX_HAND:
        to_draw_pile(s, slot)
        return
    s[st.HAND + s[st.N_HAND]] = slot
    s[st.N_HAND] += 1


@kernel
def leave_hand(s: Any, at: Any) -> None:
    """Remove the card at a position from the hand; it stays in the deck."""
    for i in range(at, s[st.N_HAND] - 1):
        s[st.HAND + i] = s[st.HAND + i + 1]
    s[st.N_HAND] -= 1


@kernel
def destroy_card(s: Any, slot: Any) -> None:
    """Remove a card from the game: from the hand, the draw pile or the played cards."""
    for i in range(s[st.N_HAND]):
        if s[st.HAND + i] == slot:
            leave_hand(s, i)
            break
    for i in range(s[st.N_DRAW]):
        if s[st.DRAW_PILE + i] == slot:
            from_draw_pile(s, i)
            break
    for i in range(s[st.N_PLAY]):
        if s[st.PLAY + i] == slot:
            for j in range(i, s[st.N_PLAY] - 1):
                s[st.PLAY + j] = s[st.PLAY + j + 1]
            s[st.N_PLAY] -= 1
            break
    s[st.CARD + slot] = 0
    s[st.CARD_BONUS + slot] = 0
    s[st.N_CARDS] -= 1
    while s[st.CARD_TOP] > 0 and s[st.CARD + s[st.CARD_TOP] - 1] == 0:
        s[st.CARD_TOP] -= 1


@entry
def collect_cards(s: Any) -> None:
    """Return every card to the draw pile, face up and without the conditions of the round.

    Cards lie in the order in which they were created; the slots of destroyed ones are closed.
    """
    s[st.N_HAND] = 0
    s[st.N_PLAY] = 0
    count = 0
    for slot in range(s[st.CARD_TOP]):
        if s[st.CARD + slot] != 0:
            if count != slot:
                s[st.CARD + count] = s[st.CARD + slot]
                s[st.CARD_BONUS + count] = s[st.CARD_BONUS + slot]
                s[st.CARD + slot] = 0
                s[st.CARD_BONUS + slot] = 0
            s[st.CARD + count] &= ~(HIDDEN | FORCED | DEBUFF)
            s[st.DRAW_PILE + count] = count
            count += 1
    s[st.CARD_TOP] = count
    s[st.N_DRAW] = count
    s[st.UNSHUFFLED] = 0
    count_pile(s)


@kernel
def count_enhancement(s: Any, enhancement: Any) -> Any:
    """Return the number of cards of the full deck with an enhancement."""
    count = 0
    for slot in range(s[st.CARD_TOP]):
        if enhancement_of(s[st.CARD + slot]) == enhancement and s[st.CARD + slot] != 0:
            count += 1
    return count


def packed(rank: int, suit: int, enhancement: int = 0, edition: int = 0, seal: int = 0) -> int:
    """Pack a card: `make_card` for callers in Python."""
    return int(np.int64(rank | suit << 4 | enhancement << 6 | edition << 10 | seal << 13))
