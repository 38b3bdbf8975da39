"""What a player sees of a game: the table as JSON data, and its hash.

Left out are the order of the draw pile, the faces of cards and jokers that lie face down, and all random numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from ludus.games.balatro import cards, facts
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.lineup import consumable_limit, joker_limit, joker_sell_value
from ludus.games.balatro.render import blind_name, target_of
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price

_PHASES = {
    n.CHOOSING_BLIND: "blind",
    n.SELECTING_HAND: "hand",
    n.CASHING_OUT: "cash out",
    n.SHOPPING: "shop",
    n.OPENING_PACK: "pack",
    n.TARGETING: "targets",
    n.GAME_OVER: "over",
}
_RANKS = ("", "", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_SUITS = "♠♥♣♦"
_STICKERS = (
    (st.ETERNAL, "eternal"),
    (st.PERISHABLE, "perishable"),
    (st.RENTAL, "rental"),
    (st.DEBUFFED, "debuffed"),
)


def visible_state(s: Any, f: Any) -> dict[str, Any]:
    """Return what the player of the game with the rows `s` and `f` sees, as JSON data."""
    row: list[int] = s[: st.KNOWN_SIZE].tolist()  # converting single numbers from numpy is slow
    phase = row[st.PHASE]
    state: dict[str, Any] = {
        "phase": _PHASES[phase],
        "ante": row[st.ANTE],
        "round": row[st.ROUND],
        "blind": blind_name(s),
        "boss": facts.BLIND_NAMES[row[st.BOSS]],
        "boss_disabled": bool(row[st.BOSS_OFF]),
        "target": _number(target_of(s, f)),
        "chips": _number(float(f[st.CHIPS])),
        "money": row[st.MONEY],
        "hands": row[st.HANDS_LEFT],
        "discards": row[st.DISCARDS_LEFT],
        "jokers": [_joker(s, f, row, i) for i in range(row[st.N_JOKERS])],
        "joker_slots": int(joker_limit(s)),
        "consumables": [
            _named(facts.ITEM_NAMES[row[st.CONSUMABLE + k]], row[st.C_EDITION + k])
            for k in range(row[st.N_CONSUMABLES])
        ],
        "consumable_slots": int(consumable_limit(s)),
        "hand": [_card_in_hand(row, row[st.HAND + i]) for i in range(row[st.N_HAND])],
        "deck": _deck(row),
        "levels": {
            name: [row[st.LEVEL + i], row[st.PLAYED + i]]
            for i, name in enumerate(facts.HANDS)
            if row[st.LEVEL + i] != 1 or row[st.PLAYED + i]
        },
        "vouchers": [name for v, name in facts.VOUCHER_NAMES.items() if row[st.VOUCHER + v]],
        "tags": [facts.TAG_NAMES[tag] for tag in row[st.TAG : st.TAG + row[st.N_TAGS]]],
        "skip_tags": [facts.TAG_NAMES[row[st.BLIND_TAG + k]] for k in range(row[st.BLIND_ON_DECK], 2)],
    }
    if phase == n.SHOPPING:
        state["shop"] = _shop(s, row)
    if phase == n.TARGETING:
        state["waiting"] = facts.ITEM_NAMES[row[st.WAITING]]
    if phase == n.OPENING_PACK or (phase == n.TARGETING and row[st.WAITING_BACK] == n.OPENING_PACK):
        state["pack"] = {
            "kind": facts.PACK_KINDS[row[st.PACK_KIND]],
            "picks": row[st.PACK_PICKS],
            "items": _offers(row, st.PACK, st.PACK_SLOTS),
        }
    if phase == n.CASHING_OUT:
        state["payout"] = row[st.PAYOUT]
    if phase == n.GAME_OVER:
        state["won"] = bool(row[st.WON])
        state["lost_to"] = facts.BLIND_NAMES.get(row[st.LOST_TO], "")
    return state


def state_hash(state: dict[str, Any], action: int | None = None) -> str:
    """Return the hash of a visible state and of the action that led to it: 32 hexadecimal digits.

    Two actions may lead to the same state, such as a pair played with or without further cards.
    """
    text = json.dumps([action, state], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _number(x: float) -> int | float | str:
    """Return a score with 12 digits: the last bits of a product may depend on the processor."""
    if not math.isfinite(x):
        return str(x)
    return int(x) if x.is_integer() and abs(x) < 1e12 else float(f"{x:.12g}")


def _named(name: str, edition: int) -> dict[str, Any]:
    return {"name": name} | ({"edition": facts.EDITIONS[edition]} if edition else {})


def _stickers(bits: int) -> dict[str, Any]:
    found = [word for bit, word in _STICKERS if bits & bit]
    return {"stickers": found} if found else {}


def _card(card: int) -> dict[str, Any]:
    """Return the face of a card; a Stone card has neither rank nor suit."""
    found: dict[str, Any] = {}
    enhancement = card >> 6 & 15
    if enhancement != n.M_STONE:
        found |= {"rank": _RANKS[card & 15], "suit": _SUITS[card >> 4 & 3]}
    if enhancement:
        found["enhancement"] = facts.ENHANCEMENTS[enhancement]
    if card >> 10 & 7:
        found["edition"] = facts.EDITIONS[card >> 10 & 7]
    if card >> 13 & 7:
        found["seal"] = facts.SEALS[card >> 13 & 7]
    return found


def _card_in_hand(row: list[int], slot: int) -> dict[str, Any]:
    card = row[st.CARD + slot]
    found: dict[str, Any] = {"face_down": True}
    if not card & cards.HIDDEN:
        found = _card(card)
        if row[st.CARD_BONUS + slot]:
            found["bonus"] = row[st.CARD_BONUS + slot]
        if card & cards.DEBUFF:
            found["debuffed"] = True
    if card & cards.FORCED:
        found["forced"] = True
    return found


def _deck(row: list[int]) -> dict[str, Any]:
    """Return the cards that may still be drawn, counted by suit and rank: the draw pile and face-down cards.

    The game's own view of the deck counts these together, too.
    """
    counts = row[st.PILE_CARDS : st.PILE_CARDS + 52]
    for slot in row[st.HAND : st.HAND + row[st.N_HAND]]:
        card = row[st.CARD + slot]
        if card & cards.HIDDEN and card >> 6 & 15 != n.M_STONE:
            counts[(card >> 4 & 3) * 13 + (card & 15) - 2] += 1
    return {"left": row[st.N_DRAW], "size": row[st.N_CARDS], "cards": counts}


def _joker(s: Any, f: Any, row: list[int], i: int) -> dict[str, Any]:
    stickers = row[st.J_STICKERS + i]
    if stickers & st.FACE_DOWN:
        return {"face_down": True}
    joker = row[st.JOKER + i]
    found = _named(facts.ITEM_NAMES[joker], row[st.J_EDITION + i])
    found |= {"rarity": int(facts.JOKER_RARITY[joker]), "sells_for": int(joker_sell_value(s, i))}
    if f[st.J_VALUE + i]:
        found["value"] = _number(float(f[st.J_VALUE + i]))
    note = _asks_for(row, joker, i)
    if note:
        found["asks_for"] = note
    found |= _stickers(stickers)
    if stickers & st.PERISHABLE:
        found["perishes_in"] = row[st.J_PERISH + i]
    return found


def _asks_for(row: list[int], joker: int, i: int) -> str:
    """Return the card, rank, suit or hand that a joker names this round."""
    if joker == n.J_IDOL:
        return _RANKS[row[st.IDOL_RANK]] + _SUITS[row[st.IDOL_SUIT]]
    if joker == n.J_MAIL:
        return _RANKS[row[st.MAIL_RANK]]
    if joker == n.J_ANCIENT:
        return _SUITS[row[st.ANCIENT_SUIT]]
    if joker == n.J_CASTLE:
        return _SUITS[row[st.CASTLE_SUIT]]
    return facts.HANDS[row[st.J_COUNT + i]] if joker == n.J_TODO_LIST else ""


def _offers(row: list[int], start: int, slots: int) -> list[dict[str, Any] | None]:
    """Return the items of a shop or pack by slot; None for an empty slot.

    The rows of items, editions, stickers and cards follow each other.
    """
    found: list[dict[str, Any] | None] = []
    for k in range(slots):
        item, edition, stickers, card = row[start + k : start + 4 * slots : slots]
        if item == 0:
            found.append(None)
        elif item == n.PLAYING_CARD:
            found.append(_card(card))
        else:
            offer = _named(facts.ITEM_NAMES[item], edition) | _stickers(stickers)
            if item < n.C_FOOL:
                offer["rarity"] = int(facts.JOKER_RARITY[item])
            found.append(offer)
    return found


def _shop(s: Any, row: list[int]) -> dict[str, Any]:
    items = _offers(row, st.SHOP, st.SHOP_SLOTS)
    for k, offer in enumerate(items):
        if offer is not None:
            offer["price"] = int(shop_price(s, k))
    vouchers = row[st.SHOP_VOUCHER : st.SHOP_VOUCHER + st.VOUCHER_SLOTS]
    boosters = row[st.SHOP_BOOSTER : st.SHOP_BOOSTER + st.BOOSTER_SLOTS]
    return {
        "items": items,
        "vouchers": [
            {"name": facts.VOUCHER_NAMES[v], "price": int(voucher_price(s))} if v else None for v in vouchers
        ],
        "packs": [
            {"name": facts.BOOSTER_NAMES[b], "price": int(booster_price(s, k))} if b else None
            for k, b in enumerate(boosters)
        ],
        "reroll": int(reroll_cost(s)),
    }
