"""Preview of the hands that can be played and their scores.

No hidden information is used. Hands are scored on a copy of the game (`copy_s`, `copy_f`) in which face-down cards are
blank and the random numbers differ: the result of a Lucky card there says nothing about the game. If a joker is face
down, no joker counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import hand_notes
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import DEBUFF, HIDDEN, make_card
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.engine import copy_row
from ludus.games.balatro.lineup import count_joker
from ludus.games.balatro.names import BL_PSYCHIC, J_FOUR_FINGERS, J_SHORTCUT, M_STONE
from ludus.games.balatro.scoring import evaluate

# score of a poker hand that cannot be played
NONE = -1.0
# number of cards that `worth.py` writes over the first cards of the deck
STANDARD_CARDS = 8


@kernel
def copy_known(s: Any, f: Any, copy_s: Any, copy_f: Any) -> None:
    """Copy the game as its player knows it, with other random numbers."""
    for k in range(st.KNOWN_SIZE):
        copy_s[k] = s[k]
    copy_row(f, copy_f)
    _hide_unknown(copy_s)


@kernel
def put_back(s: Any, f: Any, copy_s: Any, copy_f: Any) -> None:
    """Reset a copy made by `copy_known`, after jokers were added or removed in it and a hand was scored.

    These change a third of the row, but not vouchers, draw pile, tags, shop and pack. (Adding or removing Chaos the
    Clown changes free rerolls, which scoring does not read.)
    """
    for slot in range(max(STANDARD_CARDS, s[st.CARD_TOP], copy_s[st.CARD_TOP])):
        copy_s[st.CARD + slot] = s[st.CARD + slot]
        copy_s[st.CARD_BONUS + slot] = s[st.CARD_BONUS + slot]
    copy_s[st.N_CARDS] = s[st.N_CARDS]
    copy_s[st.CARD_TOP] = s[st.CARD_TOP]
    copy_s[st.N_DRAW] = s[st.N_DRAW]
    for k in range(st.VOUCHER):
        copy_s[k] = s[k]
    for k in range(st.BLIND_ON_DECK, st.CARD):
        copy_s[k] = s[k]
    for k in range(st.HAND, st.TAG):
        copy_s[k] = s[k]
    for k in range(st.HAND_SCORE, st.REWARD):
        copy_f[k] = f[k]
    _hide_unknown(copy_s)


@kernel
def _hide_unknown(copy_s: Any) -> None:
    """Remove from a copy what its player does not know."""
    copy_s[st.SEED_LOW] = 20240220
    copy_s[st.SEED_HIGH] = 7
    copy_s[st.DRAWS] = 0
    copy_s[st.FAST_RANDOM] = 1
    for i in range(copy_s[st.N_HAND]):
        slot = copy_s[st.HAND + i]
        if copy_s[st.CARD + slot] & HIDDEN:
            copy_s[st.CARD + slot] = make_card(2, 0, M_STONE, 0, 0) | DEBUFF
            copy_s[st.CARD_BONUS + slot] = 0
    for i in range(copy_s[st.N_JOKERS]):
        if copy_s[st.J_STICKERS + i] & st.FACE_DOWN:
            copy_s[st.N_JOKERS] = 0
            break


@kernel
def preview(s: Any, f: Any, copy_s: Any, copy_f: Any, queue: Any, log: Any, bits: Any) -> Any:
    """Return (poker hand, score) of playing the cards at these positions of the hand, in a copy of the game."""
    put_back(s, f, copy_s, copy_f)
    n, kept = 0, 0
    for i in range(s[st.N_HAND]):
        slot = s[st.HAND + i]
        if (bits >> i) & 1:
            copy_s[st.PLAY + n] = slot
            n += 1
        else:
            copy_s[st.HAND + kept] = slot
            kept += 1
    copy_s[st.N_PLAY] = n
    copy_s[st.N_HAND] = kept
    copy_s[st.HANDS_LEFT] -= 1
    evaluate(copy_s, copy_f, queue, log)
    return np.int64(copy_s[st.W_HAND]), copy_f[st.HAND_SCORE]


@kernel
def _straight(notes: Any, allowed: Any, present: Any, low: Any, need: Any, shortcut: Any, n: Any) -> Any:
    """Return the cards of a straight that begins at rank `low` (1: an ace), as bits; 0 if there is none."""
    if not shortcut and (present >> low) & ((1 << need) - 1) != (1 << need) - 1:
        return 0
    bits = 0
    rank = low
    for k in range(need):
        if k > 0:
            rank += 1
            if not (present >> rank) & 1 and shortcut:
                rank += 1
        if rank > 14 or not (present >> rank) & 1:
            return 0
        bits |= hand_notes.best_of(notes, allowed, 14 if rank == 1 else rank, 1, n)
    return bits


@kernel
def _score_set(
    s: Any,
    f: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    bits: Any,
    n: Any,
    notes: Any,
    sets: Any,
    scores: Any,
) -> None:
    if bits == 0:
        return
    bits |= hand_notes.forced_cards(s)
    if s[st.BLIND] == BL_PSYCHIC and not s[st.BOSS_OFF]:
        bits = hand_notes.fill_up(bits, 0, n, notes, 5)
    if hand_notes.count_bits(bits) > 5:
        return
    hand, score = preview(s, f, copy_s, copy_f, queue, log, bits)
    if score > scores[hand]:
        scores[hand] = score
        sets[hand] = bits


@kernel
def _score_kinds(
    s: Any,
    f: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    allowed: Any,
    n: Any,
    notes: Any,
    sets: Any,
    scores: Any,
    flush: Any,
) -> None:
    """Score pairs, threes, fours and their combinations at the allowed positions; with `flush` only the flush hands."""
    first, second, three, lower = 0, 0, 0, 0
    for rank in range(14, 1, -1):
        count = hand_notes.count_bits(notes[hand_notes.OF_RANK + rank] & allowed)
        if count >= 5:
            _score_set(
                s,
                f,
                copy_s,
                copy_f,
                queue,
                log,
                hand_notes.best_of(notes, allowed, rank, 5, n),
                n,
                notes,
                sets,
                scores,
            )
        if count >= 4 and not flush:
            _score_set(
                s,
                f,
                copy_s,
                copy_f,
                queue,
                log,
                hand_notes.best_of(notes, allowed, rank, 4, n),
                n,
                notes,
                sets,
                scores,
            )
        if count >= 3:
            if three == 0:
                three = rank
                if not flush:
                    _score_set(
                        s,
                        f,
                        copy_s,
                        copy_f,
                        queue,
                        log,
                        hand_notes.best_of(notes, allowed, rank, 3, n),
                        n,
                        notes,
                        sets,
                        scores,
                    )
            elif lower == 0:
                lower = rank
        if count >= 2:
            if first == 0:
                first = rank
            elif second == 0:
                second = rank
            if not flush and (first == rank or second == rank):
                _score_set(
                    s,
                    f,
                    copy_s,
                    copy_f,
                    queue,
                    log,
                    hand_notes.best_of(notes, allowed, rank, 2, n),
                    n,
                    notes,
                    sets,
                    scores,
                )
    if first and second and not flush:
        bits = hand_notes.best_of(notes, allowed, first, 2, n) | hand_notes.best_of(
            notes, allowed, second, 2, n
        )
        _score_set(s, f, copy_s, copy_f, queue, log, bits, n, notes, sets, scores)
    if three:
        pair = first if first != three else second
        if pair:
            bits = hand_notes.best_of(notes, allowed, three, 3, n) | hand_notes.best_of(
                notes, allowed, pair, 2, n
            )
            _score_set(s, f, copy_s, copy_f, queue, log, bits, n, notes, sets, scores)


@kernel
def _score_straights(
    s: Any,
    f: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    allowed: Any,
    n: Any,
    notes: Any,
    sets: Any,
    scores: Any,
) -> None:
    present = hand_notes.present_ranks(notes, allowed, n)
    need = 4 if count_joker(s, J_FOUR_FINGERS) > 0 else 5
    shortcut = count_joker(s, J_SHORTCUT) > 0
    tried = 0
    for low in range(10 + (5 - need), 0, -1):
        if tried == 2:
            return
        bits = _straight(notes, allowed, present, low, need, shortcut, n)
        if bits:
            tried += 1
            _score_set(s, f, copy_s, copy_f, queue, log, bits, n, notes, sets, scores)


@kernel
def best_hands(
    s: Any, f: Any, copy_s: Any, copy_f: Any, queue: Any, log: Any, n: Any, notes: Any, sets: Any, scores: Any
) -> None:
    """Write for each poker hand that the first n cards can form a set that scores well, and its score."""
    for hand in range(st.N_HANDS):
        sets[hand] = 0
        scores[hand] = NONE
    copy_known(s, f, copy_s, copy_f)
    everything = (1 << n) - 1
    first, second, top, next_top = -1, -1, -1, -1
    for i in range(n):
        value = notes[hand_notes.VALUE + i]
        if value > top:
            first, second, top, next_top = i, first, value, top
        elif value > next_top:
            second, next_top = i, value
    if first >= 0:
        _score_set(s, f, copy_s, copy_f, queue, log, 1 << first, n, notes, sets, scores)
    if second >= 0:
        _score_set(s, f, copy_s, copy_f, queue, log, 1 << second, n, notes, sets, scores)
    _score_kinds(s, f, copy_s, copy_f, queue, log, everything, n, notes, sets, scores, False)
    _score_straights(s, f, copy_s, copy_f, queue, log, everything, n, notes, sets, scores)
    need = 4 if count_joker(s, J_FOUR_FINGERS) > 0 else 5
    for suit in range(4):
        allowed = notes[hand_notes.OF_SUIT + suit]
        count = hand_notes.count_bits(allowed)
        if count < need:
            continue
        _score_set(
            s,
            f,
            copy_s,
            copy_f,
            queue,
            log,
            hand_notes.most_valuable(notes, allowed, min(5, count), n),
            n,
            notes,
            sets,
            scores,
        )
        _score_straights(s, f, copy_s, copy_f, queue, log, allowed, n, notes, sets, scores)
        _score_kinds(s, f, copy_s, copy_f, queue, log, allowed, n, notes, sets, scores, True)
