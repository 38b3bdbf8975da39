"""Summary of the hand for choosing cards: ranks and suits as bits, the value of each card, which to discard first.

It is computed once per hand, in a row of numbers `notes`: the constants are positions in it, each the start of a list.
"""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import count_joker
from ludus.games.balatro.names import BL_FINAL_BELL, J_SMEARED, M_BONUS, M_GLASS, M_LUCKY, M_MULT, M_STONE
from ludus.games.balatro.state import BLIND, CARD, CARD_BONUS, HAND, MAX_HAND, N_HAND

KEEPING = 0  # by position: how much the card is worth keeping, for sets with other cards
VALUE = KEEPING + MAX_HAND  # about what the card adds by itself
RANK = VALUE + MAX_HAND  # the rank that rules see; 0 for Stone and face-down cards
ORDER = RANK + MAX_HAND  # positions, least worth keeping first
OF_RANK = (
    ORDER + MAX_HAND + 3
)  # by rank: positions with that rank, as bits; padded by three below 0 and above 14
OF_SUIT = OF_RANK + 18  # by suit: positions that count for a flush, as bits
NOTES = OF_SUIT + 4


@kernel
def _value(s: Any, i: Any) -> Any:
    """Return about what a card of the hand adds by itself; used to choose between equal ranks and suits."""
    slot = s[HAND + i]
    card = s[CARD + slot]
    if card & cards.HIDDEN:
        return 1
    if card & cards.DEBUFF:
        return 0
    enhancement = cards.enhancement_of(card)
    value = s[CARD_BONUS + slot] + (
        50 if enhancement == M_STONE else cards.chips_of_rank(cards.rank_of(card))
    )
    if enhancement == M_BONUS:
        value += 30
    elif enhancement in (M_MULT, M_LUCKY):
        value += 40
    elif enhancement == M_GLASS:
        value += 100
    if (card >> 10) & 7:
        value += 50
    if (card >> 13) & 7:
        value += 20
    return value


@kernel
def note_hand(s: Any, n: Any, notes: Any) -> None:
    """Write the notes for the first n cards of the hand.

    A card is worth keeping if others have its rank, its suit or a rank near it; after that, its own value counts.
    """
    smeared = count_joker(s, J_SMEARED) > 0
    for k in range(OF_RANK - 3, NOTES):
        notes[k] = 0
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        notes[VALUE + i] = _value(s, i)
        notes[RANK + i] = 0
        if not card & cards.HIDDEN:
            rank = cards.rank_shown(card)
            notes[RANK + i] = rank
            notes[OF_RANK + rank] |= 1 << i
            for suit in range(4):
                if cards.in_flush(card, suit, smeared):
                    notes[OF_SUIT + suit] |= 1 << i
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        worth = notes[VALUE + i]
        if not card & cards.HIDDEN:
            rank = notes[RANK + i]
            near = 0
            for k in range(OF_RANK + rank - 3, OF_RANK + rank + 4):
                near |= notes[k]
            worth += 4 * count_bits(near)
            if rank > 0:
                worth += 100 * count_bits(notes[OF_RANK + rank]) + 25 * count_bits(
                    notes[OF_SUIT + cards.suit_of(card)]
                )
        notes[KEEPING + i] = worth
    order_hand(n, notes)


@kernel
def order_hand(n: Any, notes: Any) -> None:
    """Sort the positions into ORDER by KEEPING; of equal cards the left one comes first."""
    for i in range(n):
        k = i
        while k > 0 and notes[KEEPING + notes[ORDER + k - 1]] > notes[KEEPING + i]:
            notes[ORDER + k] = notes[ORDER + k - 1]
            k -= 1
        notes[ORDER + k] = i


@kernel
def count_bits(bits: Any) -> Any:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@kernel
def best_of(notes: Any, allowed: Any, rank: Any, count: Any, n: Any) -> Any:
    """Return the `count` most valuable cards of a rank among the allowed positions, as bits; 0 if there are fewer."""
    left = notes[OF_RANK + rank] & allowed
    found = count_bits(left)
    if found < count:
        return 0
    if found == count:
        return left
    return most_valuable(notes, left, count, n)


@kernel
def most_valuable(notes: Any, left: Any, count: Any, n: Any) -> Any:
    """Return the `count` most valuable cards among the positions in `left`, as bits."""
    bits = 0
    for _ in range(count):
        best, top = 0, -1
        for i in range(n):
            if (left >> i) & 1 and notes[VALUE + i] > top:
                best, top = i, notes[VALUE + i]
        bits |= 1 << best
        left &= ~(1 << best)
    return bits


@kernel
def present_ranks(notes: Any, allowed: Any, n: Any) -> Any:
    """Return the ranks among the allowed positions, as bits; an ace is also at 1."""
    present = 0
    for i in range(n):
        if (allowed >> i) & 1:
            present |= 1 << notes[RANK + i]
    return (present & ~3) | ((present >> 13) & 2)


@kernel
def forced_cards(s: Any) -> Any:
    """Return the positions of cards that every set must contain, as bits (Cerulean Bell)."""
    bits = 0
    if s[BLIND] == BL_FINAL_BELL:
        for i in range(s[N_HAND]):
            if s[CARD + s[HAND + i]] & cards.FORCED:
                bits |= 1 << i
    return bits


@kernel
def fill_up(bits: Any, avoid: Any, n: Any, notes: Any, size: Any) -> Any:
    """Add the cards least worth keeping, except those in `avoid`, until there are `size` cards."""
    count = count_bits(bits)
    for k in range(n):
        if count >= size:
            break
        card = 1 << notes[ORDER + k]
        if not (bits | avoid) & card:
            bits |= card
            count += 1
    return bits
