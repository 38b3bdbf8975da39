"""Moves: actions by what they mean instead of by where things lie, for networks that learn.

Among 1,300 sets of cards a network finds a flush by luck. Here an index says what a player would say: play the best
hand, play a flush, discard what does not help the flush, take Blueprint, sell Joker, redeem Grabber. A game's table
names for each move that can be made the action (see `actions.py`) that it is now. What a player would work out
before choosing is written behind the observation: see `preview.py`, which uses nothing that is hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.envs.balatro import actions as act
from ludus.envs.balatro.actions import CARDS, N_SETS, SET_SIZE, SETS
from ludus.envs.balatro.bosses import progress
from ludus.envs.balatro.cards import FACE_MASK, HIDDEN, is_face, rank_shown
from ludus.envs.balatro.compiled import entry, kernel
from ludus.envs.balatro.facts import (
    BOOSTER_CARDS,
    BOOSTER_KIND,
    BOOSTER_PICKS,
    HANDS,
    ITEM_NAMES,
    PACK_KINDS,
    VOUCHER_NAMES,
)
from ludus.envs.balatro.names import (
    C_FOOL,
    CASHING_OUT,
    CHOOSING_BLIND,
    GAME_OVER,
    OPENING_PACK,
    PLAYING_CARD,
    SELECTING_HAND,
    SHOPPING,
    TARGETING,
)
from ludus.envs.balatro.preview import (
    at_least,
    best_hands,
    fill_up,
    forced_cards,
    keeping,
    of_suit,
    rank_outs,
    straight_draw,
    strength,
    suit_outs,
    swapped_strength,
    usual_hands,
)
from ludus.envs.balatro.state import (
    BOOSTER_SLOTS,
    CARD,
    CHIPS,
    CONSUMABLE,
    HAND,
    HANDS_LEFT,
    JOKER,
    N_CONSUMABLES,
    N_DRAW,
    N_HAND,
    N_HANDS,
    N_JOKERS,
    PACK,
    PACK_EDITION,
    PACK_SLOTS,
    PHASE,
    SHOP,
    SHOP_BOOSTER,
    SHOP_EDITION,
    SHOP_SLOTS,
    SHOP_VOUCHER,
    TARGET,
    VOUCHER_SLOTS,
)

N_CONSUMABLE_KINDS = PLAYING_CARD - C_FOOL
N_BOOSTER_KINDS = 3 * len(PACK_KINDS)

# the seven actions that are no choice of place keep their index
TAKE = 7  # of the shop or of a pack: item i is TAKE + i - 1
TAKE_CARD = TAKE + PLAYING_CARD - 1  # a playing card, by its place
TAKE_BEST = TAKE_CARD + PACK_SLOTS  # the joker that adds most to the usual hands
USE_NOW = TAKE_BEST + 1  # buy a consumable and use it
REDEEM = USE_NOW + N_CONSUMABLE_KINDS
OPEN = REDEEM + 32  # a pack, by kind and size
USE = OPEN + N_BOOSTER_KINDS
SELL_JOKER = USE + N_CONSUMABLE_KINDS
SELL_WORST = SELL_JOKER + 150  # the joker that adds least to the usual hands
SELL_CONSUMABLE = SELL_WORST + 1  # the leftmost
PLAY_BEST = SELL_CONSUMABLE + 1
PLAY_BEST_FULL = PLAY_BEST + 1  # and with it the cards least worth keeping, five in all
PLAY = PLAY_BEST + 2  # by poker hand
PLAY_FULL = PLAY + N_HANDS
DISCARD = PLAY_FULL + N_HANDS
DISCARDS = (
    "but for the likeliest flush",
    "but for the second flush",
    "but for pairs and more",
    "but for the likeliest straight",
    "but for the best hand",
    *(f"{k} least worth keeping" for k in range(1, 6)),
    "3 lowest",
    "5 lowest",
    "faces",
)
CHOOSE_BEST = DISCARD + len(
    DISCARDS
)  # as targets of a consumable: the one, two, three cards most worth keeping
CHOOSE_WORST = CHOOSE_BEST + 3  # or least
CHOOSE = CHOOSE_WORST + 3  # one or two by their places
TARGET_HAND = 10
TARGET_SETS = np.flatnonzero((SET_SIZE <= 2) & (np.arange(len(SETS)) < N_SETS[TARGET_HAND])).astype(np.int64)
ARRANGE = CHOOSE + len(TARGET_SETS)  # swaps two neighbouring jokers, where that adds to the usual hands
ANYTHING = ARRANGE + 1  # the first legal action, where no other move is there
N_MOVES = ANYTHING + 1

# what is worked out, behind the observation
X_SCORES = 0  # by poker hand: how much of what is missing it scores
X_LOGS = X_SCORES + N_HANDS  # and its size
X_BEST = X_LOGS + N_HANDS  # which is the best
X_BEST_SHARE = X_BEST + N_HANDS  # what it scores of what is missing; the same per hand left, in powers of ten
X_DRAWS = X_BEST_SHARE + 3
X_STRENGTH = X_DRAWS + 9  # what the usual hands score; which they are
X_USUAL = X_STRENGTH + 1
X_GAIN = X_USUAL + N_HANDS  # by joker on offer: what it would add
X_BEST_GAIN = X_GAIN + 150
X_WORTH = X_BEST_GAIN + 2  # by joker held: what it adds
N_WORKED_OUT = X_WORTH + 150


def describe_move(move: int) -> str:
    """A move in words."""
    if move < TAKE:
        return act.describe(move)
    for start, count, words, names in (
        (TAKE, PLAYING_CARD - 1, "take {}", lambda i: ITEM_NAMES[i + 1]),
        (TAKE_CARD, PACK_SLOTS, "take playing card {}", lambda i: str(i + 1)),
        (TAKE_BEST, 1, "take the best joker", str),
        (USE_NOW, N_CONSUMABLE_KINDS, "buy and use {}", lambda i: ITEM_NAMES[C_FOOL + i]),
        (REDEEM, 32, "redeem {}", lambda i: VOUCHER_NAMES[i + 1]),
        (OPEN, N_BOOSTER_KINDS, "open a {}", _pack_name),
        (USE, N_CONSUMABLE_KINDS, "use {}", lambda i: ITEM_NAMES[C_FOOL + i]),
        (SELL_JOKER, 150, "sell {}", lambda i: ITEM_NAMES[i + 1]),
        (SELL_WORST, 1, "sell the joker that adds least", str),
        (SELL_CONSUMABLE, 1, "sell the leftmost consumable", str),
        (PLAY_BEST, 1, "play the best hand", str),
        (PLAY_BEST_FULL, 1, "play the best hand with five cards", str),
        (PLAY, N_HANDS, "play {}", lambda i: HANDS[i]),
        (PLAY_FULL, N_HANDS, "play {} with five cards", lambda i: HANDS[i]),
        (DISCARD, len(DISCARDS), "discard {}", lambda i: DISCARDS[i]),
        (CHOOSE_BEST, 3, "choose the {} most worth keeping", lambda i: str(i + 1)),
        (CHOOSE_WORST, 3, "choose the {} least worth keeping", lambda i: str(i + 1)),
        (CHOOSE, len(TARGET_SETS), "choose {}", _cards_of_target),
        (ARRANGE, 1, "put the jokers in a better order", str),
    ):
        if start <= move < start + count:
            return words.format(names(move - start))
    return "whatever is legal"


def _pack_name(index: int) -> str:
    return f"{('', 'Jumbo ', 'Mega ')[index % 3]}{PACK_KINDS[index // 3]} Pack"


def _cards_of_target(index: int) -> str:
    bits = int(SETS[TARGET_SETS[index]])
    return " ".join(str(p + 1) for p in range(TARGET_HAND) if bits >> p & 1)


@kernel
def _put(legal: Any, table: Any, mask: Any, move: Any, action: Any) -> None:
    """A move is this action now, if that is legal and nothing was before."""
    if 0 <= action < len(legal) and legal[action] and not mask[move]:
        table[move] = action
        mask[move] = True


@kernel
def _set_action(bits: Any, max_hand: Any) -> Any:
    """The action that plays a set of positions, -1 for none."""
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
    size = 2 if BOOSTER_PICKS[booster] == 2 else (1 if BOOSTER_CARDS[booster] >= 4 else 0)
    return BOOSTER_KIND[booster] * 3 + size


@kernel
def _move_belongings(s: Any, legal: Any, table: Any, mask: Any) -> None:
    for k in range(s[N_CONSUMABLES]):
        _put(legal, table, mask, USE + s[CONSUMABLE + k] - C_FOOL, act.USE + k)
    if s[PHASE] == SHOPPING or s[PHASE] == OPENING_PACK:
        for i in range(s[N_JOKERS]):
            _put(legal, table, mask, SELL_JOKER + s[JOKER + i] - 1, act.SELL_JOKER + i)
        if s[N_CONSUMABLES] > 0:
            _put(legal, table, mask, SELL_CONSUMABLE, act.SELL_CONSUMABLE)


@kernel
def _move_offers(s: Any, legal: Any, table: Any, mask: Any) -> None:
    if s[PHASE] == OPENING_PACK:
        _put(legal, table, mask, act.SKIP_PACK, act.SKIP_PACK)
        for k in range(PACK_SLOTS):
            item = s[PACK + k]
            if item == PLAYING_CARD:
                _put(legal, table, mask, TAKE_CARD + k, act.PICK + k)
            elif item > 0:
                _put(legal, table, mask, TAKE + item - 1, act.PICK + k)
        return
    _put(legal, table, mask, act.REROLL, act.REROLL)
    _put(legal, table, mask, act.NEXT_ROUND, act.NEXT_ROUND)
    for k in range(SHOP_SLOTS):
        item = s[SHOP + k]
        if item == PLAYING_CARD:
            _put(legal, table, mask, TAKE_CARD + k, act.BUY + k)
        elif item > 0:
            _put(legal, table, mask, TAKE + item - 1, act.BUY + k)
            if item >= C_FOOL:
                _put(legal, table, mask, USE_NOW + item - C_FOOL, act.BUY_AND_USE + k)
    for k in range(VOUCHER_SLOTS):
        if s[SHOP_VOUCHER + k] > 0:
            _put(legal, table, mask, REDEEM + s[SHOP_VOUCHER + k] - 1, act.REDEEM + k)
    for k in range(BOOSTER_SLOTS):
        if s[SHOP_BOOSTER + k] > 0:
            _put(legal, table, mask, OPEN + _booster_kind(s[SHOP_BOOSTER + k]), act.OPEN + k)


@kernel
def _worth_of_jokers(
    s: Any, f: Any, t: Any, g: Any, q: Any, log: Any, legal: Any, table: Any, mask: Any, x: Any
) -> None:
    """What jokers on offer would add to the usual hands, and what those held add."""
    first, second = usual_hands(s)
    now = strength(s, f, t, g, q, log, first, second, 0, 0, -1)
    x[X_STRENGTH] = now / 5.0
    x[X_USUAL + first] = 1.0
    x[X_USUAL + second] = 0.5
    best, most = -1, -1.0
    in_pack = s[PHASE] == OPENING_PACK
    for k in range(PACK_SLOTS if in_pack else SHOP_SLOTS):
        item = s[PACK + k] if in_pack else s[SHOP + k]
        if item == 0 or item >= C_FOOL:
            continue
        edition = s[PACK_EDITION + k] if in_pack else s[SHOP_EDITION + k]
        gain = strength(s, f, t, g, q, log, first, second, item, edition, -1) - now
        x[X_GAIN + item - 1] = gain
        action = act.PICK + k if in_pack else act.BUY + k
        if legal[action] and gain > most:
            best, most = action, gain
    if best >= 0:
        _put(legal, table, mask, TAKE_BEST, best)
        x[X_BEST_GAIN] = most
    better, most = -1, now + 1e-6
    for i in range(s[N_JOKERS] - 1):
        if legal[act.SWAP_JOKERS + i]:
            then = swapped_strength(s, f, t, g, q, log, first, second, i)
            if then > most:
                better, most = act.SWAP_JOKERS + i, then
    if better >= 0:
        _put(legal, table, mask, ARRANGE, better)
    worst, least = -1, 1e9
    for i in range(s[N_JOKERS]):
        worth = now - strength(s, f, t, g, q, log, first, second, 0, 0, i)
        x[X_WORTH + s[JOKER + i] - 1] = worth
        if legal[act.SELL_JOKER + i] and worth < least:
            worst, least = act.SELL_JOKER + i, worth
    if worst >= 0:
        _put(legal, table, mask, SELL_WORST, worst)
        x[X_BEST_GAIN + 1] = least


@kernel
def _move_plays(
    s: Any,
    f: Any,
    n: Any,
    w: Any,
    sets: Any,
    scores: Any,
    legal: Any,
    table: Any,
    mask: Any,
    max_hand: Any,
    x: Any,
) -> Any:
    """Plays by poker hand; returns the positions of the best one."""
    missing = max(1.0, f[TARGET] - f[CHIPS])
    best, most = -1, -0.5
    for hand in range(N_HANDS):
        if sets[hand] == 0:
            continue
        x[X_SCORES + hand] = progress(scores[hand], missing)
        x[X_LOGS + hand] = np.log10(1.0 + scores[hand]) / 5.0
        _put(legal, table, mask, PLAY + hand, _set_action(sets[hand], max_hand))
        full = fill_up(sets[hand], 0, n, w, 5)
        _put(legal, table, mask, PLAY_FULL + hand, _set_action(full, max_hand))
        if scores[hand] > most:
            best, most = hand, scores[hand]
    if best < 0:
        return 0
    bits = sets[best]
    _put(legal, table, mask, PLAY_BEST, _set_action(bits, max_hand))
    _put(legal, table, mask, PLAY_BEST_FULL, _set_action(fill_up(bits, 0, n, w, 5), max_hand))
    x[X_BEST + best] = 1.0
    share = most / missing
    x[X_BEST_SHARE] = min(1.0, share)
    x[X_BEST_SHARE + 1] = max(-2.0, min(2.0, np.log10(1e-9 + share * s[HANDS_LEFT])))
    x[X_BEST_SHARE + 2] = max(-2.0, min(2.0, np.log10(1e-9 + share)))
    return bits


@kernel
def _lowest(s: Any, n: Any, count: Any) -> Any:
    bits = 0
    for _ in range(min(count, n)):
        worst, least = -1, 100
        for i in range(n):
            card = s[CARD + s[HAND + i]]
            rank = 1 if card & HIDDEN else rank_shown(card)
            if not (bits >> i) & 1 and rank < least:
                worst, least = i, rank
        bits |= 1 << worst
    return bits


@kernel
def _put_discard(
    kind: Any, keep: Any, s: Any, n: Any, w: Any, legal: Any, table: Any, mask: Any, max_hand: Any
) -> None:
    """Discards up to five cards that are not kept, those least worth keeping first."""
    bits = fill_up(forced_cards(s), keep, n, w, 5)
    if bits:
        action = _set_action(bits, max_hand)
        if action >= 0:
            _put(legal, table, mask, DISCARD + kind, action + 1)


@kernel
def _move_discards(
    s: Any, n: Any, w: Any, best: Any, legal: Any, table: Any, mask: Any, max_hand: Any, outs: Any, x: Any
) -> None:
    pile = s[N_DRAW]
    rank_outs(s, outs)
    first, second, top, next_top = -1, -1, -1.0, -1.0
    for suit in range(4):
        count = 0
        bits = of_suit(s, suit, n)
        while bits:
            bits &= bits - 1
            count += 1
        hope = count + suit_outs(s, suit) / (pile + 1.0)
        if hope > top:
            first, second, top, next_top = suit, first, hope, top
        elif hope > next_top:
            second, next_top = suit, hope
    for k in range(2):
        suit = first if k == 0 else second
        keep = of_suit(s, suit, n)
        _put_discard(k, keep, s, n, w, legal, table, mask, max_hand)
        count = 0
        while keep:
            keep &= keep - 1
            count += 1
        x[X_DRAWS + 2 * k] = count / 5.0
        x[X_DRAWS + 2 * k + 1] = at_least(5 - count, min(5, n - count), suit_outs(s, suit), pile)
    kinds, pairs, most, helpful = 0, 0, 0, 0
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        if card & HIDDEN or rank_shown(card) == 0:
            continue
        count = 0
        for k in range(n):
            other = s[CARD + s[HAND + k]]
            if not other & HIDDEN and rank_shown(other) == rank_shown(card):
                count += 1
        if count >= 2:
            kinds |= 1 << i
            pairs += 1
            helpful = max(helpful, outs[rank_shown(card)])
        most = max(most, count)
    _put_discard(2, kinds, s, n, w, legal, table, mask, max_hand)
    x[X_DRAWS + 4] = most / 4.0
    x[X_DRAWS + 5] = pairs / 6.0
    x[X_DRAWS + 6] = at_least(1, 5, helpful, pile)
    bits, length, missing = straight_draw(s, n, outs)
    _put_discard(3, bits, s, n, w, legal, table, mask, max_hand)
    x[X_DRAWS + 7] = length / 5.0
    x[X_DRAWS + 8] = missing / (pile + 1.0)
    _put_discard(4, best, s, n, w, legal, table, mask, max_hand)
    for k in range(1, 6):
        action = _set_action(fill_up(forced_cards(s), 0, n, w, k), max_hand)
        if action >= 0:
            _put(legal, table, mask, DISCARD + 4 + k, action + 1)
    for k in range(2):
        action = _set_action(_lowest(s, n, 3 + 2 * k), max_hand)
        if action >= 0:
            _put(legal, table, mask, DISCARD + 10 + k, action + 1)
    bits, count = 0, 0
    for i in range(n):
        card = s[CARD + s[HAND + i]]
        if count < 5 and not card & HIDDEN and is_face(card & FACE_MASK, False, False):
            bits |= 1 << i
            count += 1
    if bits:
        action = _set_action(bits, max_hand)
        if action >= 0:
            _put(legal, table, mask, DISCARD + 12, action + 1)


@kernel
def _write_moves(
    s: Any,
    f: Any,
    legal: Any,
    table: Any,
    mask: Any,
    x: Any,
    t: Any,
    g: Any,
    q: Any,
    log: Any,
    w: Any,
    sets: Any,
    scores: Any,
    outs: Any,
    max_hand: Any,
) -> None:
    phase = s[PHASE]
    if phase == GAME_OVER:
        return
    if phase == CASHING_OUT:
        _put(legal, table, mask, act.CASH_OUT, act.CASH_OUT)
        return
    if phase == TARGETING:
        n = min(s[N_HAND], max_hand)
        keeping(s, n, w)
        for k in range(len(TARGET_SETS)):
            _put(legal, table, mask, CHOOSE + k, CARDS + 2 * TARGET_SETS[k])
        for k in range(1, 4):
            worst = fill_up(0, 0, n, w, k)
            _put(legal, table, mask, CHOOSE_WORST + k - 1, _set_action(worst, max_hand))
        for i in range(n):
            w[i] = -w[i]
        for k in range(1, 4):
            best = fill_up(0, 0, n, w, k)
            _put(legal, table, mask, CHOOSE_BEST + k - 1, _set_action(best, max_hand))
    else:
        _move_belongings(s, legal, table, mask)
    if phase == CHOOSING_BLIND:
        for action in range(3):
            _put(legal, table, mask, action, action)
    elif phase in (SHOPPING, OPENING_PACK):
        _move_offers(s, legal, table, mask)
        _worth_of_jokers(s, f, t, g, q, log, legal, table, mask, x)
    elif phase == SELECTING_HAND:
        n = min(s[N_HAND], max_hand)
        keeping(s, n, w)
        best_hands(s, f, t, g, q, log, n, w, sets, scores)
        best = _move_plays(s, f, n, w, sets, scores, legal, table, mask, max_hand, x)
        if legal[CARDS + 1] or forced_cards(s):
            _move_discards(s, n, w, best, legal, table, mask, max_hand, outs, x)
    for move in range(ANYTHING):
        if mask[move]:
            return
    for action in range(len(legal)):
        if legal[action]:
            _put(legal, table, mask, ANYTHING, action)
            return


@entry
def write_moves(
    games_s: Any,
    games_f: Any,
    legal: Any,
    table: Any,
    mask: Any,
    obs: Any,
    start: Any,
    max_hand: Any,
    q: Any,
    log: Any,
    t: Any,
    g: Any,
) -> None:
    """For every game: which action each move is (`table`, -1 for none), which moves there are, what is worked out.

    `legal` are the masks of `actions.py`; what is worked out goes into `obs` from column `start` on. `t` and `g` are
    rows to work in.
    """
    w = np.zeros(64, dtype=np.int64)
    outs = np.zeros(16, dtype=np.int64)
    sets = np.zeros(N_HANDS, dtype=np.int64)
    scores = np.zeros(N_HANDS)
    for i in range(len(games_s)):
        table[i] = -1
        mask[i] = False
        x = obs[i, start:]
        x[:] = 0.0
        _write_moves(
            games_s[i],
            games_f[i],
            legal[i],
            table[i],
            mask[i],
            x,
            t,
            g,
            q,
            log,
            w,
            sets,
            scores,
            outs,
            max_hand,
        )
