"""What may still be drawn: how many cards help a hand, and how likely they come.

Cards of the draw pile and cards that lie face down in the hand are one for the player: see `unseen`.
"""

from __future__ import annotations

from typing import Any

from ludus.envs.balatro.cards import HIDDEN, in_flush, rank_shown
from ludus.envs.balatro.compiled import kernel
from ludus.envs.balatro.lineup import count_joker
from ludus.envs.balatro.names import J_SMEARED
from ludus.envs.balatro.preview import best_of, present_ranks
from ludus.envs.balatro.state import CARD, DRAW_PILE, HAND, N_DRAW, N_HAND


@kernel
def unseen(s: Any) -> Any:
    """How many cards lie in the draw pile or face down in the hand: for the player they are one."""
    count = s[N_DRAW]
    for i in range(s[N_HAND]):
        if s[CARD + s[HAND + i]] & HIDDEN:
            count += 1
    return count


@kernel
def suit_outs(s: Any, suit: Any) -> Any:
    """How many of the unseen cards count for a flush of a suit."""
    smeared = count_joker(s, J_SMEARED) > 0
    count = 0
    for i in range(s[N_DRAW]):
        if in_flush(s[CARD + s[DRAW_PILE + i]], suit, smeared):
            count += 1
    for i in range(s[N_HAND]):
        card = s[CARD + s[HAND + i]]
        if card & HIDDEN and in_flush(card, suit, smeared):
            count += 1
    return count


@kernel
def rank_outs(s: Any, outs: Any) -> None:
    """outs[rank] = how many of the unseen cards show a rank; aces also at 1."""
    outs[:] = 0
    for i in range(s[N_DRAW]):
        outs[rank_shown(s[CARD + s[DRAW_PILE + i]])] += 1
    for i in range(s[N_HAND]):
        card = s[CARD + s[HAND + i]]
        if card & HIDDEN:
            outs[rank_shown(card)] += 1
    outs[1] = outs[14]


@kernel
def at_least(need: Any, draws: Any, outs: Any, pile: Any) -> Any:
    """The chance that `draws` cards of a pile hold at least `need` of its `outs`."""
    if need <= 0:
        return 1.0
    draws = min(draws, pile)
    if need > draws or need > outs:
        return 0.0
    chance = 0.0
    for hits in range(need, min(draws, outs) + 1):
        term = 1.0
        for k in range(hits):
            term *= (outs - k) * (draws - k) / (k + 1.0) / (pile - k)
        for k in range(draws - hits):
            term *= max(0.0, (pile - outs - k)) / (pile - hits - k)
        chance += term
    return chance


@kernel
def straight_draw(s: Any, n: Any, outs: Any) -> Any:
    """(positions of the longest part of a straight as bits, its length, outs to the next card)."""
    present = present_ranks(s, (1 << n) - 1, n)
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
            bits |= best_of(s, (1 << n) - 1, 14 if rank == 1 else rank, 1, n)
    return bits, length, best_outs
