"""The numbers of `facts.json` as tables that kernels index with the integers of `names.py`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ludus.games.balatro import names as n
from ludus.games.balatro.names import FACTS, ITEMS
from ludus.types import Array

HANDS: tuple[str, ...] = tuple(hand["name"] for hand in FACTS["hands"])
SUITS = ("Spades", "Hearts", "Clubs", "Diamonds")
RANKS = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "Jack", "Queen", "King", "Ace")
ENHANCEMENTS = ("None", "Bonus", "Mult", "Wild", "Glass", "Steel", "Stone", "Gold", "Lucky")
EDITIONS = ("Base", "Foil", "Holographic", "Polychrome", "Negative")
SEALS = ("None", "Gold", "Red", "Blue", "Purple")
PACK_KINDS = ("Arcana", "Celestial", "Standard", "Buffoon", "Spectral")

N_ITEMS = n.PLAYING_CARD + 1


def _numbered(rows: Iterable[Mapping[str, Any]], first: int, field: str) -> dict[int, str]:
    return {first + index: str(row[field]) for index, row in enumerate(rows)}


ITEM_NAMES = {**_numbered(ITEMS, 1, "name"), n.PLAYING_CARD: "Playing card"}
ITEM_KEYS = _numbered(ITEMS, 1, "key")
VOUCHER_NAMES = _numbered(FACTS["vouchers"], 1, "name")
VOUCHER_KEYS = _numbered(FACTS["vouchers"], 1, "key")
TAG_NAMES = _numbered(FACTS["tags"], 1, "name")
TAG_KEYS = _numbered(FACTS["tags"], 1, "key")
BLIND_NAMES = _numbered(FACTS["blinds"], 1, "name")
BLIND_KEYS = _numbered(FACTS["blinds"], 1, "key")
BOOSTER_NAMES = _numbered(FACTS["boosters"], 1, "name")
BOOSTER_KEYS = _numbered(FACTS["boosters"], 1, "key")
DECK_NAMES = _numbered(FACTS["decks"][:15], 0, "name")
DECK_KEYS = tuple(row["key"] for row in FACTS["decks"][:15])
STAKE_NAMES = {index + 1: row["name"].replace(" Chip", " Stake") for index, row in enumerate(FACTS["stakes"])}


_NAME_OF_KEY = {
    str(row["key"]): str(row["name"])
    for row in (*ITEMS, *FACTS["vouchers"], *FACTS["tags"], *FACTS["blinds"], *FACTS["boosters"])
}


def name_of_key(key: str) -> str:
    """Return the name that the game shows for a key; the key itself if it has no name, such as a playing card."""
    return _NAME_OF_KEY.get(key, key)


@lru_cache(maxsize=4096)
def _normalised(name: str) -> str:
    """Return a name in lower case, without accents and punctuation."""
    plain = unicodedata.normalize("NFKD", name).lower()
    return "".join(c for c in plain if c.isascii() and (c.isalnum() or c == "_"))


# names shown in the game that differ from those in its files
_OTHER_SPELLINGS = {"canio": "caino", "gluttenousjoker": "gluttonousjoker", "heirophant": "thehierophant"}


def number_of(table: Mapping[int, str], name: str) -> int | None:
    """Return the integer of a name or key in one of the tables above; None if it is not there.

    Case, accents and punctuation are ignored. Both spellings are accepted where the game itself has two.
    """
    wanted = _normalised(name)
    wanted = _OTHER_SPELLINGS.get(wanted, wanted)
    for number, known in table.items():
        if _normalised(known) == wanted:
            return number
    return None


def _ints(values: Iterable[Any], lead: int = 1) -> Array:
    return np.array([0] * lead + list(values), dtype=np.int64)


def _floats(values: Iterable[Any], lead: int = 1) -> Array:
    return np.array([0.0] * lead + list(values), dtype=np.float64)


def _config(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row.get("config") or {})


def _hand_number(row: Mapping[str, Any], key: str) -> int:
    name = _config(row).get(key)
    return HANDS.index(name) if name in HANDS else -1


_JOKERS = FACTS["jokers"]
ITEM_COST = np.concatenate([_ints(item["cost"] for item in ITEMS), np.array([1], dtype=np.int64)])
JOKER_RARITY = _ints(joker["rarity"] for joker in _JOKERS)
ETERNAL_OK = _ints(joker["eternal_compat"] for joker in _JOKERS)
PERISHABLE_OK = _ints(joker["perishable_compat"] for joker in _JOKERS)

_GATES = {
    "m_steel": n.M_STEEL,
    "m_stone": n.M_STONE,
    "m_gold": n.M_GOLD,
    "m_lucky": n.M_LUCKY,
    "m_glass": n.M_GLASS,
}
ENHANCEMENT_GATE = _ints(_GATES.get(joker.get("enhancement_gate"), 0) for joker in _JOKERS)
COMMONS = _ints((i + 1 for i, joker in enumerate(_JOKERS) if joker["rarity"] == 1), lead=0)
UNCOMMONS = _ints((i + 1 for i, joker in enumerate(_JOKERS) if joker["rarity"] == 2), lead=0)
RARES = _ints((i + 1 for i, joker in enumerate(_JOKERS) if joker["rarity"] == 3), lead=0)
LEGENDARIES = _ints((i + 1 for i, joker in enumerate(_JOKERS) if joker["rarity"] == 4), lead=0)

# Jokers triggered by a hand that contains a poker hand: which poker hand, and what they add.
JOKER_TYPE = _ints(_hand_number(joker, "type") for joker in _JOKERS)
JOKER_TYPE[0] = -1
TYPE_MULT = _floats(_config(joker).get("t_mult", 0) for joker in _JOKERS)
TYPE_CHIPS = _floats(_config(joker).get("t_chips", 0) for joker in _JOKERS)
TYPE_XMULT = _floats(_config(j).get("Xmult", 0) if "type" in _config(j) else 0 for j in _JOKERS)

HAND_CHIPS = _floats((hand["chips"] for hand in FACTS["hands"]), lead=0)
HAND_MULT = _floats((hand["mult"] for hand in FACTS["hands"]), lead=0)
HAND_CHIPS_UP = _floats((hand["chips_per_level"] for hand in FACTS["hands"]), lead=0)
HAND_MULT_UP = _floats((hand["mult_per_level"] for hand in FACTS["hands"]), lead=0)

BLIND_MULT = _floats(blind["mult"] for blind in FACTS["blinds"])
BLIND_DOLLARS = _ints(blind["dollars"] for blind in FACTS["blinds"])
BOSS_MIN_ANTE = _ints((blind.get("boss") or {"min": 0})["min"] for blind in FACTS["blinds"])
SHOWDOWN = _ints(bool((blind.get("boss") or {}).get("showdown")) for blind in FACTS["blinds"])
_DEBUFFS = [(blind.get("debuff") or {}).get("suit") for blind in FACTS["blinds"]]
BLIND_SUIT = _ints(SUITS.index(suit) if suit else -1 for suit in _DEBUFFS)
BLIND_SUIT[0] = -1
ANTE_BASE = np.array(
    [FACTS["ante_base_chips"][k] for k in ("white", "green_and_above", "purple_and_above")], dtype=np.float64
)

# The order in which the game reads its table of poker hands on Windows. It decides which hand To Do List and Orbital
# Tag name, and which of equally often played hands The Ox takes. Other platforms have another order.
HAND_TABLE_ORDER = _ints(
    (n.FLUSH_HOUSE, n.FULL_HOUSE, n.FLUSH, n.PAIR, n.HIGH_CARD, n.STRAIGHT_FLUSH)
    + (n.STRAIGHT, n.TWO_PAIR, n.FLUSH_FIVE, n.FIVE_OF_A_KIND, n.THREE_OF_A_KIND, n.FOUR_OF_A_KIND),
    lead=0,
)

# Playing cards in the order in which the game lists them: by the text of suit and rank, such as C_2, C_A, C_J.
_SUIT_LETTERS, _RANK_LETTERS = {"S": 0, "H": 1, "C": 2, "D": 3}, "23456789TJQKA"
CARD_ORDER = _ints(
    (
        _RANK_LETTERS.index(rank) + 2 | _SUIT_LETTERS[suit] << 4
        for suit in sorted(_SUIT_LETTERS)
        for rank in sorted(_RANK_LETTERS)
    ),
    lead=0,
)
# Bosses in the order in which the game lists them: by their keys.
BOSS_ORDER = _ints(
    sorted(
        (number for number, blind in enumerate(FACTS["blinds"], 1) if blind.get("boss")),
        key=lambda number: FACTS["blinds"][number - 1]["key"],
    ),
    lead=0,
)

PLANET_HAND = _ints((_hand_number(planet, "hand_type") for planet in FACTS["planets"]), lead=0)
HAND_PLANET = np.array([n.C_MERCURY + list(PLANET_HAND).index(hand) for hand in range(12)], dtype=np.int64)

# The number of target cards of a consumable, by item; 0 if it has no targets.
TARGETS_MAX = np.concatenate(
    [_ints(0 if i < 150 else _config(item).get("max_highlighted", 0) for i, item in enumerate(ITEMS)), [0]]
).astype(np.int64)
TARGETS_MAX[n.C_AURA] = 1
TARGETS_MIN = np.minimum(TARGETS_MAX, 1).astype(np.int64)
TARGETS_MIN[n.C_DEATH] = 2

_BOOSTERS = FACTS["boosters"]
BOOSTER_COST = _ints(pack["cost"] for pack in _BOOSTERS)
BOOSTER_KIND = _ints(PACK_KINDS.index(pack["kind"]) for pack in _BOOSTERS)
BOOSTER_CARDS = _ints(_config(pack)["extra"] for pack in _BOOSTERS)
BOOSTER_PICKS = _ints(_config(pack)["choose"] for pack in _BOOSTERS)
BOOSTER_WEIGHT = np.cumsum(_floats(pack["weight"] for pack in _BOOSTERS))

_VOUCHER_ORDER = [voucher["key"] for voucher in FACTS["vouchers"]]
VOUCHER_REQUIRES = _ints(
    1 + _VOUCHER_ORDER.index(voucher["requires"][0]) if voucher.get("requires") else 0
    for voucher in FACTS["vouchers"]
)
TAG_MIN_ANTE = _ints(tag.get("min_ante") or 0 for tag in FACTS["tags"])

# What triggers a joker while cards are scored, as bits: 1 a scoring card, 2 a held card, 4 it retriggers scoring cards.
TRIGGERED_BY = np.zeros(151, dtype=np.int64)
TRIGGERED_BY[
    [
        *(n.J_GREEDY_JOKER, n.J_LUSTY_JOKER, n.J_WRATHFUL_JOKER, n.J_GLUTTENOUS_JOKER, n.J_ROUGH_GEM),
        *(n.J_BLOODSTONE, n.J_ARROWHEAD, n.J_ONYX_AGATE, n.J_ANCIENT, n.J_IDOL, n.J_FIBONACCI),
        *(n.J_EVEN_STEVEN, n.J_ODD_TODD, n.J_SCHOLAR, n.J_WALKIE_TALKIE, n.J_TRIBOULET, n.J_8_BALL),
        *(n.J_SCARY_FACE, n.J_SMILEY, n.J_PHOTOGRAPH, n.J_BUSINESS, n.J_HIKER, n.J_TICKET, n.J_WEE),
        n.J_LUCKY_CAT,
    ]
] |= 1
TRIGGERED_BY[[n.J_SHOOT_THE_MOON, n.J_BARON, n.J_RESERVED_PARKING, n.J_RAISED_FIST]] |= 2
TRIGGERED_BY[[n.J_HANGING_CHAD, n.J_SOCK_AND_BUSKIN, n.J_HACK, n.J_DUSK, n.J_SELZER]] |= 4

# Jokers that change which cards form a hand or count as what, one bit each.
FOUR_FINGERS, SHORTCUT, SMEARED, SPLASH, PAREIDOLIA = 1, 2, 4, 8, 16
HAND_RULES = np.zeros(151, dtype=np.int64)
HAND_RULES[[n.J_FOUR_FINGERS, n.J_SHORTCUT, n.J_SMEARED, n.J_SPLASH, n.J_PAREIDOLIA]] = [
    *(FOUR_FINGERS, SHORTCUT, SMEARED, SPLASH, PAREIDOLIA)
]
