"""What a player sees in the hand at a glance: ranks and suits as bits, what each card adds, which to give up first.

It is noted once for a hand, in a row of numbers `w`: the constants are positions in it, each the beginning of a list.
"""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import count_joker
from ludus.games.balatro.names import BL_FINAL_BELL, J_SMEARED, M_BONUS, M_GLASS, M_LUCKY, M_MULT, M_STONE
from ludus.games.balatro.state import BLIND, CARD, CARD_BONUS, HAND, MAX_HAND, N_HAND

KEEPING = 0  # by position: how much the card is worth keeping
VALUE = KEEPING + MAX_HAND  # what it adds by itself, about
RANK = VALUE + MAX_HAND  # the rank it shows; 0 for Stone and face down
ORDER = RANK + MAX_HAND  # positions, those least worth keeping first
OF_RANK = ORDER + MAX_HAND + 3  # by rank: positions that show it, as bits; with three ranks below 0, above 14
OF_SUIT = OF_RANK + 18  # by suit: the positions that count for a flush
NOTES = OF_SUIT + 4


@kernel
def _value(s: Any, i: Any) -> Any:
    """What a card of the hand adds by itself, about; for choosing between equal ranks and suits."""
    place = s[HAND + i]
    card = s[CARD + place]
    if card & cards.HIDDEN:
        return 1
    if card & cards.DEBUFF:
        return 0
    enhancement = cards.enhancement_of(card)
    value = s[CARD_BONUS + place] + (
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
def note_hand(s: Any, n: Any, w: Any) -> None:
    """Notes the first n cards of the hand.

    A card is worth keeping for the company of its rank, of its suit and of ranks near it, then for its own value.
    """
    smeared = count_joker(s, J_SMEARED) > 0
    for k in range(OF_RANK - 3, NOTES):
        w[k] = 0
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        w[VALUE + i] = _value(s, i)
        w[RANK + i] = 0
        if not card & cards.HIDDEN:
            rank = cards.rank_shown(card)
            w[RANK + i] = rank
            w[OF_RANK + rank] |= 1 << i
            for suit in range(4):
                if cards.in_flush(card, suit, smeared):
                    w[OF_SUIT + suit] |= 1 << i
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        worth = w[VALUE + i]
        if not card & cards.HIDDEN:
            rank = w[RANK + i]
            near = 0
            for k in range(OF_RANK + rank - 3, OF_RANK + rank + 4):
                near |= w[k]
            worth += 4 * count_bits(near)
            if rank > 0:
                worth += 100 * count_bits(w[OF_RANK + rank]) + 25 * count_bits(
                    w[OF_SUIT + cards.suit_of(card)]
                )
        w[KEEPING + i] = worth
    order_hand(n, w)


@kernel
def order_hand(n: Any, w: Any) -> None:
    """ORDER by KEEPING; of cards worth the same the left one comes first."""
    for i in range(n):
        k = i
        while k > 0 and w[KEEPING + w[ORDER + k - 1]] > w[KEEPING + i]:
            w[ORDER + k] = w[ORDER + k - 1]
            k -= 1
        w[ORDER + k] = i


@kernel
def count_bits(bits: Any) -> Any:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@kernel
def best_of(w: Any, allowed: Any, rank: Any, count: Any, n: Any) -> Any:
    """The `count` most valuable cards of a rank among the allowed positions, as bits; 0 when there are fewer."""
    left = w[OF_RANK + rank] & allowed
    found = count_bits(left)
    if found < count:
        return 0
    if found == count:
        return left
    return most_valuable(w, left, count, n)


@kernel
def most_valuable(w: Any, left: Any, count: Any, n: Any) -> Any:
    """The `count` most valuable cards among the positions that are left, as bits."""
    bits = 0
    for _ in range(count):
        best, top = 0, -1
        for i in range(n):
            if (left >> i) & 1 and w[VALUE + i] > top:
                best, top = i, w[VALUE + i]
        bits |= 1 << best
        left &= ~(1 << best)
    return bits


@kernel
def present_ranks(w: Any, allowed: Any, n: Any) -> Any:
    """The ranks among the allowed positions, as bits; an ace is also at 1."""
    present = 0
    for i in range(n):
        if (allowed >> i) & 1:
            present |= 1 << w[RANK + i]
    return (present & ~3) | ((present >> 13) & 2)


@kernel
def forced_cards(s: Any) -> Any:
    """Positions of cards that every set must hold, as bits (Cerulean Bell)."""
    bits = 0
    if s[BLIND] == BL_FINAL_BELL:
        for i in range(s[N_HAND]):
            if s[CARD + s[HAND + i]] & cards.FORCED:
                bits |= 1 << i
    return bits


@kernel
def fill_up(bits: Any, avoid: Any, n: Any, w: Any, size: Any) -> Any:
    """Adds the cards least worth keeping, but none of `avoid`, until there are `size`."""
    count = count_bits(bits)
    for k in range(n):
        if count >= size:
            break
        card = 1 << w[ORDER + k]
        if not (bits | avoid) & card:
            bits |= card
            count += 1
    return bits
