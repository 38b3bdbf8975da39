"""A view: what both the game and the engine show, in a form that can be compared field by field.

`read_view` makes it from the game's answer, which is untrusted data: numbers may be floats, an empty table is `[]`, and
fields may be missing. It leaves out what an honest player does not see: the order of the draw pile and the faces of
cards that lie face down. `twin.py` makes the view that the engine expects.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ludus.games.balatro import facts
from ludus.games.balatro.bridge.protocol import CallFailed

View = dict[str, Any]

FACE_DOWN = "face down"
HAND_IDS, JOKER_IDS = "ids of the hand", "ids of the jokers"
_BLINDS = ("small", "big", "boss")
_SPEED_TAG = "Speed Tag"  # the game shows this name for its Skip Tag
_ART = re.compile(r"_\d$")
_OPTIONAL = ("tag of the small blind", "tag of the big blind")


@dataclass(frozen=True)
class FieldDifference:
    """One field that the engine and the game show differently."""

    field: str
    expected: Any
    shown: Any

    def __str__(self) -> str:
        return f"{self.field}: expected {_words(self.expected)}, the game shows {_words(self.shown)}"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return "nothing" if value is None else str(value)


def differences(expected: View, shown: View) -> list[FieldDifference]:
    """Return the fields of `expected` that `shown` has differently. Other fields of `shown` are not compared."""
    found = []
    for field, value in expected.items():
        other: Any = shown.get(field)
        if other is None and field in _OPTIONAL:
            continue
        same = math.isclose(value, other, rel_tol=1e-9) if _numbers(value, other) else value == other
        if not same:
            found.append(FieldDifference(field, value, other))
    return found


def order_of_hand(expected: View, shown: View) -> list[int] | None:
    """Return the order that turns the hand shown into the expected one; None if they are not the same cards."""
    wanted, have = expected.get("hand"), shown.get("hand")
    if not isinstance(wanted, list) or not isinstance(have, list) or Counter(wanted) != Counter(have):
        return None
    places: dict[str, list[int]] = {}
    for place, card in enumerate(have):
        places.setdefault(card, []).append(place)
    return [places[card].pop(0) for card in wanted]


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def card_words(
    key: str,
    *,
    enhancement: str = "",
    edition: str = "",
    seal: str = "",
    eternal: bool = False,
    perishable: int = 0,
    rental: bool = False,
    debuffed: bool = False,
    price: int | None = None,
) -> str:
    """Return a card in words, such as `H_K glass foil red-seal` or `j_joker negative eternal $5`."""
    words = [key, enhancement, edition, f"{seal}-seal" if seal else ""]
    words += ["eternal" if eternal else "", f"perishable-{perishable}" if perishable else ""]
    words += ["rental" if rental else "", "debuffed" if debuffed else ""]
    words += [] if price is None else [f"${price}"]
    return " ".join(word for word in words if word)


# reading answers


def read_view(state: Any) -> View:
    """Return the view of a game state. Raises CallFailed if it is not a game state."""
    if not isinstance(state, dict) or not isinstance(state.get("state"), str):
        raise CallFailed("the answer is not a game state")
    view: View = {
        "state": state["state"],
        "won": state.get("won") is True,
        "seed": _text(state.get("seed")),
        "deck": _text(state.get("deck")).removeprefix("b_").upper(),
        "stake": _text(state.get("stake")).removeprefix("stake_").upper(),
    }
    for field, key in (("money", "money"), ("ante", "ante_num"), ("round", "round_num")):
        view[field] = _number(state, key)
    rounds = _table(state.get("round"))
    view["hands left"] = _number(rounds, "hands_left")
    view["discards left"] = _number(rounds, "discards_left")
    view["chips"] = _number(rounds, "chips")
    view["reroll cost"] = _number(rounds, "reroll_cost")
    view["levels"] = _levels(_table(state.get("hands")))
    view |= _read_blinds(_table(state.get("blinds")))
    for area in ("hand", "jokers", "consumables", "pack"):
        view[area] = [_card(card) for card in _cards(state, area)]
    for field, area in (("shop", "shop"), ("vouchers on offer", "vouchers"), ("packs on offer", "packs")):
        view[field] = [_card(card, priced=True) for card in _cards(state, area)]
    view["cards in the deck"] = _number(_table(state.get("cards")), "count")
    view[HAND_IDS] = [_number(card, "id") for card in _cards(state, "hand")]
    view[JOKER_IDS] = [_number(card, "id") for card in _cards(state, "jokers")]
    return view


def _table(value: Any) -> dict[str, Any]:
    """Return a table; `[]` and a missing one are empty. Raises CallFailed for anything else."""
    if isinstance(value, dict):
        return value
    if value in (None, []):
        return {}
    raise CallFailed("a field of the game state has the wrong type: expected a table")


def _text(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""


def _number(table: dict[str, Any], key: str) -> int | float | None:
    """Return a number, as an integer if it is whole; None if it is missing. Raises CallFailed for another type."""
    value = table.get(key)
    if value is None:
        return None
    if not _numbers(value):
        raise CallFailed(f"the field '{key}' of the game state has the wrong type: expected a number")
    if isinstance(value, int):
        if abs(value) > sys.float_info.max:
            raise CallFailed(f"the field '{key}' of the game state is too large")
        return value
    return int(value) if math.isfinite(value) and value == int(value) else float(value)


def _integer(table: dict[str, Any], key: str) -> int | None:
    """Return a number without its fraction; None if it is missing. Raises CallFailed for NaN and infinity too."""
    value = _number(table, key)
    if value is None:
        return None
    if not math.isfinite(value):
        raise CallFailed(f"the field '{key}' of the game state is not a finite number")
    return int(value)


def _levels(hands: dict[str, Any]) -> str:
    """Return the levels that are not 1, in the order of the poker hands."""
    levels = {hand: _number(_table(hands.get(hand)), "level") for hand in facts.HANDS}
    return ", ".join(f"{hand} {level}" for hand, level in levels.items() if level not in (None, 1)) or "all 1"


def _read_blinds(blinds: dict[str, Any]) -> View:
    view: View = {}
    for kind in _BLINDS:
        blind = _table(blinds.get(kind))
        name = _text(blind.get("key")) or _text(blind.get("name"))
        number = facts.number_of(facts.BLIND_NAMES, name) or facts.number_of(facts.BLIND_KEYS, name)
        view[f"{kind} blind"] = facts.BLIND_KEYS.get(number or 0, name)
        view[f"chips of the {kind} blind"] = _number(blind, "score")
        status = _text(blind.get("status"))
        view[f"status of the {kind} blind"] = "PASSED" if status in ("DEFEATED", "SKIPPED") else status
        tag = _table(blind.get("tag"))
        shown = _text(tag.get("key")) or _text(tag.get("name")) or _text(blind.get("tag_name"))
        shown = "Skip Tag" if shown == _SPEED_TAG else shown
        known = facts.number_of(facts.TAG_NAMES, shown) or facts.number_of(facts.TAG_KEYS, shown)
        view[f"tag of the {kind} blind"] = facts.TAG_KEYS.get(known or 0)
    return view


def _cards(state: dict[str, Any], area: str) -> list[dict[str, Any]]:
    cards = _table(state.get(area)).get("cards")
    if cards in (None, {}):
        return []
    if not isinstance(cards, list):
        raise CallFailed(f"the cards of '{area}' have the wrong type: expected a list")
    return [_table(card) for card in cards]


def _card(card: dict[str, Any], priced: bool = False) -> str:
    state, modifier = _table(card.get("state")), _table(card.get("modifier"))
    if state.get("hidden") is True:
        return FACE_DOWN
    key = _text(card.get("key"))
    return card_words(
        _ART.sub("", key) if key.startswith("p_") else key,
        enhancement=_text(modifier.get("enhancement")).lower().removeprefix("m_"),
        edition=_text(modifier.get("edition")).lower().removeprefix("e_"),
        seal=_text(modifier.get("seal")).lower(),
        eternal=modifier.get("eternal") is True,
        perishable=_integer(modifier, "perishable") or 0,
        rental=modifier.get("rental") is True,
        debuffed=state.get("debuff") is True,
        price=_integer(_table(card.get("cost")), "buy") if priced else None,
    )
