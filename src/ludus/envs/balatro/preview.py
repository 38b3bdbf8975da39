"""What a player works out before playing: hands that can be played and their scores, cards worth keeping.

Nothing hidden is used. Scores are taken on a copy of the game in which cards that lie face down are blank and chance
is another: what a Lucky card did there says nothing about what it will do. While jokers lie face down, none counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.envs.balatro.cards import (
    DEBUFF,
    FORCED,
    HIDDEN,
    chips_of_rank,
    enhancement_of,
    in_flush,
    make_card,
    rank_of,
    rank_shown,
)
from ludus.envs.balatro.compiled import kernel
from ludus.envs.balatro.engine import copy_row
from ludus.envs.balatro.lineup import count_joker
from ludus.envs.balatro.names import (
    BL_PSYCHIC,
    J_FOUR_FINGERS,
    J_SHORTCUT,
    J_SMEARED,
    M_BONUS,
    M_GLASS,
    M_LUCKY,
    M_MULT,
    M_STONE,
)
from ludus.envs.balatro.scoring import evaluate
from ludus.envs.balatro.state import (
    BLIND,
    BOSS_OFF,
    CARD,
    CARD_BONUS,
    DRAWS,
    FACE_DOWN,
    HAND,
    HAND_SCORE,
    HANDS_LEFT,
    J_STICKERS,
    N_HAND,
    N_JOKERS,
    N_PLAY,
    PLAY,
    SEED_HIGH,
    SEED_LOW,
    W_HAND,
)

# the score of a poker hand that cannot be played
NONE = -1.0


@kernel
def copy_known(s: Any, f: Any, t: Any, g: Any) -> None:
    """The game as its player knows it, with other chance."""
    copy_row(s, t)
    copy_row(f, g)
    t[SEED_LOW] = 20240220
    t[SEED_HIGH] = 7
    t[DRAWS] = 0
    for i in range(t[N_HAND]):
        place = t[HAND + i]
        if t[CARD + place] & HIDDEN:
            t[CARD + place] = make_card(2, 0, M_STONE, 0, 0) | DEBUFF
            t[CARD_BONUS + place] = 0
    for i in range(t[N_JOKERS]):
        if t[J_STICKERS + i] & FACE_DOWN:
            t[N_JOKERS] = 0
            break


@kernel
def preview(s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, bits: Any) -> Any:
    """(poker hand, score) of playing the cards at these positions of the hand."""
    copy_known(s, f, t, g)
    n, kept = 0, 0
    for i in range(s[N_HAND]):
        place = s[HAND + i]
        if (bits >> i) & 1:
            t[PLAY + n] = place
            n += 1
        else:
            t[HAND + kept] = place
            kept += 1
    t[N_PLAY] = n
    t[N_HAND] = kept
    t[HANDS_LEFT] -= 1
    evaluate(t, g, q, log)
    return np.int64(t[W_HAND]), g[HAND_SCORE]


@kernel
def _value(s: Any, i: Any) -> Any:
    """What a card of the hand adds by itself, about; for choosing between equal ranks and suits."""
    place = s[HAND + i]
    card = s[CARD + place]
    if card & HIDDEN:
        return 1
    if card & DEBUFF:
        return 0
    enhancement = enhancement_of(card)
    value = s[CARD_BONUS + place] + (50 if enhancement == M_STONE else chips_of_rank(rank_of(card)))
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
def _shown_rank(s: Any, i: Any) -> Any:
    card = s[CARD + s[HAND + i]]
    if card & HIDDEN:
        return card & 0
    return rank_shown(card)


@kernel
def keeping(s: Any, n: Any, w: Any) -> None:
    """w[i] = how much the card at i is worth keeping: company of its rank and suit, then its own value."""
    smeared = count_joker(s, J_SMEARED) > 0
    for i in range(n):
        rank = _shown_rank(s, i)
        card = s[CARD + s[HAND + i]]
        same_rank, same_suit, near = 0, 0, 0
        for k in range(n):
            other = s[CARD + s[HAND + k]]
            if other & HIDDEN or card & HIDDEN:
                continue
            if rank > 0 and rank_shown(other) == rank:
                same_rank += 1
            if in_flush(other, (card >> 4) & 3, smeared) and enhancement_of(card) != M_STONE:
                same_suit += 1
            if abs(rank_shown(other) - rank) <= 3:
                near += 1
        w[i] = 100 * same_rank + 25 * same_suit + 4 * near + _value(s, i)


@kernel
def best_of(s: Any, allowed: Any, rank: Any, count: Any, n: Any) -> Any:
    """The `count` most valuable cards of a rank among the allowed positions, as bits; 0 when there are fewer."""
    bits = 0
    for _ in range(count):
        best, top = -1, -1
        for i in range(n):
            if (
                (allowed >> i) & 1
                and not (bits >> i) & 1
                and _shown_rank(s, i) == rank
                and _value(s, i) > top
            ):
                best, top = i, _value(s, i)
        if best < 0:
            return 0
        bits |= 1 << best
    return bits


@kernel
def _straight(s: Any, allowed: Any, present: Any, low: Any, need: Any, shortcut: Any, n: Any) -> Any:
    """The cards of a straight that begins at rank `low` (1: an ace), as bits; 0 for none."""
    bits = 0
    rank = low
    for k in range(need):
        if k > 0:
            rank += 1
            if not (present >> rank) & 1 and shortcut:
                rank += 1
        if rank > 14 or not (present >> rank) & 1:
            return 0
        card = best_of(s, allowed, 14 if rank == 1 else rank, 1, n)
        if card == 0:
            return 0
        bits |= card
    return bits


@kernel
def present_ranks(s: Any, allowed: Any, n: Any) -> Any:
    present = 0
    for i in range(n):
        if (allowed >> i) & 1:
            present |= 1 << _shown_rank(s, i)
    return (present & ~3) | ((present >> 13) & 2)


@kernel
def _count(bits: Any) -> Any:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@kernel
def forced_cards(s: Any) -> Any:
    """Positions of cards that every set must hold, as bits (Cerulean Bell)."""
    bits = 0
    for i in range(s[N_HAND]):
        if s[CARD + s[HAND + i]] & FORCED:
            bits |= 1 << i
    return bits


@kernel
def fill_up(bits: Any, avoid: Any, n: Any, w: Any, size: Any) -> Any:
    """Adds the cards least worth keeping, but none of `avoid`, until there are `size`."""
    count = _count(bits)
    while count < size:
        worst, least = -1, 1 << 30
        for i in range(n):
            if not ((bits | avoid) >> i) & 1 and w[i] < least:
                worst, least = i, w[i]
        if worst < 0:
            return bits
        bits |= 1 << worst
        count += 1
    return bits


@kernel
def _try(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, bits: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    if bits == 0:
        return
    bits |= forced_cards(s)
    if s[BLIND] == BL_PSYCHIC and not s[BOSS_OFF]:
        bits = fill_up(bits, 0, n, w, 5)
    if _count(bits) > 5:
        return
    hand, score = preview(s, f, t, g, q, log, bits)
    if score > scores[hand]:
        scores[hand] = score
        sets[hand] = bits


@kernel
def _try_kinds(
    s: Any,
    f: Any,
    t: Any,
    g: Any,
    q: Any,
    log: Any,
    allowed: Any,
    n: Any,
    w: Any,
    sets: Any,
    scores: Any,
    flush: Any,
) -> None:
    """Pairs and what is built of them, among the allowed positions; only what is also a flush if asked."""
    first, second, three, lower = 0, 0, 0, 0
    for rank in range(14, 1, -1):
        count = 0
        for i in range(n):
            if (allowed >> i) & 1 and _shown_rank(s, i) == rank:
                count += 1
        if count >= 5:
            _try(s, f, t, g, q, log, best_of(s, allowed, rank, 5, n), n, w, sets, scores)
        if count >= 4 and not flush:
            _try(s, f, t, g, q, log, best_of(s, allowed, rank, 4, n), n, w, sets, scores)
        if count >= 3:
            if three == 0:
                three = rank
                if not flush:
                    _try(s, f, t, g, q, log, best_of(s, allowed, rank, 3, n), n, w, sets, scores)
            elif lower == 0:
                lower = rank
        if count >= 2:
            if first == 0:
                first = rank
            elif second == 0:
                second = rank
            if not flush and (first == rank or second == rank):
                _try(s, f, t, g, q, log, best_of(s, allowed, rank, 2, n), n, w, sets, scores)
    if first and second and not flush:
        bits = best_of(s, allowed, first, 2, n) | best_of(s, allowed, second, 2, n)
        _try(s, f, t, g, q, log, bits, n, w, sets, scores)
    if three:
        pair = first if first != three else second
        if pair:
            bits = best_of(s, allowed, three, 3, n) | best_of(s, allowed, pair, 2, n)
            _try(s, f, t, g, q, log, bits, n, w, sets, scores)


@kernel
def _try_straights(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, allowed: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    present = present_ranks(s, allowed, n)
    need = 4 if count_joker(s, J_FOUR_FINGERS) > 0 else 5
    shortcut = count_joker(s, J_SHORTCUT) > 0
    tried = 0
    for low in range(10 + (5 - need), 0, -1):
        if tried == 2:
            return
        bits = _straight(s, allowed, present, low, need, shortcut, n)
        if bits:
            tried += 1
            _try(s, f, t, g, q, log, bits, n, w, sets, scores)


@kernel
def of_suit(s: Any, suit: Any, n: Any) -> Any:
    """The positions that count for a flush of a suit, as bits."""
    smeared = count_joker(s, J_SMEARED) > 0
    bits = 0
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        if not card & HIDDEN and in_flush(card, suit, smeared):
            bits |= 1 << i
    return bits


@kernel
def best_hands(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    """For each poker hand that the first n cards of the hand can make: a set that scores well, and its score."""
    sets[:] = 0
    scores[:] = NONE
    everything = (1 << n) - 1
    first, second, top, next_top = -1, -1, -1, -1
    for i in range(n):
        value = _value(s, i)
        if value > top:
            first, second, top, next_top = i, first, value, top
        elif value > next_top:
            second, next_top = i, value
    if first >= 0:
        _try(s, f, t, g, q, log, 1 << first, n, w, sets, scores)
    if second >= 0:
        _try(s, f, t, g, q, log, 1 << second, n, w, sets, scores)
    _try_kinds(s, f, t, g, q, log, everything, n, w, sets, scores, False)
    _try_straights(s, f, t, g, q, log, everything, n, w, sets, scores)
    need = 4 if count_joker(s, J_FOUR_FINGERS) > 0 else 5
    for suit in range(4):
        allowed = of_suit(s, suit, n)
        if _count(allowed) < need:
            continue
        bits = 0
        for _ in range(min(5, _count(allowed))):
            best, most = -1, -1
            for i in range(n):
                if (allowed >> i) & 1 and not (bits >> i) & 1 and _value(s, i) > most:
                    best, most = i, _value(s, i)
            bits |= 1 << best
        _try(s, f, t, g, q, log, bits, n, w, sets, scores)
        _try_straights(s, f, t, g, q, log, allowed, n, w, sets, scores)
        _try_kinds(s, f, t, g, q, log, allowed, n, w, sets, scores, True)
