"""Actions in the words of a player, with the names and prices that the table shows at that moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import BOOSTER_NAMES, ITEM_NAMES, TAG_NAMES, VOUCHER_NAMES
from ludus.games.balatro.lineup import joker_sell_value
from ludus.games.balatro.render import blind_name, card_text, item_text
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price


def action_words(s: Any, action: int) -> str:
    """Describe an action of `actions.py` in the game with the row `s`, before it is applied."""
    if action >= act.CARDS:
        return _cards(s, action)
    numbered: tuple[tuple[int, int, Callable[[int], str]], ...] = (
        (act.BUY, act.BUY_AND_USE, lambda k: f"buy {_offer(s, k)} for ${int(shop_price(s, k))}"),
        (act.BUY_AND_USE, act.REDEEM, lambda k: f"buy and use {_offer(s, k)} for ${int(shop_price(s, k))}"),
        (
            act.REDEEM,
            act.OPEN,
            lambda k: f"redeem {VOUCHER_NAMES[int(s[st.SHOP_VOUCHER + k])]} for ${int(voucher_price(s))}",
        ),
        (
            act.OPEN,
            act.PICK,
            lambda k: f"open {BOOSTER_NAMES[int(s[st.SHOP_BOOSTER + k])]} for ${int(booster_price(s, k))}",
        ),
        (act.PICK, act.USE, lambda k: f"take {_in_pack(s, k)}"),
        (act.USE, act.SELL_CONSUMABLE, lambda k: f"use {ITEM_NAMES[int(s[st.CONSUMABLE + k])]}"),
        (act.SELL_CONSUMABLE, act.SELL_JOKER, lambda k: f"sell {ITEM_NAMES[int(s[st.CONSUMABLE + k])]}"),
        (act.SELL_JOKER, act.SWAP_JOKERS, lambda k: _sale(s, k)),
        (act.SWAP_JOKERS, act.MOVE_CARD, lambda k: f"swap jokers {k + 1} and {k + 2}"),
        (act.MOVE_CARD, act.CARDS, lambda k: f"move {_card(s, k)} to the left end"),
    )
    for start, end, words in numbered:
        if start <= action < end:
            return words(action - start)
    if action == act.TAKE_BLIND:
        return f"play {blind_name(s)}"
    if action == act.REROLL:
        return f"reroll the shop for ${int(reroll_cost(s))}"
    if action == act.SKIP_BLIND:
        return f"skip the blind for a {TAG_NAMES[int(s[st.BLIND_TAG + int(s[st.BLIND_ON_DECK])])]}"
    if action == act.CASH_OUT:
        return f"cash out ${int(s[st.PAYOUT])}"
    return act.describe(action)


def action_positions(action: int) -> list[int]:
    """Return the positions of the hand that an action selects, counted from 0; empty for other actions."""
    if action < act.CARDS:
        return []
    bits = int(act.SETS[(action - act.CARDS) // 2])
    return [p for p in range(st.MAX_HAND) if bits >> p & 1]


def _cards(s: Any, action: int) -> str:
    chosen = action_positions(action)
    cards = " ".join(_card(s, p) for p in chosen)
    if s[st.PHASE] == n.TARGETING:
        return f"use {ITEM_NAMES[int(s[st.WAITING])]} on {cards}"
    count = "1 card" if len(chosen) == 1 else f"{len(chosen)} cards"
    return f"{'discard' if (action - act.CARDS) % 2 else 'play'} {count}: {cards}"


def _card(s: Any, position: int) -> str:
    return card_text(int(s[st.CARD + int(s[st.HAND + position])]))


def _offer(s: Any, k: int) -> str:
    return item_text(s[st.SHOP + k], s[st.SHOP_EDITION + k], s[st.SHOP_CARD + k])


def _in_pack(s: Any, k: int) -> str:
    return item_text(s[st.PACK + k], s[st.PACK_EDITION + k], s[st.PACK_CARD + k])


def _sale(s: Any, k: int) -> str:
    if int(s[st.J_STICKERS + k]) & st.FACE_DOWN:
        return f"sell joker {k + 1}, which is face down"
    return f"sell {ITEM_NAMES[int(s[st.JOKER + k])]} for ${int(joker_sell_value(s, k))}"
