"""Recognition of poker hands: the hand of the played cards, the hands they contain, and the cards that score."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro.cards import in_flush, rank_shown, sort_key
from ludus.games.balatro.compiled import kernel


@kernel
def _flush(cards: Any, n: Any, need: Any, smeared: Any) -> Any:
    """Return the positions of a flush as bits, 0 if there is none. Suits are tried in the game's order."""
    if n < need:
        return 0
    for suit in range(4):
        bits, others = 0, 0
        for i in range(n):
            if in_flush(cards[i], suit, smeared):
                bits |= 1 << i
            else:
                others += 1
                if others > n - need:
                    break
        if others <= n - need:
            return bits
    return 0


@kernel
def _straight(cards: Any, n: Any, need: Any, shortcut: Any) -> Any:
    """Return the positions of a straight as bits, 0 if there is none. An ace is low and high; shortcut allows gaps."""
    if n < need:
        return 0
    present = 0
    for i in range(n):
        present |= 1 << rank_shown(cards[i])
    present = (present & ~3) | ((present >> 13) & 2)
    if not shortcut:  # most hands have no four, or five, ranks in a row
        in_a_row = present & (present >> 1) & (present >> 2) & (present >> 3)
        if need == 5:
            in_a_row &= present >> 4
        if in_a_row == 0:
            return 0
    run, length = 0, 0
    found, skipped = False, False
    for rank in range(1, 15):
        if (present >> rank) & 1:
            length += 1
            skipped = False
            run |= 1 << rank
        elif shortcut and not skipped and rank != 14:
            skipped = True
        else:
            length = 0
            skipped = False
            if found:
                break
            run = 0
        if length >= need:
            found = True
    if not found:
        return 0
    run |= (run & 2) << 13
    bits = 0
    for i in range(n):
        rank = rank_shown(cards[i])
        if rank > 0 and (run >> rank) & 1:
            bits |= 1 << i
    return bits


@kernel
def poker_hand(cards: Any, n: Any, four_fingers: Any, shortcut: Any, smeared: Any) -> Any:
    """Return (hand, contained, scoring) of the first n cards.

    `contained` has bit h set for each poker hand h that the cards contain; `scoring` has a bit for each position
    that belongs to the hand. The caller adds Stone cards and Splash.
    """
    need = 4 if four_fingers else 5
    flush = _flush(cards, n, need, smeared)
    straight = _straight(cards, n, need, shortcut)

    pairs, threes, fours, fives = 0, 0, 0, 0
    pair_bits, second_pair, three_bits, four_bits, five_bits = 0, 0, 0, 0, 0
    done = 0
    for i in range(n):
        rank = rank_shown(cards[i])
        if rank == 0 or (done >> i) & 1:
            continue
        bits, count = 0, 0
        for k in range(i, n):
            if rank_shown(cards[k]) == rank:
                bits |= 1 << k
                count += 1
        done |= bits
        if count == 2:
            if pairs == 0:
                pair_bits = bits
            else:
                second_pair = bits
            pairs += 1
        elif count == 3:
            threes += 1
            three_bits = bits
        elif count == 4:
            fours += 1
            four_bits = bits
        elif count == 5:
            fives += 1
            five_bits = bits

    contained = 1 << nm.HIGH_CARD
    if pairs + threes + fours + fives > 0:
        contained |= 1 << nm.PAIR
    if threes + fours + fives > 0:
        contained |= 1 << nm.THREE_OF_A_KIND
    if fours + fives > 0:
        contained |= 1 << nm.FOUR_OF_A_KIND
    if fives > 0:
        contained |= 1 << nm.FIVE_OF_A_KIND
    if pairs == 2 or (pairs == 1 and threes == 1):
        contained |= 1 << nm.TWO_PAIR
    if pairs >= 1 and threes >= 1:
        contained |= 1 << nm.FULL_HOUSE
    if flush:
        contained |= 1 << nm.FLUSH
    if straight:
        contained |= 1 << nm.STRAIGHT
    if flush and straight:
        contained |= 1 << nm.STRAIGHT_FLUSH
    if flush and fives > 0:
        contained |= 1 << nm.FLUSH_FIVE
    if flush and pairs >= 1 and threes >= 1:
        contained |= 1 << nm.FLUSH_HOUSE

    if contained & (1 << nm.FLUSH_FIVE):
        return nm.FLUSH_FIVE, contained, five_bits
    if contained & (1 << nm.FLUSH_HOUSE):
        return nm.FLUSH_HOUSE, contained, three_bits | pair_bits
    if fives > 0:
        return nm.FIVE_OF_A_KIND, contained, five_bits
    if contained & (1 << nm.STRAIGHT_FLUSH):
        return nm.STRAIGHT_FLUSH, contained, straight | flush
    if fours > 0:
        return nm.FOUR_OF_A_KIND, contained, four_bits
    if contained & (1 << nm.FULL_HOUSE):
        return nm.FULL_HOUSE, contained, three_bits | pair_bits
    if flush:
        return nm.FLUSH, contained, flush
    if straight:
        return nm.STRAIGHT, contained, straight
    if threes > 0:
        return nm.THREE_OF_A_KIND, contained, three_bits
    if pairs == 2:
        return nm.TWO_PAIR, contained, pair_bits | second_pair
    if pairs == 1:
        return nm.PAIR, contained, pair_bits
    best = 0
    for i in range(1, n):
        if sort_key(cards[i]) > sort_key(cards[best]):
            best = i
    return nm.HIGH_CARD, contained, 1 << best


@kernel
def stones(cards: Any, n: Any) -> Any:
    """Return the positions of Stone cards as bits: they score in every hand."""
    bits = 0
    for i in range(n):
        if ((cards[i] >> 6) & 15) == nm.M_STONE:
            bits |= 1 << i
    return bits


def contains(contained: int, hand: int) -> bool:
    """Return whether the bits `contained` include `hand`."""
    return bool(np.int64(contained) >> hand & 1)
