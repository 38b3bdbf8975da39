"""What a player works out before acting: hands to play and their scores, cards worth keeping, jokers worth having.

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
from ludus.envs.balatro.jokers import add_joker, remove_joker, swap_jokers
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
    DRAW_PILE,
    DRAWS,
    FACE_DOWN,
    HAND,
    HAND_SCORE,
    HANDS_LEFT,
    HANDS_PER_ROUND,
    J_STICKERS,
    LEVEL,
    N_DRAW,
    N_HAND,
    N_HANDS,
    N_JOKERS,
    N_PLAY,
    PLAY,
    PLAYED,
    SEED_HIGH,
    SEED_LOW,
    W_HAND,
)

# Of `best`, for each poker hand: the set that scores most, its score.
NONE = -1.0

# Hands that stand for a poker hand where no cards are held: what is played, then what is held. Rank and suit.
_K, _Q, _J, _A = 13, 12, 11, 14
_STANDARD: tuple[tuple[tuple[int, int], ...], ...] = (
    ((_A, 0),),
    ((_K, 0), (_K, 1)),
    ((_K, 0), (_K, 1), (8, 2), (8, 3)),
    ((10, 0), (10, 1), (10, 2)),
    ((10, 0), (9, 1), (8, 2), (7, 3), (6, 0)),
    ((_K, 1), (10, 1), (8, 1), (6, 1), (4, 1)),
    ((_K, 0), (_K, 1), (_K, 2), (8, 0), (8, 3)),
    ((10, 0), (10, 1), (10, 2), (10, 3)),
    ((10, 1), (9, 1), (8, 1), (7, 1), (6, 1)),
    ((10, 0), (10, 1), (10, 2), (10, 3), (10, 0)),
    ((_K, 1), (_K, 1), (_K, 1), (8, 1), (8, 1)),
    ((10, 1), (10, 1), (10, 1), (10, 1), (10, 1)),
)
_HELD = ((_A, 2), (_Q, 3), (5, 0))
STANDARD_HAND = np.zeros((N_HANDS, 5), dtype=np.int64)
STANDARD_SIZE = np.array([len(hand) for hand in _STANDARD], dtype=np.int64)
for _row, _hand in enumerate(_STANDARD):
    for _column, (_rank, _suit) in enumerate(_hand):
        STANDARD_HAND[_row, _column] = _rank | _suit << 4
STANDARD_HELD = np.array([rank | suit << 4 for rank, suit in _HELD], dtype=np.int64)

LIKELY = np.array([0.3, 1.0, 1.0, 0.6, 0.4, 0.6, 0.4, 0.1, 0.0, 0.0, 0.0, 0.0])  # before anything was played


@kernel
def _copy(s: Any, f: Any, t: Any, g: Any) -> None:
    """The game as its player knows it, with other chance."""
    t[:] = s
    g[:] = f
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
    _copy(s, f, t, g)
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
def _best_of(s: Any, allowed: Any, rank: Any, count: Any, n: Any) -> Any:
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
        card = _best_of(s, allowed, 14 if rank == 1 else rank, 1, n)
        if card == 0:
            return 0
        bits |= card
    return bits


@kernel
def _present(s: Any, allowed: Any, n: Any) -> Any:
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
            _try(s, f, t, g, q, log, _best_of(s, allowed, rank, 5, n), n, w, sets, scores)
        if count >= 4 and not flush:
            _try(s, f, t, g, q, log, _best_of(s, allowed, rank, 4, n), n, w, sets, scores)
        if count >= 3:
            if three == 0:
                three = rank
                if not flush:
                    _try(s, f, t, g, q, log, _best_of(s, allowed, rank, 3, n), n, w, sets, scores)
            elif lower == 0:
                lower = rank
        if count >= 2:
            if first == 0:
                first = rank
            elif second == 0:
                second = rank
            if not flush and (first == rank or second == rank):
                _try(s, f, t, g, q, log, _best_of(s, allowed, rank, 2, n), n, w, sets, scores)
    if first and second and not flush:
        bits = _best_of(s, allowed, first, 2, n) | _best_of(s, allowed, second, 2, n)
        _try(s, f, t, g, q, log, bits, n, w, sets, scores)
    if three:
        pair = first if first != three else second
        if pair:
            bits = _best_of(s, allowed, three, 3, n) | _best_of(s, allowed, pair, 2, n)
            _try(s, f, t, g, q, log, bits, n, w, sets, scores)


@kernel
def _try_straights(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, allowed: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    present = _present(s, allowed, n)
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


@kernel
def suit_outs(s: Any, suit: Any) -> Any:
    """How many cards of the draw pile count for a flush of a suit."""
    smeared = count_joker(s, J_SMEARED) > 0
    count = 0
    for i in range(s[N_DRAW]):
        if in_flush(s[CARD + s[DRAW_PILE + i]], suit, smeared):
            count += 1
    for i in range(s[N_HAND]):  # a card that lies face down may as well lie in the pile
        card = s[CARD + s[HAND + i]]
        if card & HIDDEN and in_flush(card, suit, smeared):
            count += 1
    return count


@kernel
def rank_outs(s: Any, outs: Any) -> None:
    """outs[rank] = how many cards of the draw pile show a rank; aces also at 1."""
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
    present = _present(s, (1 << n) - 1, n)
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
            bits |= _best_of(s, (1 << n) - 1, 14 if rank == 1 else rank, 1, n)
    return bits, length, best_outs


@kernel
def usual_hands(s: Any) -> Any:
    """The two poker hands that this run scores with: often played, or of a high level."""
    first, second = 0, 1
    top, next_top = -1.0, -1.0
    for hand in range(N_HANDS):
        weight = LIKELY[hand] + s[PLAYED + hand] * 0.3 + (s[LEVEL + hand] - 1)
        if s[PLAYED + hand] == 0 and hand > 8:
            weight = 0.0
        if weight > top:
            first, second, top, next_top = hand, first, weight, top
        elif weight > next_top:
            second, next_top = hand, weight
    return first, second


@kernel
def standard_score(t: Any, g: Any, q: Any, log: Any, hand: Any) -> Any:
    """What a poker hand of plain cards scores in the copy `t`, which is used up."""
    n = STANDARD_SIZE[hand]
    for k in range(n):
        t[CARD + k] = STANDARD_HAND[hand, k]
        t[CARD_BONUS + k] = 0
        t[PLAY + k] = k
    for k in range(3):
        t[CARD + n + k] = STANDARD_HELD[k]
        t[CARD_BONUS + n + k] = 0
        t[HAND + k] = n + k
    t[N_PLAY] = n
    t[N_HAND] = 3
    t[BLIND] = 0
    t[HANDS_LEFT] = max(1, t[HANDS_PER_ROUND] - 2)
    evaluate(t, g, q, log)
    return g[HAND_SCORE]


@kernel
def strength(
    s: Any,
    f: Any,
    t: Any,
    g: Any,
    q: Any,
    log: Any,
    first: Any,
    second: Any,
    add: Any,
    edition: Any,
    drop: Any,
) -> Any:
    """log10 of what two standard hands score together, with a joker added (0: none) and one dropped (-1: none)."""
    total = 0.0
    for k in range(2):
        _copy(s, f, t, g)
        if drop >= 0:
            remove_joker(t, g, q, drop)
        if add > 0:
            add_joker(t, g, q, add, edition, 0)
        total += np.log10(1.0 + standard_score(t, g, q, log, first if k == 0 else second))
    return total / 2


@kernel
def swapped_strength(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, first: Any, second: Any, at: Any
) -> Any:
    """`strength` with the jokers at `at` and to its right swapped."""
    total = 0.0
    for k in range(2):
        _copy(s, f, t, g)
        swap_jokers(t, g, at, at + 1)
        total += np.log10(1.0 + standard_score(t, g, q, log, first if k == 0 else second))
    return total / 2
