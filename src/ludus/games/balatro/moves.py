"""Moves: actions by their meaning instead of by position, which are easier to learn.

Among 1,300 sets of cards a network finds a flush only by luck. Here an index has a meaning: play the best hand, play a
flush, discard what does not help the flush, take Blueprint, sell Joker, redeem Grabber. The move table of a game maps
each available move to its current action (see `actions.py`). Features that a player would compute before choosing are
appended to the observation (`move_table.py`). They use no hidden information.
"""

from __future__ import annotations

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import facts
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.actions import N_SETS, SET_SIZE, SETS

N_CONSUMABLE_KINDS = nm.PLAYING_CARD - nm.C_FOOL
N_BOOSTER_KINDS = 3 * len(facts.PACK_KINDS)

# the first seven actions, which have no position, keep their index
TAKE = 7  # from the shop or a pack: item i is TAKE + i - 1
TAKE_CARD = TAKE + nm.PLAYING_CARD - 1  # a playing card, by its slot
TAKE_BEST = TAKE_CARD + st.PACK_SLOTS  # the joker that adds most to the usual hands
USE_NOW = TAKE_BEST + 1  # buy a consumable and use it
REDEEM = USE_NOW + N_CONSUMABLE_KINDS
OPEN = REDEEM + 32  # a pack, by kind and size
USE = OPEN + N_BOOSTER_KINDS
SELL_JOKER = USE + N_CONSUMABLE_KINDS
SELL_WORST = SELL_JOKER + 150  # the joker that adds least to the usual hands
SELL_CONSUMABLE = SELL_WORST + 1  # the leftmost
PLAY_BEST = SELL_CONSUMABLE + 1
PLAY_BEST_FULL = PLAY_BEST + 1  # filled up to five cards with those least worth keeping
PLAY = PLAY_BEST + 2  # by poker hand
PLAY_FULL = PLAY + st.N_HANDS
DISCARD = PLAY_FULL + st.N_HANDS
DISCARDS = (
    "all but the likeliest flush",
    "all but the second flush",
    "all but pairs and more",
    "all but the likeliest straight",
    "all but the best hand",
    *(f"{k} least worth keeping" for k in range(1, 6)),
    "3 lowest",
    "5 lowest",
    "faces",
)
CHOOSE_BEST = DISCARD + len(
    DISCARDS
)  # targets of a consumable: the one, two or three cards most worth keeping
CHOOSE_WORST = CHOOSE_BEST + 3  # or least
CHOOSE = CHOOSE_WORST + 3  # one or two, by position
TARGET_HAND = 10
TARGET_SETS = np.flatnonzero((SET_SIZE <= 2) & (np.arange(len(SETS)) < N_SETS[TARGET_HAND])).astype(np.int64)
ARRANGE = CHOOSE + len(TARGET_SETS)  # swaps two neighbouring jokers, where that adds to the usual hands
ANYTHING = ARRANGE + 1  # the first legal action, if no other move is available
N_MOVES = ANYTHING + 1

# the derived features, at the end of the observation
X_SCORES = 0  # by poker hand: its score as a share of the missing chips
X_LOGS = X_SCORES + st.N_HANDS  # by poker hand: log10 of its score
X_BEST = X_LOGS + st.N_HANDS  # one-hot: the best poker hand
X_BEST_SHARE = (
    X_BEST + st.N_HANDS
)  # its share of the missing chips; log10 of that for all hands left, and for one
X_DRAWS = X_BEST_SHARE + 3
X_STRENGTH = X_DRAWS + 9  # the score of the usual hands
X_USUAL = X_STRENGTH + 1  # the two usual hands
X_GAIN = X_USUAL + st.N_HANDS  # by joker on offer: the strength it would add
X_BEST_GAIN = X_GAIN + 150
X_WORTH = X_BEST_GAIN + 2  # by joker held: the strength it adds
N_WORKED_OUT = X_WORTH + 150


def describe_move(move: int) -> str:
    """Describe a move in words."""
    if move < TAKE:
        return act.describe(move)
    for start, count, words, names in (
        (TAKE, nm.PLAYING_CARD - 1, "take {}", lambda i: facts.ITEM_NAMES[i + 1]),
        (TAKE_CARD, st.PACK_SLOTS, "take playing card {}", lambda i: str(i + 1)),
        (TAKE_BEST, 1, "take the best joker", str),
        (USE_NOW, N_CONSUMABLE_KINDS, "buy and use {}", lambda i: facts.ITEM_NAMES[nm.C_FOOL + i]),
        (REDEEM, 32, "redeem {}", lambda i: facts.VOUCHER_NAMES[i + 1]),
        (OPEN, N_BOOSTER_KINDS, "open a {}", _pack_name),
        (USE, N_CONSUMABLE_KINDS, "use {}", lambda i: facts.ITEM_NAMES[nm.C_FOOL + i]),
        (SELL_JOKER, 150, "sell {}", lambda i: facts.ITEM_NAMES[i + 1]),
        (SELL_WORST, 1, "sell the joker that adds least", str),
        (SELL_CONSUMABLE, 1, "sell the leftmost consumable", str),
        (PLAY_BEST, 1, "play the best hand", str),
        (PLAY_BEST_FULL, 1, "play the best hand with five cards", str),
        (PLAY, st.N_HANDS, "play {}", lambda i: facts.HANDS[i]),
        (PLAY_FULL, st.N_HANDS, "play {} with five cards", lambda i: facts.HANDS[i]),
        (DISCARD, len(DISCARDS), "discard {}", lambda i: DISCARDS[i]),
        (CHOOSE_BEST, 3, "choose the {} most worth keeping", lambda i: str(i + 1)),
        (CHOOSE_WORST, 3, "choose the {} least worth keeping", lambda i: str(i + 1)),
        (CHOOSE, len(TARGET_SETS), "choose {}", _cards_of_target),
        (ARRANGE, 1, "put the jokers in a better order", str),
    ):
        if start <= move < start + count:
            return words.format(names(move - start))
    return "first legal action"


def _pack_name(index: int) -> str:
    return f"{('', 'Jumbo ', 'Mega ')[index % 3]}{facts.PACK_KINDS[index // 3]} Pack"


def _cards_of_target(index: int) -> str:
    bits = int(SETS[TARGET_SETS[index]])
    return " ".join(str(p + 1) for p in range(TARGET_HAND) if bits >> p & 1)
