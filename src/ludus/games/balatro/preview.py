"""What a player works out before playing: hands that can be played and their scores.

Nothing hidden is used. Scores are taken on a copy of the game in which cards that lie face down are blank and chance
is another: what a Lucky card did there says nothing about what it will do. While jokers lie face down, none counts.
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

# the score of a poker hand that cannot be played
NONE = -1.0
# cards that `worth.py` lays over the first ones of the deck
STANDARD_CARDS = 8


@kernel
def copy_known(s: Any, f: Any, t: Any, g: Any) -> None:
    """The game as its player knows it, with other chance."""
    copy_row(s, t)
    copy_row(f, g)
    _forget(t)


@kernel
def put_back(s: Any, f: Any, t: Any, g: Any) -> None:
    """Makes a copy of `copy_known` what it was, after jokers came or went in it and a hand was scored.

    Those change a third of the row: nothing of vouchers, draw pile, tags, shop and pack. (A Chaos the Clown that comes
    or goes changes free rerolls, which scoring does not read.)
    """
    for place in range(max(STANDARD_CARDS, s[st.CARD_TOP], t[st.CARD_TOP])):
        t[st.CARD + place] = s[st.CARD + place]
        t[st.CARD_BONUS + place] = s[st.CARD_BONUS + place]
    t[st.N_CARDS] = s[st.N_CARDS]
    t[st.CARD_TOP] = s[st.CARD_TOP]
    t[st.N_DRAW] = s[st.N_DRAW]
    for k in range(st.VOUCHER):
        t[k] = s[k]
    for k in range(st.BLIND_ON_DECK, st.CARD):
        t[k] = s[k]
    for k in range(st.HAND, st.TAG):
        t[k] = s[k]
    for k in range(st.HAND_SCORE, st.REWARD):
        g[k] = f[k]
    _forget(t)


@kernel
def _forget(t: Any) -> None:
    """Takes from a copy what its player does not know."""
    t[st.SEED_LOW] = 20240220
    t[st.SEED_HIGH] = 7
    t[st.DRAWS] = 0
    for i in range(t[st.N_HAND]):
        place = t[st.HAND + i]
        if t[st.CARD + place] & HIDDEN:
            t[st.CARD + place] = make_card(2, 0, M_STONE, 0, 0) | DEBUFF
            t[st.CARD_BONUS + place] = 0
    for i in range(t[st.N_JOKERS]):
        if t[st.J_STICKERS + i] & st.FACE_DOWN:
            t[st.N_JOKERS] = 0
            break


@kernel
def preview(s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, bits: Any) -> Any:
    """(poker hand, score) of playing the cards at these positions of the hand, in a copy `t`, `g` of the game."""
    put_back(s, f, t, g)
    n, kept = 0, 0
    for i in range(s[st.N_HAND]):
        place = s[st.HAND + i]
        if (bits >> i) & 1:
            t[st.PLAY + n] = place
            n += 1
        else:
            t[st.HAND + kept] = place
            kept += 1
    t[st.N_PLAY] = n
    t[st.N_HAND] = kept
    t[st.HANDS_LEFT] -= 1
    evaluate(t, g, q, log)
    return np.int64(t[st.W_HAND]), g[st.HAND_SCORE]


@kernel
def _straight(w: Any, allowed: Any, present: Any, low: Any, need: Any, shortcut: Any, n: Any) -> Any:
    """The cards of a straight that begins at rank `low` (1: an ace), as bits; 0 for none."""
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
        bits |= hand_notes.best_of(w, allowed, 14 if rank == 1 else rank, 1, n)
    return bits


@kernel
def _try(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, bits: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    if bits == 0:
        return
    bits |= hand_notes.forced_cards(s)
    if s[st.BLIND] == BL_PSYCHIC and not s[st.BOSS_OFF]:
        bits = hand_notes.fill_up(bits, 0, n, w, 5)
    if hand_notes.count_bits(bits) > 5:
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
        count = hand_notes.count_bits(w[hand_notes.OF_RANK + rank] & allowed)
        if count >= 5:
            _try(s, f, t, g, q, log, hand_notes.best_of(w, allowed, rank, 5, n), n, w, sets, scores)
        if count >= 4 and not flush:
            _try(s, f, t, g, q, log, hand_notes.best_of(w, allowed, rank, 4, n), n, w, sets, scores)
        if count >= 3:
            if three == 0:
                three = rank
                if not flush:
                    _try(s, f, t, g, q, log, hand_notes.best_of(w, allowed, rank, 3, n), n, w, sets, scores)
            elif lower == 0:
                lower = rank
        if count >= 2:
            if first == 0:
                first = rank
            elif second == 0:
                second = rank
            if not flush and (first == rank or second == rank):
                _try(s, f, t, g, q, log, hand_notes.best_of(w, allowed, rank, 2, n), n, w, sets, scores)
    if first and second and not flush:
        bits = hand_notes.best_of(w, allowed, first, 2, n) | hand_notes.best_of(w, allowed, second, 2, n)
        _try(s, f, t, g, q, log, bits, n, w, sets, scores)
    if three:
        pair = first if first != three else second
        if pair:
            bits = hand_notes.best_of(w, allowed, three, 3, n) | hand_notes.best_of(w, allowed, pair, 2, n)
            _try(s, f, t, g, q, log, bits, n, w, sets, scores)


@kernel
def _try_straights(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, allowed: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    present = hand_notes.present_ranks(w, allowed, n)
    need = 4 if count_joker(s, J_FOUR_FINGERS) > 0 else 5
    shortcut = count_joker(s, J_SHORTCUT) > 0
    tried = 0
    for low in range(10 + (5 - need), 0, -1):
        if tried == 2:
            return
        bits = _straight(w, allowed, present, low, need, shortcut, n)
        if bits:
            tried += 1
            _try(s, f, t, g, q, log, bits, n, w, sets, scores)


@kernel
def best_hands(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, n: Any, w: Any, sets: Any, scores: Any
) -> None:
    """For each poker hand that the first n cards of the hand can make: a set that scores well, and its score."""
    for hand in range(st.N_HANDS):
        sets[hand] = 0
        scores[hand] = NONE
    copy_known(s, f, t, g)
    everything = (1 << n) - 1
    first, second, top, next_top = -1, -1, -1, -1
    for i in range(n):
        value = w[hand_notes.VALUE + i]
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
        allowed = w[hand_notes.OF_SUIT + suit]
        count = hand_notes.count_bits(allowed)
        if count < need:
            continue
        _try(s, f, t, g, q, log, hand_notes.most_valuable(w, allowed, min(5, count), n), n, w, sets, scores)
        _try_straights(s, f, t, g, q, log, allowed, n, w, sets, scores)
        _try_kinds(s, f, t, g, q, log, allowed, n, w, sets, scores, True)
