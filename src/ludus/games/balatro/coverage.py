"""Content of the game that the engine implements. Content that it does not is listed in `MISSING`, and in no pool."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.facts import EDITIONS, ENHANCEMENTS, HANDS, SEALS
from ludus.games.balatro.names import FACTS

# kind -> names of the content that is not implemented
MISSING: dict[str, tuple[str, ...]] = {}

_NAMES: dict[str, list[str]] = {
    "poker hands": list(HANDS),
    "jokers": [row["name"] for row in FACTS["jokers"]],
    "tarots": [row["name"] for row in FACTS["tarots"]],
    "planets": [row["name"] for row in FACTS["planets"]],
    "spectrals": [row["name"] for row in FACTS["spectrals"]],
    "vouchers": [row["name"] for row in FACTS["vouchers"]],
    "booster packs": [row["key"] for row in FACTS["boosters"]],
    "tags": [row["name"] for row in FACTS["tags"]],
    "blinds": [row["name"] for row in FACTS["blinds"]],
    "decks": [row["name"] for row in FACTS["decks"] if row["key"] != "b_challenge"],
    "stakes": [row["name"] for row in FACTS["stakes"]],
    "enhancements": [name for name in ENHANCEMENTS if name != "None"],
    "editions": [name for name in EDITIONS if name != "Base"],
    "seals": [name for name in SEALS if name != "None"],
}


def coverage() -> dict[str, dict[str, Any]]:
    """Return for each kind of content: the total, the number implemented, and the names of those missing."""
    return {
        kind: {
            "total": len(names),
            "implemented": len(names) - len(MISSING.get(kind, ())),
            "missing": list(MISSING.get(kind, ())),
        }
        for kind, names in _NAMES.items()
    }
