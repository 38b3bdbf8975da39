"""The game state that the stand-in answers with, in the form of the protocol, read from the rows of a game."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import facts
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target
from ludus.games.balatro.lineup import consumable_limit, joker_limit, joker_sell_value
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price
from ludus.types import Array

DECKS = tuple(name.split()[0].upper() for name in facts.DECK_NAMES.values())
STAKES = ("WHITE", "RED", "GREEN", "BLACK", "BLUE", "PURPLE", "ORANGE", "GOLD")
_EDITION_NAMES = (None, "FOIL", "HOLO", "POLYCHROME", "NEGATIVE")
_ENHANCEMENT_NAMES = (None, "BONUS", "MULT", "WILD", "GLASS", "STEEL", "STONE", "GOLD", "LUCKY")
_SEAL_NAMES = (None, "GOLD", "RED", "BLUE", "PURPLE")
_SUITS, _RANKS = "SHCD", ("2", "3", "4", "5", "6", "7", "8", "9", "T", "J", "Q", "K", "A")
_AGE_IDS = 1000  # ids of jokers and consumables begin behind those of playing cards
_DEBUFF, _HIDDEN, _FORCED = 1 << 16, 1 << 17, 1 << 19
_CARD_LIMIT = 5


def _kept(**fields: Any) -> Any:
    """Return the fields that are set, `[]` if there are none: the mod encodes an empty table so."""
    return {name: value for name, value in fields.items() if value} or []


def _area(cards: list[dict[str, Any]], limit: int, highlighted: int = 1) -> dict[str, Any]:
    return {"count": len(cards), "limit": limit, "highlighted_limit": highlighted, "cards": cards}


def _sort_of(item: int) -> str:
    if item < nm.C_FOOL:
        return "JOKER"
    if item < nm.C_MERCURY:
        return "TAROT"
    return "PLANET" if item <= nm.C_ERIS else "SPECTRAL"


def playing_card(card: int, number: int, price: int = 0) -> dict[str, Any]:
    """Return a packed card as a card of the protocol."""
    enhancement = _ENHANCEMENT_NAMES[card >> 6 & 15]
    suit, rank = _SUITS[card >> 4 & 3], _RANKS[(card & 15) - 2]
    return {
        "id": number,
        "key": f"{suit}_{rank}",
        "set": "ENHANCED" if enhancement else "DEFAULT",
        "label": f"{enhancement.title()} Card" if enhancement else "Base Card",
        "value": {"suit": suit, "rank": rank, "effect": ""},
        "modifier": _kept(
            enhancement=enhancement,
            edition=_EDITION_NAMES[card >> 10 & 7],
            seal=_SEAL_NAMES[card >> 13 & 7],
        ),
        "state": _kept(
            debuff=bool(card & _DEBUFF), hidden=bool(card & _HIDDEN), highlight=bool(card & _FORCED)
        ),
        "cost": {"sell": max(1, price // 2), "buy": price},
    }


def _item_card(
    item: int, number: int, *, edition: int = 0, marks: int = 0, rounds: int = 0, sell: int = 0, buy: int = 0
) -> dict[str, Any]:
    return {
        "id": number,
        "key": facts.ITEM_KEYS[item],
        "set": _sort_of(item),
        "label": facts.ITEM_NAMES[item],
        "value": {"effect": ""},
        "modifier": _kept(
            edition=_EDITION_NAMES[edition],
            eternal=bool(marks & st.ETERNAL),
            perishable=rounds if marks & st.PERISHABLE else 0,
            rental=bool(marks & st.RENTAL),
        ),
        "state": _kept(debuff=bool(marks & st.DEBUFFED), hidden=bool(marks & st.FACE_DOWN)),
        "cost": {"sell": sell, "buy": buy},
    }


def _jokers(s: Array) -> dict[str, Any]:
    cards = [
        _item_card(
            int(s[st.JOKER + i]),
            _AGE_IDS + int(s[st.J_AGE + i]),
            edition=int(s[st.J_EDITION + i]),
            marks=int(s[st.J_STICKERS + i]),
            rounds=int(s[st.J_PERISH + i]),
            sell=int(joker_sell_value(s, i)),
        )
        for i in range(int(s[st.N_JOKERS]))
    ]
    return _area(cards, int(joker_limit(s)))


def _consumables(s: Array) -> dict[str, Any]:
    cards = [
        _item_card(
            int(s[st.CONSUMABLE + k]),
            _AGE_IDS + int(s[st.C_AGE + k]),
            edition=int(s[st.C_EDITION + k]),
            sell=max(1, int(facts.ITEM_COST[s[st.CONSUMABLE + k]]) // 2) + int(s[st.C_EXTRA + k]),
        )
        for k in range(int(s[st.N_CONSUMABLES]))
    ]
    return _area(cards, int(consumable_limit(s)))


def _offer(s: Array, k: int, cells: tuple[int, int, int, int, int], price: int) -> dict[str, Any]:
    items, editions, marks, faces, ages = (int(s[first + k]) for first in cells)
    if items == nm.PLAYING_CARD:
        return playing_card(faces, _AGE_IDS + ages, price)
    return _item_card(items, _AGE_IDS + ages, edition=editions, marks=marks, rounds=5, buy=price)


_SHOP_CELLS = (st.SHOP, st.SHOP_EDITION, st.SHOP_STICKERS, st.SHOP_CARD, st.SHOP_AGE)
_PACK_CELLS = (st.PACK, st.PACK_EDITION, st.PACK_STICKERS, st.PACK_CARD, st.PACK_AGE)


def _shop_areas(s: Array, shelf: list[int]) -> dict[str, Any]:
    offers = [_offer(s, k, _SHOP_CELLS, int(shop_price(s, k))) for k in shelf]
    vouchers = [
        _plain_card("VOUCHER", facts.VOUCHER_KEYS[v], facts.VOUCHER_NAMES[v], k, int(voucher_price(s)))
        for k, v in enumerate(s[st.SHOP_VOUCHER : st.SHOP_VOUCHER + st.VOUCHER_SLOTS].tolist())
        if v
    ]
    packs = [
        _plain_card("BOOSTER", facts.BOOSTER_KEYS[b], facts.BOOSTER_NAMES[b], k, int(booster_price(s, k)))
        for k, b in enumerate(s[st.SHOP_BOOSTER : st.SHOP_BOOSTER + st.BOOSTER_SLOTS].tolist())
        if b
    ]
    size = 2 + int(s[st.VOUCHER + nm.V_OVERSTOCK_NORM]) + int(s[st.VOUCHER + nm.V_OVERSTOCK_PLUS])
    return {"shop": _area(offers, size), "vouchers": _area(vouchers, 1), "packs": _area(packs, 2)}


def _plain_card(sort: str, key: str, name: str, number: int, price: int) -> dict[str, Any]:
    return {
        "id": number,
        "key": key,
        "set": sort,
        "label": name,
        "value": {"effect": ""},
        "modifier": [],
        "state": [],
        "cost": {"sell": 0, "buy": price},
    }


def _blinds(s: Array, state: str, skipped: set[int]) -> dict[str, Any]:
    now = int(s[st.BLIND_ON_DECK])
    choosing = state == "BLIND_SELECT" or (
        state == "SMODS_BOOSTER_OPENED" and s[st.PACK_BACK] == nm.CHOOSING_BLIND
    )
    here = {"SELECTING_HAND": "CURRENT", "GAME_OVER": "CURRENT", "ROUND_EVAL": "DEFEATED"}.get(
        state, "UPCOMING"
    )
    rows = {}
    for place, kind in enumerate(("SMALL", "BIG", "BOSS")):
        number = (nm.BL_SMALL, nm.BL_BIG, int(s[st.BOSS]))[place]
        score = float(blind_target(s, number))
        row: dict[str, Any] = {"type": kind, "name": facts.BLIND_NAMES[number], "effect": "", "score": score}
        if place < now:
            row["status"] = "SKIPPED" if place in skipped else "DEFEATED"
        else:
            row["status"] = "UPCOMING" if place > now else "SELECT" if choosing else here
            if place < 2:
                row |= {"tag_name": facts.TAG_NAMES[int(s[st.BLIND_TAG + place])], "tag_effect": ""}
        rows[kind.lower()] = row
    return rows


def game_state(
    s: Array, f: Array, state: str, seed: str, *, won: bool, skipped: set[int], shelf: list[int]
) -> dict[str, Any]:
    """Return the state of a run. `shelf` are the filled slots of the shop in the order of their arrival."""
    hands = {
        name: {
            "order": len(facts.HANDS) - i,
            "level": int(s[st.LEVEL + i]),
            "chips": float(facts.HAND_CHIPS[i] + facts.HAND_CHIPS_UP[i] * (s[st.LEVEL + i] - 1)),
            "mult": float(facts.HAND_MULT[i] + facts.HAND_MULT_UP[i] * (s[st.LEVEL + i] - 1)),
            "played": int(s[st.PLAYED + i]),
            "played_this_round": int(s[st.PLAYED_ROUND + i]),
            "example": [],
        }
        for i, name in enumerate(facts.HANDS)
    }
    shown: dict[str, Any] = {
        "state": state,
        "round_num": int(s[st.ROUND]),
        "ante_num": int(s[st.ANTE]),
        "money": int(s[st.MONEY]),
        "won": won,
        "deck": DECKS[int(s[st.DECK])],
        "stake": STAKES[int(s[st.STAKE]) - 1],
        "seed": seed,
        "used_vouchers": {facts.VOUCHER_KEYS[v]: "" for v in facts.VOUCHER_KEYS if s[st.VOUCHER + v]} or [],
        "hands": hands,
        "round": {
            "hands_left": int(s[st.HANDS_LEFT]),
            "hands_played": int(s[st.HANDS_THIS_ROUND]),
            "discards_left": int(s[st.DISCARDS_LEFT]),
            "discards_used": int(s[st.DISCARDS_USED]),
            "reroll_cost": int(reroll_cost(s)),
            "chips": float(f[st.CHIPS]),
        },
        "blinds": _blinds(s, state, skipped),
        "jokers": _jokers(s),
        "consumables": _consumables(s),
        "cards": _area(_at(s, st.DRAW_PILE, st.N_DRAW), int(s[st.N_CARDS])),
        "hand": _area(_at(s, st.HAND, st.N_HAND), int(s[st.HAND_SIZE]), _CARD_LIMIT),
    }
    pack_open = state == "SMODS_BOOSTER_OPENED"
    if state == "SHOP" or (pack_open and s[st.PACK_BACK] == nm.SHOPPING):
        shown |= _shop_areas(s, shelf)
    if pack_open:
        cards = [_offer(s, k, _PACK_CELLS, 0) for k in range(st.PACK_SLOTS) if s[st.PACK + k]]
        shown["pack"] = _area(cards, len(cards))
    return shown


def _at(s: Array, first: int, count: int) -> list[dict[str, Any]]:
    return [playing_card(int(s[st.CARD + slot]), int(slot) + 1) for slot in s[first : first + s[count]]]
