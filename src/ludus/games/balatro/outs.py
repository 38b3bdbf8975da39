"""Outs: how many unseen cards help a hand, and how likely they are drawn.

The player cannot distinguish cards of the draw pile from face-down cards in the hand: see `unseen`.
"""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.cards import HIDDEN, in_flush, rank_shown
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.hand_notes import best_of, present_ranks
from ludus.games.balatro.lineup import count_joker
from ludus.games.balatro.names import CLUBS, DIAMONDS, HEARTS, J_SMEARED, M_WILD, SPADES
from ludus.games.balatro.state import CARD, DRAW_PILE, HAND, N_DRAW, N_HAND, PILE_CARDS, PILE_ENHANCED

SUIT_OUTS = 16  # in a row of outs: the suits follow the ranks
OUTS = SUIT_OUTS + 4


@kernel
def unseen(s: Any) -> Any:
    """Return the number of cards in the draw pile or face down in the hand."""
    count = s[N_DRAW]
    for i in range(s[N_HAND]):
        if s[CARD + s[HAND + i]] & HIDDEN:
            count += 1
    return count


@kernel
def count_outs(s: Any, outs: Any) -> None:
    """Count the unseen cards with a rank (`outs[rank]`, aces also at 1) and those that count for a flush of a suit."""
    smeared = count_joker(s, J_SMEARED) > 0
    for rank in range(2, 15):
        count = 0
        for suit in range(4):
            count += s[PILE_CARDS + 13 * suit + rank - 2]
        outs[rank] = count
    if s[PILE_ENHANCED + M_WILD] == 0:
        for suit in range(4):
            count = 0
            for k in range(PILE_CARDS + 13 * suit, PILE_CARDS + 13 * suit + 13):
                count += s[k]
            outs[SUIT_OUTS + suit] = count
        if smeared:
            outs[SUIT_OUTS + HEARTS] += outs[SUIT_OUTS + DIAMONDS]
            outs[SUIT_OUTS + DIAMONDS] = outs[SUIT_OUTS + HEARTS]
            outs[SUIT_OUTS + SPADES] += outs[SUIT_OUTS + CLUBS]
            outs[SUIT_OUTS + CLUBS] = outs[SUIT_OUTS + SPADES]
    else:
        for suit in range(4):
            count = 0
            for i in range(s[N_DRAW]):
                if in_flush(s[CARD + s[DRAW_PILE + i]], suit, smeared):
                    count += 1
            outs[SUIT_OUTS + suit] = count
    for i in range(s[N_HAND]):
        card = s[CARD + s[HAND + i]]
        if card & HIDDEN:
            outs[rank_shown(card)] += 1
            for suit in range(4):
                if in_flush(card, suit, smeared):
                    outs[SUIT_OUTS + suit] += 1
    outs[1] = outs[14]


@kernel
def at_least(need: Any, draws: Any, outs: Any, pile: Any) -> Any:
    """Return the probability that `draws` cards of a pile contain at least `need` of its `outs`."""
    if need <= 0:
        return 1.0
    draws = min(draws, pile)
    if need > draws or need > outs:
        return 0.0
    chance = 0.0
    of_hits = 1.0
    for hits in range(1, min(draws, outs) + 1):
        k = hits - 1
        of_hits *= (outs - k) * (draws - k) / (k + 1.0) / (pile - k)
        if hits < need:
            continue
        term = of_hits
        for k in range(draws - hits):
            term *= max(0.0, (pile - outs - k)) / (pile - hits - k)
        chance += term
    return chance


@kernel
def straight_draw(notes: Any, n: Any, outs: Any) -> Any:
    """Return (positions of the longest part of a straight as bits, its length, outs for the missing ranks)."""
    present = present_ranks(notes, (1 << n) - 1, n)
    best, length, best_outs = 0, 0, -1
    for low in range(1, 11):
        count, missing = 0, 0
        for rank in range(low, low + 5):
            if (present >> rank) & 1:
                count += 1
            else:
                missing += outs[rank]
        if count > length or (count == length and missing > best_outs):
            best, length, best_outs = low, count, missing
    bits = 0
    for rank in range(best, best + 5):
        if (present >> rank) & 1:
            bits |= best_of(notes, (1 << n) - 1, 14 if rank == 1 else rank, 1, n)
    return bits, length, best_outs
