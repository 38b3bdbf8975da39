"""Moves: actions by what they mean instead of by where things lie, for networks that learn.

Among 1,300 sets of cards a network finds a flush by luck. Here an index says what a player would say: play the best
hand, play a flush, discard what does not help the flush, take Blueprint, sell Joker, redeem Grabber. A game's table
names for each move that can be made the action (see `actions.py`) that it is now. What a player would work out
before choosing is written behind the observation (`move_table.py`); nothing hidden is used for it.
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

# the seven actions that are no choice of place keep their index
TAKE = 7  # of the shop or of a pack: item i is TAKE + i - 1
TAKE_CARD = TAKE + nm.PLAYING_CARD - 1  # a playing card, by its place
TAKE_BEST = TAKE_CARD + st.PACK_SLOTS  # the joker that adds most to the usual hands
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
PLAY_FULL = PLAY + st.N_HANDS
DISCARD = PLAY_FULL + st.N_HANDS
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
X_LOGS = X_SCORES + st.N_HANDS  # and its size
X_BEST = X_LOGS + st.N_HANDS  # which is the best
X_BEST_SHARE = (
    X_BEST + st.N_HANDS
)  # what it scores of what is missing; the same per hand left, in powers of ten
X_DRAWS = X_BEST_SHARE + 3
X_STRENGTH = X_DRAWS + 9  # what the usual hands score; which they are
X_USUAL = X_STRENGTH + 1
X_GAIN = X_USUAL + st.N_HANDS  # by joker on offer: what it would add
X_BEST_GAIN = X_GAIN + 150
X_WORTH = X_BEST_GAIN + 2  # by joker held: what it adds
N_WORKED_OUT = X_WORTH + 150


def describe_move(move: int) -> str:
    """A move in words."""
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
    return "whatever is legal"


def _pack_name(index: int) -> str:
    return f"{('', 'Jumbo ', 'Mega ')[index % 3]}{facts.PACK_KINDS[index // 3]} Pack"


def _cards_of_target(index: int) -> str:
    bits = int(SETS[TARGET_SETS[index]])
    return " ".join(str(p + 1) for p in range(TARGET_HAND) if bits >> p & 1)
