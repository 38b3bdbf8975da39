"""Integers for all items, blinds, tags and decks of `facts.json`, in its order; the name is the key in capitals.

Examples: `J_JOKER`, `C_FOOL`, `V_BLANK`, `TAG_RARE`, `BL_HOOK`, `B_RED`. Items (jokers, tarots, planets, spectrals),
vouchers, tags and blinds are numbered from 1, decks from 0. Names of things without a key follow below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("facts.json").read_text(encoding="utf-8"))
ITEMS: list[dict[str, Any]] = [
    row for kind in ("jokers", "tarots", "planets", "spectrals") for row in FACTS[kind]
]


def _numbers(rows: list[dict[str, Any]], first: int) -> dict[str, int]:
    return {row["key"].upper(): number for number, row in enumerate(rows, first)}


if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...


globals().update(
    _numbers(ITEMS, 1)
    | _numbers(FACTS["vouchers"], 1)
    | _numbers(FACTS["tags"], 1)
    | _numbers(FACTS["blinds"], 1)
    | _numbers(FACTS["decks"][:15], 0)
)
PLAYING_CARD = len(ITEMS) + 1  # an item of a shop or pack that is a playing card

# Poker hands
(
    HIGH_CARD,
    PAIR,
    TWO_PAIR,
    THREE_OF_A_KIND,
    STRAIGHT,
    FLUSH,
    FULL_HOUSE,
    FOUR_OF_A_KIND,
    STRAIGHT_FLUSH,
    FIVE_OF_A_KIND,
    FLUSH_HOUSE,
    FLUSH_FIVE,
) = range(0, 12)

# Enhancements (0 for no enhancement)
(
    M_BONUS,
    M_MULT,
    M_WILD,
    M_GLASS,
    M_STEEL,
    M_STONE,
    M_GOLD,
    M_LUCKY,
) = range(1, 9)

# Editions
(
    BASE,
    FOIL,
    HOLOGRAPHIC,
    POLYCHROME,
    NEGATIVE,
) = range(0, 5)

# Seals (0 for no seal)
(
    GOLD_SEAL,
    RED_SEAL,
    BLUE_SEAL,
    PURPLE_SEAL,
) = range(1, 5)

# Suits, in the order in which the game sorts a hand
(
    SPADES,
    HEARTS,
    CLUBS,
    DIAMONDS,
) = range(0, 4)

# Kinds of packs
(
    ARCANA,
    CELESTIAL,
    STANDARD,
    BUFFOON,
    SPECTRAL,
) = range(0, 5)

# Phases of a game
(
    CHOOSING_BLIND,
    SELECTING_HAND,
    CASHING_OUT,
    SHOPPING,
    OPENING_PACK,
    TARGETING,
    GAME_OVER,
) = range(0, 7)
