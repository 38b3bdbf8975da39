"""The stand-in: the methods of the protocol on a game of the engine, with the states and errors of the mod.

It is for tests, and for people without the game. It does not use the client's translation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bridge import protocol
from ludus.games.balatro.bridge.game_state import DECKS, STAKES, game_state
from ludus.games.balatro.bridge.protocol import BAD_REQUEST, INVALID_STATE, NOT_ALLOWED, CallRefused
from ludus.games.balatro.cards import FORCED
from ludus.games.balatro.engine import apply, begin, observe
from ludus.games.balatro.env import NO_LOG, NO_QUEUE
from ludus.games.balatro.facts import ITEM_NAMES, TARGETS_MAX, TARGETS_MIN
from ludus.games.balatro.jokers import swap_jokers
from ludus.games.balatro.lineup import consumable_limit, joker_limit, joker_sell_value
from ludus.games.balatro.observation import observation_size
from ludus.games.balatro.seeds import random_seed, seed_code, seed_text
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price

TITLE = "Ludus stand-in for BalatroBot (not the game)"
VERSION = "1.5.3"
MENU, BLIND_SELECT, SELECTING_HAND = "MENU", "BLIND_SELECT", "SELECTING_HAND"
ROUND_EVAL, SHOP, PACK_OPEN, GAME_OVER = "ROUND_EVAL", "SHOP", "SMODS_BOOSTER_OPENED", "GAME_OVER"
_PHASE_STATES = (BLIND_SELECT, SELECTING_HAND, ROUND_EVAL, SHOP, PACK_OPEN, "PLAY_TAROT", GAME_OVER)
_WIN_ANTE = 8
_MOST_SELECTED = 5
_REROLL_BOSS_PRICE = 10


@dataclass(frozen=True)
class Method:
    """A method: its fields as name -> (type, required), and the states in which it may be called (none: any)."""

    run: Callable[[StandIn, dict[str, Any]], Any]
    fields: dict[str, tuple[str, bool]]
    states: tuple[str, ...] = ()
    about: str = ""


class StandIn:
    """One game behind the protocol. `answer` carries out a method and returns its result, or raises CallRefused."""

    def __init__(self, generator: random.Random | None = None) -> None:
        self._games = st.Games.empty(1)
        self.s, self.f = self._games.s[0], self._games.f[0]
        self._generator = generator or random.Random()
        self._in_run = False
        self._seed = ""
        self._won = False
        self._skipped: set[int] = set()
        self._shelf: list[int] = []
        self._obs = np.zeros((1, observation_size(st.MAX_HAND)), dtype=np.float32)
        self._mask = np.zeros((1, act.n_actions(st.MAX_HAND)), dtype=bool)

    @property
    def state(self) -> str:
        return _PHASE_STATES[int(self.s[st.PHASE])] if self._in_run else MENU

    def answer(self, name: str, params: dict[str, Any]) -> Any:
        """Check a call in the order of the mod (method, fields, state, rules), and carry it out."""
        method = METHODS.get(name)
        if method is None:
            raise CallRefused(BAD_REQUEST, f"Unknown method: {name[:100]}")
        _check_fields(method, params)
        if method.states and self.state not in method.states:
            states = ", ".join(method.states)
            raise CallRefused(INVALID_STATE, f"Method '{name}' requires one of these states: {states}")
        return method.run(self, params)

    def warm_up(self) -> None:
        """Compile what the methods call, so that the first client does not wait a minute for an answer."""
        self.answer("start", {"deck": DECKS[0], "stake": STAKES[0], "seed": "1"})
        self.answer("select", {})
        self.answer("play", {"cards": [0]})
        swap_jokers(self.s, self.f, 0, 0)
        for rule in (shop_price, booster_price, joker_sell_value):
            rule(self.s, 0)
        voucher_price(self.s)
        self.answer("menu", {})

    # methods without rules of their own

    def health(self, _: dict[str, Any]) -> Any:
        return {"status": "ok"}

    def discover(self, _: dict[str, Any]) -> Any:
        methods = [
            {
                "name": name,
                "description": method.about,
                "params": [{"name": f, "required": need} for f, (_, need) in method.fields.items()],
            }
            for name, method in METHODS.items()
        ]
        return {"openrpc": "1.3.2", "info": {"title": TITLE, "version": VERSION}, "methods": methods}

    def gamestate(self, _: dict[str, Any]) -> Any:
        if not self._in_run:
            return {"state": MENU, "round_num": 0, "ante_num": 0, "money": 0}
        return game_state(
            self.s,
            self.f,
            self.state,
            self._seed,
            won=self._won,
            skipped=self._skipped,
            shelf=self._shelf,
        )

    def start(self, params: dict[str, Any]) -> Any:
        for name, known in (("deck", DECKS), ("stake", STAKES)):
            if params[name] not in known:
                words = f"Invalid {name} enum. Must be one of: {', '.join(known)}. Got: {params[name][:100]}"
                raise CallRefused(BAD_REQUEST, words)
        seed = params.get("seed") or random_seed(self._generator)
        try:
            if seed_text(seed) != seed:
                raise UserError("lower case")
        except UserError:
            raise CallRefused(BAD_REQUEST, "Invalid seed: expected 1 to 8 of 1-9 and A-Z") from None
        deck, stake = DECKS.index(params["deck"]), STAKES.index(params["stake"]) + 1
        begin(self.s, self.f, NO_QUEUE, seed_code(seed), deck, stake, 0)
        self._in_run, self._seed, self._won = True, seed, False
        self._skipped, self._shelf = set(), []
        return self.gamestate({})

    def menu(self, _: dict[str, Any]) -> Any:
        self._in_run = False
        return self.gamestate({})

    def refuse(self, _: dict[str, Any]) -> Any:
        raise CallRefused(NOT_ALLOWED, "The stand-in does not have this method: it is not the game")

    # blinds and rounds

    def select(self, _: dict[str, Any]) -> Any:
        return self._do(act.TAKE_BLIND)

    def skip(self, _: dict[str, Any]) -> Any:
        place = int(self.s[st.BLIND_ON_DECK])
        if place == 2:
            raise CallRefused(NOT_ALLOWED, "Cannot skip Boss blind")
        self._skipped.add(place)
        return self._do(act.SKIP_BLIND)

    def reroll_boss(self, _: dict[str, Any]) -> Any:
        retcon, cut = self.s[st.VOUCHER + nm.V_RETCON], self.s[st.VOUCHER + nm.V_DIRECTORS_CUT]
        if not retcon and not cut:
            raise CallRefused(NOT_ALLOWED, "Rerolling the boss needs Director's Cut or Retcon")
        if not retcon and self.s[st.BOSS_REROLLED]:
            raise CallRefused(NOT_ALLOWED, "The boss was already rerolled in this ante")
        if self._available() < _REROLL_BOSS_PRICE:
            raise CallRefused(
                NOT_ALLOWED, f"Not enough dollars. Available: {self._available()}, Required: 10"
            )
        return self._do(act.REROLL_BOSS)

    def play(self, params: dict[str, Any]) -> Any:
        return self._do(act.play_action(self._selected(params["cards"], "play")))

    def discard(self, params: dict[str, Any]) -> Any:
        cards = self._selected(params["cards"], "discard")
        if self.s[st.DISCARDS_LEFT] <= 0:
            raise CallRefused(BAD_REQUEST, "No discards left")
        return self._do(act.discard_action(cards))

    def _selected(self, cards: list[int], what: str) -> list[int]:
        """Return the places of the hand that a play or discard selects."""
        if not cards:
            raise CallRefused(BAD_REQUEST, f"Must provide at least one card to {what}")
        if len(cards) > _MOST_SELECTED:
            raise CallRefused(BAD_REQUEST, f"You can only {what} {_MOST_SELECTED} cards")
        for card in cards:
            if not 0 <= card < self.s[st.N_HAND]:
                raise CallRefused(BAD_REQUEST, f"Invalid card index: {card}")
        if len(set(cards)) < len(cards):
            raise CallRefused(BAD_REQUEST, "Duplicate card index")
        held = self.s[st.HAND : st.HAND + self.s[st.N_HAND]]
        forced = [i for i, slot in enumerate(held) if self.s[st.CARD + slot] & FORCED]
        chosen = sorted({*cards, *forced})  # Cerulean Bell keeps its card selected
        if len(chosen) > _MOST_SELECTED:
            raise CallRefused(NOT_ALLOWED, "A card that must be selected is missing")
        return chosen

    def cash_out(self, _: dict[str, Any]) -> Any:
        if self.s[st.BLIND_ON_DECK] == 2:
            self._skipped = set()
        return self._do(act.CASH_OUT)

    def next_round(self, _: dict[str, Any]) -> Any:
        return self._do(act.NEXT_ROUND)

    # the shop

    def reroll(self, _: dict[str, Any]) -> Any:
        price = int(reroll_cost(self.s))
        if price > 0 and price > self._available():
            words = f"Not enough dollars to reroll. Available: {self._available()}, Required: {price}"
            raise CallRefused(NOT_ALLOWED, words)
        self._shelf = []  # every item is new
        return self._do(act.REROLL)

    def buy(self, params: dict[str, Any]) -> Any:
        kind = _only_one(params, "card", "voucher", "pack")
        slots = {
            "card": self._shelf,
            "voucher": self._filled(st.SHOP_VOUCHER, st.VOUCHER_SLOTS),
            "pack": self._filled(st.SHOP_BOOSTER, st.BOOSTER_SLOTS),
        }[kind]
        slot = _at(slots, params[kind], kind.capitalize())
        if kind == "voucher":
            return self._pay_for(int(voucher_price(self.s)), act.REDEEM + slot)
        if kind == "pack":
            return self._pay_for(int(booster_price(self.s, slot)), act.OPEN + slot)
        self._check_affordable(int(shop_price(self.s, slot)))
        item = int(self.s[st.SHOP + slot])
        if item < nm.C_FOOL and self.s[st.N_JOKERS] >= joker_limit(self.s):
            raise CallRefused(BAD_REQUEST, "Cannot purchase joker card, joker slots are full")
        is_consumable = nm.C_FOOL <= item < nm.PLAYING_CARD
        if is_consumable and self.s[st.N_CONSUMABLES] >= consumable_limit(self.s):
            raise CallRefused(BAD_REQUEST, "Cannot purchase consumable card, consumable slots are full")
        return self._do(act.BUY + slot)

    def buy_and_use(self, params: dict[str, Any]) -> Any:
        slot = _at(self._shelf, params["card"], "Card")
        self._check_affordable(int(shop_price(self.s, slot)))
        if not self._legal(act.BUY_AND_USE + slot):
            raise CallRefused(NOT_ALLOWED, "This card cannot be buy-and-used at this time")
        return self._do(act.BUY_AND_USE + slot)

    def _pay_for(self, price: int, action: int) -> Any:
        self._check_affordable(price)
        return self._do(action)

    def _check_affordable(self, price: int) -> None:
        if price > 0 and price > self._available():
            words = f"Card is not affordable. Cost: {price}, Available money: {self._available()}"
            raise CallRefused(BAD_REQUEST, words)

    def _available(self) -> int:
        """Return the money that can be spent: each Credit Card allows a debt of $20."""
        held = range(int(self.s[st.N_JOKERS]))
        credit = sum(
            self.s[st.JOKER + i] == nm.J_CREDIT_CARD and not self.s[st.J_STICKERS + i] & st.DEBUFFED
            for i in held
        )
        return int(self.s[st.MONEY]) + 20 * int(credit)

    def _filled(self, first: int, count: int) -> list[int]:
        return [k for k in range(count) if self.s[first + k]]

    # jokers and consumables

    def sell(self, params: dict[str, Any]) -> Any:
        kind = _only_one(params, "joker", "consumable")
        count = int(self.s[st.N_JOKERS if kind == "joker" else st.N_CONSUMABLES])
        if count == 0:
            raise CallRefused(NOT_ALLOWED, f"No {kind}s available to sell")
        place = params[kind]
        if not 0 <= place < count:
            raise CallRefused(BAD_REQUEST, f"Index out of range for {kind}: {place}")
        return self._do((act.SELL_JOKER if kind == "joker" else act.SELL_CONSUMABLE) + place)

    def use(self, params: dict[str, Any]) -> Any:
        place, cards = params["consumable"], params.get("cards") or []
        if not 0 <= place < self.s[st.N_CONSUMABLES]:
            raise CallRefused(BAD_REQUEST, f"Consumable index out of range: {place}")
        item = int(self.s[st.CONSUMABLE + place])
        if TARGETS_MAX[item] == 0:
            cards = []
        elif item == nm.C_AURA:  # the mod selects no card for it
            raise CallRefused(NOT_ALLOWED, "Consumable 'Aura' cannot be used at this time")
        elif self.state != SELECTING_HAND:
            words = f"Consumable '{ITEM_NAMES[item]}' requires card selection and SELECTING_HAND state"
            raise CallRefused(INVALID_STATE, words)
        else:
            self._check_targets(item, cards)
        if not self._legal(act.USE + place):
            raise CallRefused(NOT_ALLOWED, f"Consumable '{ITEM_NAMES[item]}' cannot be used at this time")
        return self._with_targets(act.USE + place, cards)

    def pack(self, params: dict[str, Any]) -> Any:
        if (params.get("card") is None) == (not params.get("skip")):
            raise CallRefused(BAD_REQUEST, "Invalid arguments. You must provide one of: card, skip")
        if params.get("skip"):
            return self._do(act.SKIP_PACK)
        slot = _at(self._filled(st.PACK, st.PACK_SLOTS), params["card"], "Card")
        item, cards = int(self.s[st.PACK + slot]), params.get("targets") or []
        if item < nm.C_FOOL and self.s[st.N_JOKERS] >= joker_limit(self.s):
            raise CallRefused(NOT_ALLOWED, "Cannot select joker, joker slots are full")
        if item == nm.C_ANKH and self.s[st.N_JOKERS] == 0:
            raise CallRefused(NOT_ALLOWED, "Card 'c_ankh' requires at least 1 joker")
        if TARGETS_MAX[item] > 0:
            self._check_targets(item, cards)
        if not self._legal(act.PICK + slot):
            raise CallRefused(NOT_ALLOWED, "This card cannot be selected now")
        return self._with_targets(act.PICK + slot, cards if TARGETS_MAX[item] > 0 else [])

    def _check_targets(self, item: int, cards: list[int]) -> None:
        name, fewest, most = ITEM_NAMES[item], int(TARGETS_MIN[item]), int(TARGETS_MAX[item])
        for card in cards:
            if not 0 <= card < self.s[st.N_HAND]:
                raise CallRefused(BAD_REQUEST, f"Card index out of range: {card}")
        if not fewest <= len(set(cards)) <= most or len(set(cards)) < len(cards):
            words = f"'{name}' requires {fewest} to {most} different cards (provided: {len(cards)})"
            raise CallRefused(BAD_REQUEST, words)

    def _with_targets(self, action: int, cards: list[int]) -> Any:
        """Apply an action and then its targets, or nothing if these are not allowed."""
        if not cards:
            return self._do(action)
        saved = self._games.copy()
        apply(self.s, self.f, NO_QUEUE, NO_LOG, action)
        targets = act.play_action(cards)
        if not self._legal(targets):
            self._games.put_back(saved)
            raise CallRefused(NOT_ALLOWED, "These cards cannot be its targets")
        return self._do(targets)

    # order

    def rearrange(self, params: dict[str, Any]) -> Any:
        kind = _only_one(params, "hand", "jokers", "consumables")
        if kind == "hand" and self.state == SHOP:
            raise CallRefused(INVALID_STATE, "Can only rearrange hand during hand selection")
        cell = {"hand": st.N_HAND, "jokers": st.N_JOKERS, "consumables": st.N_CONSUMABLES}[kind]
        count, order = int(self.s[cell]), params[kind]
        if count == 0:
            raise CallRefused(NOT_ALLOWED, f"No {kind} available to rearrange")
        if len(order) != count:
            raise CallRefused(BAD_REQUEST, f"Must provide exactly {count} indices for {kind}")
        for place in order:
            if not 0 <= place < count:
                raise CallRefused(BAD_REQUEST, f"Index out of range for {kind}: {place}")
        if len(set(order)) < count:
            raise CallRefused(BAD_REQUEST, f"Duplicate index in {kind}")
        if kind == "jokers":
            self._order_jokers(order)
        else:
            firsts = (st.HAND,) if kind == "hand" else (st.CONSUMABLE, st.C_EDITION, st.C_EXTRA, st.C_AGE)
            for first in firsts:
                self.s[first : first + count] = self.s[first : first + count][order]
        return self.gamestate({})

    def _order_jokers(self, order: list[int]) -> None:
        now = list(range(len(order)))
        for place, wanted in enumerate(order):
            at = now.index(wanted)
            swap_jokers(self.s, self.f, place, at)
            now[place], now[at] = now[at], now[place]

    def sort(self, params: dict[str, Any]) -> Any:
        if params["by"] not in ("rank", "suit"):
            raise CallRefused(BAD_REQUEST, "Invalid 'by': expected rank or suit")
        count = int(self.s[st.N_HAND])
        slots = [int(slot) for slot in self.s[st.HAND : st.HAND + count]]

        def key(slot: int) -> tuple[int, int]:
            rank, suit = -(int(self.s[st.CARD + slot]) & 15), int(self.s[st.CARD + slot]) >> 4 & 3
            return (rank, suit) if params["by"] == "rank" else (suit, rank)

        self.s[st.HAND : st.HAND + count] = sorted(slots, key=key)
        return self.gamestate({})

    # the engine

    def _legal(self, action: int) -> bool:
        observe(self._games.s, self._games.f, self._obs, self._mask, st.MAX_HAND)
        return bool(self._mask[0, action])

    def _do(self, action: int) -> Any:
        """Apply an action if the rules allow it, and return the state of the game."""
        if not self._legal(action):
            raise CallRefused(NOT_ALLOWED, "The rules do not allow this now")
        last_boss = self.s[st.BLIND] >= nm.BL_HOOK and self.s[st.ANTE] >= _WIN_ANTE
        apply(self.s, self.f, NO_QUEUE, NO_LOG, action)
        if last_boss and self.state == ROUND_EVAL:
            self._won = True
        self._shelf = [slot for slot in self._shelf if self.s[st.SHOP + slot]]
        self._shelf += [k for k in self._filled(st.SHOP, st.SHOP_SLOTS) if k not in self._shelf]
        return self.gamestate({})


def _check_fields(method: Method, params: dict[str, Any]) -> None:
    """Check required fields and types. A whole float counts as an integer and is made one."""
    for name, (kind, required) in method.fields.items():
        if params.get(name) is None:
            if required:
                raise CallRefused(BAD_REQUEST, f"Missing required field '{name}'")
            params.pop(name, None)
            continue
        value = params[name]
        if kind == "integer":
            params[name] = _whole(value, f"Field '{name}' must be an integer")
        elif kind == "array":
            if value == {}:
                value = []
            if not isinstance(value, list):
                raise CallRefused(BAD_REQUEST, f"Field '{name}' must be an array")
            params[name] = [
                _whole(one, f"Field '{name}' array item at index {i} must be of type integer")
                for i, one in enumerate(value)
            ]
        elif not isinstance(value, bool if kind == "boolean" else str):
            raise CallRefused(BAD_REQUEST, f"Field '{name}' must be of type {kind}")


def _whole(value: Any, words: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise CallRefused(BAD_REQUEST, words)
    return int(value)


def _only_one(params: dict[str, Any], *names: str) -> str:
    given = [name for name in names if params.get(name) is not None]
    if len(given) != 1:
        problem = "You must provide one of" if not given else "Cannot provide more than one of"
        raise CallRefused(BAD_REQUEST, f"Invalid arguments. {problem}: {', '.join(names)}")
    return given[0]


def _at(slots: list[int], index: int, what: str) -> int:
    if not 0 <= index < len(slots):
        words = f"{what} index out of range. Index: {index}, Available: {len(slots)}"
        raise CallRefused(BAD_REQUEST, words)
    return slots[index]


_HELD = (SELECTING_HAND, SHOP)
METHODS: dict[str, Method] = {
    "health": Method(StandIn.health, {}, about="Check that the server answers"),
    "gamestate": Method(StandIn.gamestate, {}, about="Return the state of the game"),
    "rpc.discover": Method(StandIn.discover, {}, about="Return this document"),
    "start": Method(
        StandIn.start,
        {"deck": ("string", True), "stake": ("string", True), "seed": ("string", False)},
        (MENU,),
        "Start a run",
    ),
    "menu": Method(StandIn.menu, {}, about="Go to the main menu"),
    "select": Method(StandIn.select, {}, (BLIND_SELECT,), "Select the blind"),
    "skip": Method(StandIn.skip, {}, (BLIND_SELECT,), "Skip the blind"),
    "reroll_boss": Method(StandIn.reroll_boss, {}, (BLIND_SELECT,), "Reroll the boss"),
    "play": Method(StandIn.play, {"cards": ("array", True)}, (SELECTING_HAND,), "Play cards"),
    "discard": Method(StandIn.discard, {"cards": ("array", True)}, (SELECTING_HAND,), "Discard cards"),
    "cash_out": Method(StandIn.cash_out, {}, (ROUND_EVAL,), "Collect the pay and go to the shop"),
    "next_round": Method(StandIn.next_round, {}, (SHOP,), "Leave the shop"),
    "reroll": Method(StandIn.reroll, {}, (SHOP,), "Reroll the shop"),
    "buy": Method(
        StandIn.buy,
        {"card": ("integer", False), "voucher": ("integer", False), "pack": ("integer", False)},
        (SHOP,),
        "Buy from the shop",
    ),
    "buy_and_use": Method(
        StandIn.buy_and_use, {"card": ("integer", True)}, (SHOP,), "Buy and use a consumable"
    ),
    "sell": Method(
        StandIn.sell, {"joker": ("integer", False), "consumable": ("integer", False)}, _HELD, "Sell a card"
    ),
    "use": Method(
        StandIn.use, {"consumable": ("integer", True), "cards": ("array", False)}, _HELD, "Use a consumable"
    ),
    "pack": Method(
        StandIn.pack,
        {"card": ("integer", False), "targets": ("array", False), "skip": ("boolean", False)},
        (PACK_OPEN,),
        "Take a card of the open pack, or skip it",
    ),
    "rearrange": Method(
        StandIn.rearrange,
        {"hand": ("array", False), "jokers": ("array", False), "consumables": ("array", False)},
        (*_HELD, PACK_OPEN),
        "Change the order of cards",
    ),
    "sort": Method(StandIn.sort, {"by": ("string", True)}, (SELECTING_HAND,), "Sort the hand"),
    **{
        name: Method(StandIn.refuse, {}, about="Not available")
        for name in ("save", "load", "screenshot", "set", "add")
    },
}
assert set(METHODS) >= protocol.BASE_METHODS
