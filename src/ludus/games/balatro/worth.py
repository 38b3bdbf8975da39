"""The value of a joker: the difference it makes to the scores of two hands of plain cards.

The hands are the two that the run plays most, or at first the two that most runs play.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.jokers import add_joker, remove_joker, swap_jokers
from ludus.games.balatro.preview import STANDARD_CARDS, put_back
from ludus.games.balatro.scoring import evaluate

# Standard cards for each poker hand, as (rank, suit): the played ones; _HELD are the held ones.
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

LIKELY = np.array(
    [0.3, 1.0, 1.0, 0.6, 0.4, 0.6, 0.4, 0.1, 0.0, 0.0, 0.0, 0.0]
)  # weights before the first hand


@kernel
def usual_hands(s: Any) -> Any:
    """Return the two poker hands that this run scores with: often played, or of a high level."""
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
def standard_score(copy_s: Any, copy_f: Any, queue: Any, log: Any, hand: Any) -> Any:
    """Return the score of a poker hand of plain cards in the copy of the game, which it changes."""
    n = STANDARD_SIZE[hand]
    for k in range(n):
        copy_s[st.CARD + k] = STANDARD_HAND[hand, k]
        copy_s[st.CARD_BONUS + k] = 0
        copy_s[st.PLAY + k] = k
    for k in range(3):
        copy_s[st.CARD + n + k] = STANDARD_HELD[k]
        copy_s[st.CARD_BONUS + n + k] = 0
        copy_s[st.HAND + k] = n + k
    copy_s[st.N_PLAY] = n
    copy_s[st.N_HAND] = 3
    copy_s[st.BLIND] = 0
    copy_s[st.HANDS_LEFT] = max(1, copy_s[st.HANDS_PER_ROUND] - 2)
    evaluate(copy_s, copy_f, queue, log)
    return copy_f[st.HAND_SCORE]


@kernel
def strength(
    s: Any,
    f: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    first: Any,
    second: Any,
    add: Any,
    edition: Any,
    drop: Any,
) -> Any:
    """Return the mean log10 score of two standard hands, with a joker added (0: none) and one removed (-1: none).

    The copy of the game is one of `copy_known`. It is reset before it is used.
    """
    total = 0.0
    for k in range(2):
        put_back(s, f, copy_s, copy_f)
        if drop >= 0:
            remove_joker(copy_s, copy_f, queue, drop)
        if add > 0:
            add_joker(copy_s, copy_f, queue, add, edition, 0)
        total += np.log10(1.0 + standard_score(copy_s, copy_f, queue, log, first if k == 0 else second))
    return total / 2


@kernel
def swapped_strength(
    s: Any, f: Any, copy_s: Any, copy_f: Any, queue: Any, log: Any, first: Any, second: Any, at: Any
) -> Any:
    """Return `strength` with the jokers at `at` and to its right swapped."""
    total = 0.0
    for k in range(2):
        put_back(s, f, copy_s, copy_f)
        swap_jokers(copy_s, copy_f, at, at + 1)
        total += np.log10(1.0 + standard_score(copy_s, copy_f, queue, log, first if k == 0 else second))
    return total / 2
