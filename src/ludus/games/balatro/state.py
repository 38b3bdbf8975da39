"""A game as two rows of numbers: `s` (int32) and `f` (float64), N games as two arrays of such rows.

The constants are positions in a row; one that begins a list is followed by its length of cells. To save a game
is to copy its two rows. Nothing of a game lives anywhere else. Small rows matter: a step reaches into
most of one, and 256 games should stay near the processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ludus.types import Array

MAX_CARDS = 160  # playing cards of a deck; 52 at the start
MAX_HAND = 20
MAX_JOKERS = 15
MAX_CONSUMABLES = 10
MAX_TAGS = 12
SHOP_SLOTS = 4
VOUCHER_SLOTS = 4
BOOSTER_SLOTS = 2
PACK_SLOTS = 5
N_HANDS = 12


class _Row:
    def __init__(self) -> None:
        self.size = 0

    def take(self, cells: int = 1) -> int:
        start = self.size
        self.size += cells
        return start


_s, _f = _Row(), _Row()

# chance
SEED_LOW, SEED_HIGH, DRAWS = _s.take(), _s.take(), _s.take()

# the run
PHASE, DECK, STAKE, ANTE, ROUND = _s.take(), _s.take(), _s.take(), _s.take(), _s.take()
LAST_ANTE = _s.take()  # the ante whose boss ends the game as a win; 0 goes on for ever
WON, LOST_TO = _s.take(), _s.take()
MONEY, SKIPS, STEPS = _s.take(), _s.take(), _s.take()
HANDS_PER_ROUND, DISCARDS_PER_ROUND, HAND_SIZE = _s.take(), _s.take(), _s.take()
JOKER_SLOTS, CONSUMABLE_SLOTS = _s.take(), _s.take()
HANDS_PLAYED, UNUSED_DISCARDS, TAROTS_USED, PLANETS_USED = _s.take(), _s.take(), _s.take(), _s.take()
LAST_CONSUMABLE = _s.take()  # the newest tarot or planet used, for The Fool
GROS_MICHEL_GONE, ECTOPLASM_COST, STARTING_CARDS, FIRST_SHOP = _s.take(), _s.take(), _s.take(), _s.take()
LEVEL, PLAYED, PLAYED_ROUND = _s.take(N_HANDS), _s.take(N_HANDS), _s.take(N_HANDS)
LAST_HAND, MOST_PLAYED = _s.take(), _s.take()
VOUCHER = _s.take(33)  # 1 where redeemed, by voucher
BOSS_USED = _s.take(31)

# the blind
BLIND_ON_DECK = _s.take()  # 0 small, 1 big, 2 boss
BLIND, BOSS, BOSS_OFF, BOSS_REROLLED = _s.take(), _s.take(), _s.take(), _s.take()
BLIND_TAG, BLIND_TAG_HAND = _s.take(2), _s.take(2)
TRIGGERED = _s.take()  # the boss had its way in this hand, for Matador
PREPPED = _s.take()  # a hand was played since the last draw, for The Fish and Crimson Heart
EYE_SEEN, MOUTH_HAND = _s.take(), _s.take()
HANDS_LEFT, DISCARDS_LEFT, HANDS_THIS_ROUND, DISCARDS_USED = _s.take(), _s.take(), _s.take(), _s.take()
DEBUFFING = _s.take()  # some cards may be debuffed
BOSS_TOOK = _s.take()  # hands or discards taken by The Needle or The Water
ROUND_HAND_SIZE = _s.take()  # by Juggle Tags, for one round
IDOL_RANK, IDOL_SUIT, MAIL_RANK, ANCIENT_SUIT, CASTLE_SUIT = (
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
)
PAYOUT, SAVED = _s.take(), _s.take()  # of the round that was just won
HAND_MOVES, JOKER_MOVES = _s.take(), _s.take()  # reorderings left until something else happens

# playing cards: packed as in cards.py; 0 is an empty place
CARD, CARD_BONUS, N_CARDS = _s.take(MAX_CARDS), _s.take(MAX_CARDS), _s.take()
CARD_TOP = _s.take()  # no card lies at this place or above
DRAW_PILE, N_DRAW = _s.take(MAX_CARDS), _s.take()
PILE_CARDS, PILE_ENHANCED = _s.take(52), _s.take(9)  # what is in it, by suit and rank, and by enhancement
HAND, N_HAND = _s.take(MAX_HAND), _s.take()
PLAY, N_PLAY = _s.take(5), _s.take()

# jokers, left to right
JOKER, J_EDITION, J_STICKERS, J_COUNT = (
    _s.take(MAX_JOKERS),
    _s.take(MAX_JOKERS),
    _s.take(MAX_JOKERS),
    _s.take(MAX_JOKERS),
)
J_PERISH, J_EXTRA, N_JOKERS = _s.take(MAX_JOKERS), _s.take(MAX_JOKERS), _s.take()

CONSUMABLE, C_EDITION, C_EXTRA, N_CONSUMABLES = (
    _s.take(MAX_CONSUMABLES),
    _s.take(MAX_CONSUMABLES),
    _s.take(MAX_CONSUMABLES),
    _s.take(),
)
TAG, TAG_HAND, N_TAGS = _s.take(MAX_TAGS), _s.take(MAX_TAGS), _s.take()

# the shop; an empty place is 0
SHOP, SHOP_EDITION, SHOP_STICKERS, SHOP_CARD = (
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
)
SHOP_FREE = _s.take(SHOP_SLOTS)
SHOP_VOUCHER, ANTE_VOUCHER = _s.take(VOUCHER_SLOTS), _s.take()
SHOP_BOOSTER, BOOSTER_FREE = _s.take(BOOSTER_SLOTS), _s.take(BOOSTER_SLOTS)
REROLLS, FREE_REROLLS, REROLL_BASE, D6 = _s.take(), _s.take(), _s.take(), _s.take()

# an open pack
PACK, PACK_EDITION, PACK_STICKERS, PACK_CARD = (
    _s.take(PACK_SLOTS),
    _s.take(PACK_SLOTS),
    _s.take(PACK_SLOTS),
    _s.take(PACK_SLOTS),
)
PACK_PICKS, PACK_KIND, PACK_BACK = _s.take(), _s.take(), _s.take()

# a consumable that waits for its targets
WAITING, WAITING_FROM, WAITING_BACK = _s.take(), _s.take(), _s.take()

# while a hand is scored
W_HAND, W_CONTAINED, W_SCORING, W_SMEARED, W_ALL_FACES, W_MONEY = (
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
)
W_CARDS = _s.take(5)
W_ACTING = _s.take(MAX_JOKERS)  # `acting` of every joker
W_FOR_SCORED, W_FOR_HELD, W_AGAIN = _s.take(), _s.take(), _s.take()  # which jokers answer to what, as bits
W_BENDS = _s.take()  # what the jokers bend, as the bits of `facts.BENDS`
PURSE_FIXED = _s.take()  # Bull and Bootstraps read the money from before the hand: see `score`

# floats
CHIPS, TARGET = _f.take(), _f.take()  # of the round
HAND_SCORE, BEST_HAND = _f.take(), _f.take()
W_CHIPS, W_MULT = _f.take(), _f.take()  # of the hand that is being scored
J_VALUE = _f.take(MAX_JOKERS)
REWARD = _f.take()  # of the step that is being taken
R_CHIPS, R_BLIND, R_WIN, R_ILLEGAL = _f.take(), _f.take(), _f.take(), _f.take()  # what is rewarded
LOGS = _f.take(2 * (4 + MAX_JOKERS))  # numbers that are shown and their logarithms, each taken once

S_SIZE, F_SIZE = _s.size, _f.size

# stickers and conditions of a joker, as bits
ETERNAL, PERISHABLE, RENTAL, DEBUFFED, FACE_DOWN = 1, 2, 4, 8, 16


@dataclass
class Games:
    """N games: `s[i]` and `f[i]` are the rows of game i."""

    s: Array
    f: Array

    @classmethod
    def empty(cls, n_games: int) -> Games:
        """Rows of zeros, to be filled by starting a run."""
        return cls(np.zeros((n_games, S_SIZE), dtype=np.int32), np.zeros((n_games, F_SIZE), dtype=np.float64))

    def copy(self) -> Games:
        """The same games, to go back to."""
        return Games(self.s.copy(), self.f.copy())

    def put_back(self, saved: Games) -> None:
        """Makes the games what they were when `saved` was copied."""
        self.s[:] = saved.s
        self.f[:] = saved.f
