"""What a joker is worth: what two hands of plain cards score with it and without it.

The hands are those that the run scores with; where it has not shown yet, those that most runs do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.jokers import add_joker, remove_joker, swap_jokers
from ludus.games.balatro.preview import STANDARD_CARDS, put_back
from ludus.games.balatro.scoring import evaluate

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
STANDARD_HAND = np.zeros((st.N_HANDS, 5), dtype=np.int64)
STANDARD_SIZE = np.array([len(hand) for hand in _STANDARD], dtype=np.int64)
for _row, _hand in enumerate(_STANDARD):
    for _column, (_rank, _suit) in enumerate(_hand):
        STANDARD_HAND[_row, _column] = _rank | _suit << 4
assert max(len(hand) for hand in _STANDARD) + len(_HELD) <= STANDARD_CARDS
STANDARD_HELD = np.array([rank | suit << 4 for rank, suit in _HELD], dtype=np.int64)

LIKELY = np.array([0.3, 1.0, 1.0, 0.6, 0.4, 0.6, 0.4, 0.1, 0.0, 0.0, 0.0, 0.0])  # before anything was played


@kernel
def usual_hands(s: Any) -> Any:
    """The two poker hands that this run scores with: often played, or of a high level."""
    first, second = 0, 1
    top, next_top = -1.0, -1.0
    for hand in range(st.N_HANDS):
        weight = LIKELY[hand] + s[st.PLAYED + hand] * 0.3 + (s[st.LEVEL + hand] - 1)
        if s[st.PLAYED + hand] == 0 and hand > 8:
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
        t[st.CARD + k] = STANDARD_HAND[hand, k]
        t[st.CARD_BONUS + k] = 0
        t[st.PLAY + k] = k
    for k in range(3):
        t[st.CARD + n + k] = STANDARD_HELD[k]
        t[st.CARD_BONUS + n + k] = 0
        t[st.HAND + k] = n + k
    t[st.N_PLAY] = n
    t[st.N_HAND] = 3
    t[st.BLIND] = 0
    t[st.HANDS_LEFT] = max(1, t[st.HANDS_PER_ROUND] - 2)
    evaluate(t, g, q, log)
    return g[st.HAND_SCORE]


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
    """log10 of what two standard hands score together, with a joker added (0: none) and one dropped (-1: none).

    `t` and `g` are a copy of the game as `copy_known` makes it, to be put back before it is used again.
    """
    total = 0.0
    for k in range(2):
        put_back(s, f, t, g)
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
        put_back(s, f, t, g)
        swap_jokers(t, g, at, at + 1)
        total += np.log10(1.0 + standard_score(t, g, q, log, first if k == 0 else second))
    return total / 2
