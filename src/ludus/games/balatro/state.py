"""The state of a game: two rows of numbers, `s` (int32) and `f` (float64). N games are two arrays of such rows.

The constants are positions in a row; a constant for a list is the position of its first cell. Copying the two rows
saves a game: it has no other state. Rows are kept small, because a step reads most of a row and 256 games should fit
into the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ludus.games.balatro.streams import N_WITH_ANTE, N_WITHOUT_ANTE
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

# random numbers; the states of their streams are at the end of the row
SEED_LOW, SEED_HIGH, DRAWS = _s.take(), _s.take(), _s.take()
FAST_RANDOM = _s.take()  # 1: a counter-based generator instead of the streams of the real game
TOP_ANTE = _s.take()  # the highest ante so far
NEXT_AGE = _s.take()  # jokers and consumables are numbered as they are created

# the run
PHASE, DECK, STAKE, ANTE, ROUND = _s.take(), _s.take(), _s.take(), _s.take(), _s.take()
LAST_ANTE = _s.take()  # the ante whose boss ends the game as won; 0 for no limit
WON, LOST_TO = _s.take(), _s.take()
MONEY, SKIPS, STEPS = _s.take(), _s.take(), _s.take()
HANDS_PER_ROUND, DISCARDS_PER_ROUND, HAND_SIZE = _s.take(), _s.take(), _s.take()
JOKER_SLOTS, CONSUMABLE_SLOTS = _s.take(), _s.take()
HANDS_PLAYED, UNUSED_DISCARDS, TAROTS_USED, PLANETS_USED = _s.take(), _s.take(), _s.take(), _s.take()
LAST_CONSUMABLE = _s.take()  # the newest tarot or planet used, for The Fool
GROS_MICHEL_GONE, ECTOPLASM_COST, STARTING_CARDS, FIRST_SHOP = _s.take(), _s.take(), _s.take(), _s.take()
LEVEL, PLAYED, PLAYED_ROUND = _s.take(N_HANDS), _s.take(N_HANDS), _s.take(N_HANDS)
LAST_HAND, MOST_PLAYED = _s.take(), _s.take()
VOUCHER = _s.take(33)  # by voucher: 1 if redeemed
BOSS_USED = _s.take(31)

# the blind
BLIND_ON_DECK = _s.take()  # 0 small, 1 big, 2 boss
BLIND, BOSS, BOSS_OFF, BOSS_REROLLED = _s.take(), _s.take(), _s.take(), _s.take()
BLIND_TAG, BLIND_TAG_HAND = _s.take(2), _s.take(2)
TRIGGERED = _s.take()  # the boss had an effect on this hand, for Matador
PREPPED = _s.take()  # a hand was played since the last draw, for The Fish and Crimson Heart
EYE_SEEN, MOUTH_HAND = _s.take(), _s.take()
HANDS_LEFT, DISCARDS_LEFT, HANDS_THIS_ROUND, DISCARDS_USED = _s.take(), _s.take(), _s.take(), _s.take()
DEBUFFING = _s.take()  # some cards may be debuffed
BOSS_TOOK = _s.take()  # hands or discards removed by The Needle or The Water
ROUND_HAND_SIZE = _s.take()  # hand size added by Juggle Tags for one round
IDOL_RANK, IDOL_SUIT, MAIL_RANK, ANCIENT_SUIT, CASTLE_SUIT = (
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
    _s.take(),
)
PAYOUT, SAVED = _s.take(), _s.take()  # of the round just won
HAND_MOVES, JOKER_MOVES = _s.take(), _s.take()  # swaps left until another action is taken

# playing cards: packed as in cards.py; 0 is an empty slot
CARD, CARD_BONUS, N_CARDS = _s.take(MAX_CARDS), _s.take(MAX_CARDS), _s.take()
CARD_TOP = _s.take()  # all slots from here on are empty
DRAW_PILE, N_DRAW = _s.take(MAX_CARDS), _s.take()
# cards of the draw pile by suit and rank, and by enhancement
PILE_CARDS, PILE_ENHANCED = _s.take(52), _s.take(9)
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
J_AGE = _s.take(MAX_JOKERS)  # its number among all that were created; chance picks in this order

CONSUMABLE, C_EDITION, C_EXTRA, C_AGE, N_CONSUMABLES = (
    _s.take(MAX_CONSUMABLES),
    _s.take(MAX_CONSUMABLES),
    _s.take(MAX_CONSUMABLES),
    _s.take(MAX_CONSUMABLES),
    _s.take(),
)
TAG, TAG_HAND, N_TAGS = _s.take(MAX_TAGS), _s.take(MAX_TAGS), _s.take()

# the shop; an empty slot is 0
SHOP, SHOP_EDITION, SHOP_STICKERS, SHOP_CARD = (
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
    _s.take(SHOP_SLOTS),
)
SHOP_FREE, SHOP_AGE = _s.take(SHOP_SLOTS), _s.take(SHOP_SLOTS)
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
PACK_AGE = _s.take(PACK_SLOTS)

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
# jokers by what triggers them, as bits
W_FOR_SCORED, W_FOR_HELD, W_RETRIGGER = _s.take(), _s.take(), _s.take()
W_HAND_RULES = _s.take()  # the jokers that change hands, as the bits of `facts.HAND_RULES`
MONEY_FIXED = _s.take()  # 1: Bull and Bootstraps see the money from before the hand, for `score`

# floats
CHIPS, TARGET = _f.take(), _f.take()  # of the round
HAND_SCORE, BEST_HAND = _f.take(), _f.take()
W_CHIPS, W_MULT = _f.take(), _f.take()  # of the hand being scored
J_VALUE = _f.take(MAX_JOKERS)
REWARD = _f.take()  # of the current step
# the rewards of `settings.py`
R_CHIPS, R_BLIND, R_WIN, R_ILLEGAL = _f.take(), _f.take(), _f.take(), _f.take()
LOGS = _f.take(2 * (4 + MAX_JOKERS))  # cache: numbers of the observation and their logarithms

KNOWN_SIZE = _s.size  # what follows is not copied where the future must stay unknown
SEED_CHARS, SEED_LENGTH, SEED_HASH = _s.take(8), _s.take(), _s.take(2)
MAX_KEY = 26
SEED_PART = _s.take(2 * MAX_KEY)  # hash of the seed behind keys of each length
# the shuffle of the draw pile: how many cards are not fixed yet, the seed of its generator, its words once it began
UNSHUFFLED, SHUFFLE_SEED, SHUFFLING, SHUFFLE_WORDS = _s.take(), _s.take(2), _s.take(), _s.take(8)
STREAMS = _s.take(2 * (N_WITHOUT_ANTE + 4 * N_WITH_ANTE))  # two cells each; 4 antes are kept
MAX_RESAMPLED = 64
RESAMPLED, N_RESAMPLED = _s.take(3 * MAX_RESAMPLED), _s.take()  # name and state of resampled keys

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
        """Return games with rows of zeros; start a run in each before use."""
        return cls(np.zeros((n_games, S_SIZE), dtype=np.int32), np.zeros((n_games, F_SIZE), dtype=np.float64))

    def copy(self) -> Games:
        """Return a copy of the games, for `put_back`."""
        return Games(self.s.copy(), self.f.copy())

    def put_back(self, saved: Games) -> None:
        """Restore the games from a copy."""
        self.s[:] = saved.s
        self.f[:] = saved.f
