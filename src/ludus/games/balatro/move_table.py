"""The action that each move stands for now, and the derived features of the observation.

`write_moves` fills for every game a row of the move table (see `moves.py`) and the features at the end of the
observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import facts, hand_notes, moves
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.actions import CARDS, N_SETS, SETS
from ludus.games.balatro.bosses import progress
from ludus.games.balatro.cards import FACE_MASK, HIDDEN, is_face, rank_shown
from ludus.games.balatro.compiled import for_python, kernel
from ludus.games.balatro.outs import OUTS, SUIT_OUTS, at_least, count_outs, straight_draw, unseen
from ludus.games.balatro.preview import best_hands, copy_known
from ludus.games.balatro.worth import strength, swapped_strength, usual_hands
from ludus.types import Array

# index of a set by the bits of its positions, for hands of up to 12 cards; larger hands use a binary search
_SET_AT = np.full(1 << 12, -1, dtype=np.int64)
_SET_AT[SETS[: N_SETS[12]]] = np.arange(N_SETS[12])


@kernel
def _set_move(legal: Any, table: Any, mask: Any, move: Any, action: Any) -> None:
    """Let a move stand for an action, if the action is legal and the move does not have one yet."""
    if 0 <= action < len(legal) and legal[action] and not mask[move]:
        table[move] = action
        mask[move] = True


@kernel
def _set_action(bits: Any, max_hand: Any) -> Any:
    """Return the action that plays a set of positions, -1 if there is none."""
    if bits >> max_hand:
        return np.int64(-1)
    if bits < len(_SET_AT):
        found = _SET_AT[bits]
        return CARDS + 2 * found if found >= 0 else found
    low, high = np.int64(0), N_SETS[max_hand] - 1
    while low < high:
        middle = (low + high) // 2
        if SETS[middle] < bits:
            low = middle + 1
        else:
            high = middle
    return CARDS + 2 * low if SETS[low] == bits else np.int64(-1)


@kernel
def _booster_kind(booster: Any) -> Any:
    size = 2 if facts.BOOSTER_PICKS[booster] == 2 else (1 if facts.BOOSTER_CARDS[booster] >= 4 else 0)
    return facts.BOOSTER_KIND[booster] * 3 + size


@kernel
def _held_item_moves(s: Any, legal: Any, table: Any, mask: Any) -> None:
    for k in range(s[st.N_CONSUMABLES]):
        _set_move(legal, table, mask, moves.USE + s[st.CONSUMABLE + k] - nm.C_FOOL, act.USE + k)
    if s[st.PHASE] == nm.SHOPPING or s[st.PHASE] == nm.OPENING_PACK:
        for i in range(s[st.N_JOKERS]):
            _set_move(legal, table, mask, moves.SELL_JOKER + s[st.JOKER + i] - 1, act.SELL_JOKER + i)
        if s[st.N_CONSUMABLES] > 0:
            _set_move(legal, table, mask, moves.SELL_CONSUMABLE, act.SELL_CONSUMABLE)


@kernel
def _offer_moves(s: Any, legal: Any, table: Any, mask: Any) -> None:
    if s[st.PHASE] == nm.OPENING_PACK:
        _set_move(legal, table, mask, act.SKIP_PACK, act.SKIP_PACK)
        for k in range(st.PACK_SLOTS):
            item = s[st.PACK + k]
            if item == nm.PLAYING_CARD:
                _set_move(legal, table, mask, moves.TAKE_CARD + k, act.PICK + k)
            elif item > 0:
                _set_move(legal, table, mask, moves.TAKE + item - 1, act.PICK + k)
        return
    _set_move(legal, table, mask, act.REROLL, act.REROLL)
    _set_move(legal, table, mask, act.NEXT_ROUND, act.NEXT_ROUND)
    for k in range(st.SHOP_SLOTS):
        item = s[st.SHOP + k]
        if item == nm.PLAYING_CARD:
            _set_move(legal, table, mask, moves.TAKE_CARD + k, act.BUY + k)
        elif item > 0:
            _set_move(legal, table, mask, moves.TAKE + item - 1, act.BUY + k)
            if item >= nm.C_FOOL:
                _set_move(legal, table, mask, moves.USE_NOW + item - nm.C_FOOL, act.BUY_AND_USE + k)
    for k in range(st.VOUCHER_SLOTS):
        if s[st.SHOP_VOUCHER + k] > 0:
            _set_move(legal, table, mask, moves.REDEEM + s[st.SHOP_VOUCHER + k] - 1, act.REDEEM + k)
    for k in range(st.BOOSTER_SLOTS):
        if s[st.SHOP_BOOSTER + k] > 0:
            _set_move(legal, table, mask, moves.OPEN + _booster_kind(s[st.SHOP_BOOSTER + k]), act.OPEN + k)


@kernel
def _joker_values(
    s: Any,
    f: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    legal: Any,
    table: Any,
    mask: Any,
    features: Any,
) -> None:
    """Write how much jokers on offer would add to the usual hands, and how much the held ones add."""
    copy_known(s, f, copy_s, copy_f)
    first, second = usual_hands(s)
    now = strength(s, f, copy_s, copy_f, queue, log, first, second, 0, 0, -1)
    features[moves.X_STRENGTH] = now / 5.0
    features[moves.X_USUAL + first] = 1.0
    features[moves.X_USUAL + second] = 0.5
    best, most = -1, -1.0
    in_pack = s[st.PHASE] == nm.OPENING_PACK
    for k in range(st.PACK_SLOTS if in_pack else st.SHOP_SLOTS):
        item = s[st.PACK + k] if in_pack else s[st.SHOP + k]
        if item == 0 or item >= nm.C_FOOL:
            continue
        edition = s[st.PACK_EDITION + k] if in_pack else s[st.SHOP_EDITION + k]
        gain = strength(s, f, copy_s, copy_f, queue, log, first, second, item, edition, -1) - now
        features[moves.X_GAIN + item - 1] = gain
        action = act.PICK + k if in_pack else act.BUY + k
        if legal[action] and gain > most:
            best, most = action, gain
    if best >= 0:
        _set_move(legal, table, mask, moves.TAKE_BEST, best)
        features[moves.X_BEST_GAIN] = most
    better, most = -1, now + 1e-6
    for i in range(s[st.N_JOKERS] - 1):
        if legal[act.SWAP_JOKERS + i]:
            then = swapped_strength(s, f, copy_s, copy_f, queue, log, first, second, i)
            if then > most:
                better, most = act.SWAP_JOKERS + i, then
    if better >= 0:
        _set_move(legal, table, mask, moves.ARRANGE, better)
    worst, least = -1, 1e9
    for i in range(s[st.N_JOKERS]):
        worth = now - strength(s, f, copy_s, copy_f, queue, log, first, second, 0, 0, i)
        features[moves.X_WORTH + s[st.JOKER + i] - 1] = worth
        if legal[act.SELL_JOKER + i] and worth < least:
            worst, least = act.SELL_JOKER + i, worth
    if worst >= 0:
        _set_move(legal, table, mask, moves.SELL_WORST, worst)
        features[moves.X_BEST_GAIN + 1] = least


@kernel
def _play_moves(
    s: Any,
    f: Any,
    n: Any,
    notes: Any,
    sets: Any,
    scores: Any,
    legal: Any,
    table: Any,
    mask: Any,
    max_hand: Any,
    features: Any,
) -> Any:
    """Write the plays by poker hand; return the positions of the best one."""
    missing = max(1.0, f[st.TARGET] - f[st.CHIPS])
    best, most = -1, -0.5
    for hand in range(st.N_HANDS):
        if sets[hand] == 0:
            continue
        features[moves.X_SCORES + hand] = progress(scores[hand], missing)
        features[moves.X_LOGS + hand] = np.log10(1.0 + scores[hand]) / 5.0
        _set_move(legal, table, mask, moves.PLAY + hand, _set_action(sets[hand], max_hand))
        full = hand_notes.fill_up(sets[hand], 0, n, notes, 5)
        _set_move(legal, table, mask, moves.PLAY_FULL + hand, _set_action(full, max_hand))
        if scores[hand] > most:
            best, most = hand, scores[hand]
    if best < 0:
        return 0
    _set_move(legal, table, mask, moves.PLAY_BEST, table[moves.PLAY + best])
    _set_move(legal, table, mask, moves.PLAY_BEST_FULL, table[moves.PLAY_FULL + best])
    features[moves.X_BEST + best] = 1.0
    share = most / missing
    features[moves.X_BEST_SHARE] = min(1.0, share)
    features[moves.X_BEST_SHARE + 1] = max(-2.0, min(2.0, np.log10(1e-9 + share * s[st.HANDS_LEFT])))
    features[moves.X_BEST_SHARE + 2] = max(-2.0, min(2.0, np.log10(1e-9 + share)))
    return sets[best]


@kernel
def _with_lowest(bits: Any, s: Any, n: Any, count: Any) -> Any:
    """Add up to `count` of the lowest other cards."""
    for _ in range(count):
        worst, least = -1, 100
        for i in range(n):
            card = s[st.CARD + s[st.HAND + i]]
            rank = 1 if card & HIDDEN else rank_shown(card)
            if not (bits >> i) & 1 and rank < least:
                worst, least = i, rank
        if worst < 0:
            return bits
        bits |= 1 << worst
    return bits


@kernel
def _set_discard(
    kind: Any, keep: Any, s: Any, n: Any, notes: Any, legal: Any, table: Any, mask: Any, max_hand: Any
) -> None:
    """Write a discard of up to five cards that are not in `keep`, least worth keeping first."""
    bits = hand_notes.fill_up(hand_notes.forced_cards(s), keep, n, notes, 5)
    if bits:
        action = _set_action(bits, max_hand)
        if action >= 0:
            _set_move(legal, table, mask, moves.DISCARD + kind, action + 1)


@kernel
def _discard_moves(
    s: Any,
    n: Any,
    notes: Any,
    best: Any,
    legal: Any,
    table: Any,
    mask: Any,
    max_hand: Any,
    outs: Any,
    features: Any,
) -> None:
    pile = unseen(s)
    count_outs(s, outs)
    first, second, top, next_top = -1, -1, -1.0, -1.0
    for suit in range(4):
        hope = hand_notes.count_bits(notes[hand_notes.OF_SUIT + suit]) + outs[SUIT_OUTS + suit] / (pile + 1.0)
        if hope > top:
            first, second, top, next_top = suit, first, hope, top
        elif hope > next_top:
            second, next_top = suit, hope
    for k in range(2):
        suit = first if k == 0 else second
        keep = notes[hand_notes.OF_SUIT + suit]
        _set_discard(k, keep, s, n, notes, legal, table, mask, max_hand)
        count = hand_notes.count_bits(keep)
        features[moves.X_DRAWS + 2 * k] = count / 5.0
        features[moves.X_DRAWS + 2 * k + 1] = at_least(
            5 - count, min(5, n - count), outs[SUIT_OUTS + suit], pile
        )
    kinds, pairs, most, helpful = 0, 0, 0, 0
    for i in range(n):
        rank = notes[hand_notes.RANK + i]
        if rank == 0:
            continue
        count = hand_notes.count_bits(notes[hand_notes.OF_RANK + rank])
        if count >= 2:
            kinds |= 1 << i
            pairs += 1
            helpful = max(helpful, outs[rank])
        most = max(most, count)
    _set_discard(2, kinds, s, n, notes, legal, table, mask, max_hand)
    features[moves.X_DRAWS + 4] = most / 4.0
    features[moves.X_DRAWS + 5] = pairs / 6.0
    features[moves.X_DRAWS + 6] = at_least(1, 5, helpful, pile)
    bits, length, missing = straight_draw(notes, n, outs)
    _set_discard(3, bits, s, n, notes, legal, table, mask, max_hand)
    features[moves.X_DRAWS + 7] = length / 5.0
    features[moves.X_DRAWS + 8] = missing / (pile + 1.0)
    _set_discard(4, best, s, n, notes, legal, table, mask, max_hand)
    bits = hand_notes.forced_cards(s)
    for k in range(1, 6):
        bits = hand_notes.fill_up(bits, 0, n, notes, k)
        action = _set_action(bits, max_hand)
        if action >= 0:
            _set_move(legal, table, mask, moves.DISCARD + 4 + k, action + 1)
    bits = 0
    for k in range(2):
        bits = _with_lowest(bits, s, n, 3 - k)
        action = _set_action(bits, max_hand)
        if action >= 0:
            _set_move(legal, table, mask, moves.DISCARD + 10 + k, action + 1)
    bits, count = 0, 0
    for i in range(n):
        card = s[st.CARD + s[st.HAND + i]]
        if count < 5 and not card & HIDDEN and is_face(card & FACE_MASK, False, False):
            bits |= 1 << i
            count += 1
    if bits:
        action = _set_action(bits, max_hand)
        if action >= 0:
            _set_move(legal, table, mask, moves.DISCARD + 12, action + 1)


@kernel
def _write_moves(
    s: Any,
    f: Any,
    legal: Any,
    table: Any,
    mask: Any,
    features: Any,
    copy_s: Any,
    copy_f: Any,
    queue: Any,
    log: Any,
    notes: Any,
    sets: Any,
    scores: Any,
    outs: Any,
    max_hand: Any,
) -> None:
    phase = s[st.PHASE]
    if phase == nm.GAME_OVER:
        return
    if phase == nm.CASHING_OUT:
        _set_move(legal, table, mask, act.CASH_OUT, act.CASH_OUT)
        return
    if phase == nm.TARGETING:
        n = min(s[st.N_HAND], max_hand)
        hand_notes.note_hand(s, n, notes)
        for k in range(len(moves.TARGET_SETS)):
            _set_move(legal, table, mask, moves.CHOOSE + k, CARDS + 2 * moves.TARGET_SETS[k])
        for k in range(1, 4):
            worst = hand_notes.fill_up(0, 0, n, notes, k)
            _set_move(legal, table, mask, moves.CHOOSE_WORST + k - 1, _set_action(worst, max_hand))
        for i in range(n):
            notes[hand_notes.KEEPING + i] = -notes[hand_notes.KEEPING + i]
        hand_notes.order_hand(n, notes)
        for k in range(1, 4):
            best = hand_notes.fill_up(0, 0, n, notes, k)
            _set_move(legal, table, mask, moves.CHOOSE_BEST + k - 1, _set_action(best, max_hand))
    else:
        _held_item_moves(s, legal, table, mask)
    if phase == nm.CHOOSING_BLIND:
        for action in range(3):
            _set_move(legal, table, mask, action, action)
    elif phase in (nm.SHOPPING, nm.OPENING_PACK):
        _offer_moves(s, legal, table, mask)
        _joker_values(s, f, copy_s, copy_f, queue, log, legal, table, mask, features)
    elif phase == nm.SELECTING_HAND:
        n = min(s[st.N_HAND], max_hand)
        hand_notes.note_hand(s, n, notes)
        best_hands(s, f, copy_s, copy_f, queue, log, n, notes, sets, scores)
        best = _play_moves(s, f, n, notes, sets, scores, legal, table, mask, max_hand, features)
        if legal[CARDS + 1] or hand_notes.forced_cards(s):
            _discard_moves(s, n, notes, best, legal, table, mask, max_hand, outs, features)
    if mask[moves.PLAY_BEST]:
        return
    for move in range(moves.ANYTHING):
        if mask[move]:
            return
    for action in range(len(legal)):
        if legal[action]:
            _set_move(legal, table, mask, moves.ANYTHING, action)
            return


def move_scratch() -> tuple[Array, ...]:
    """Return the last arguments of `write_moves`: a copy of a game and work arrays. Each thread needs its own."""
    game = st.Games.empty(1)
    notes = [np.zeros(size, dtype=np.int64) for size in (hand_notes.NOTES, OUTS, st.N_HANDS)]
    return game.s[0], game.f[0], *notes, np.zeros(st.N_HANDS)


@kernel
def write_moves_of_games(
    games_s: Any,
    games_f: Any,
    legal: Any,
    table: Any,
    mask: Any,
    obs: Any,
    max_hand: Any,
    queue: Any,
    log: Any,
    copy_s: Any,
    copy_f: Any,
    notes: Any,
    outs: Any,
    sets: Any,
    scores: Any,
) -> None:
    """Write for every game the action of each move (`table`, -1 if none), the move mask and the derived features.

    `legal` are the masks of `actions.py`. The features are the last columns of `obs`.
    """
    start = obs.shape[1] - moves.N_WORKED_OUT
    for i in range(len(games_s)):
        for move in range(moves.N_MOVES):
            table[i, move] = -1
            mask[i, move] = False
        features = obs[i, start:]
        for k in range(moves.N_WORKED_OUT):
            features[k] = 0.0
        _write_moves(
            games_s[i],
            games_f[i],
            legal[i],
            table[i],
            mask[i],
            features,
            copy_s,
            copy_f,
            queue,
            log,
            notes,
            sets,
            scores,
            outs,
            max_hand,
        )


write_moves = for_python(write_moves_of_games)
