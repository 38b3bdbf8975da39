"""The twin: a game of the engine with the same seed as the real one, in which the policy decides.

The policy gets the twin's observation, never an answer of the game. Actions for which the protocol has no request are
taken out of the mask before it decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ludus.envs.make import EnvSpec
from ludus.envs.user_code import build, close_env
from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import facts
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target
from ludus.games.balatro.bridge.view import FACE_DOWN, View, card_words
from ludus.games.balatro.cards import DEBUFF, HIDDEN
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.lineup import consumable_limit, joker_limit
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price
from ludus.types import Array, BoolArray

LAST_ANTE = 8  # the real game is won there, and the client stops
_STATES = {
    nm.CHOOSING_BLIND: "BLIND_SELECT",
    nm.SELECTING_HAND: "SELECTING_HAND",
    nm.CASHING_OUT: "ROUND_EVAL",
    nm.SHOPPING: "SHOP",
    nm.OPENING_PACK: "SMODS_BOOSTER_OPENED",
    nm.GAME_OVER: "GAME_OVER",
}
_EDITIONS = ("", "foil", "holo", "polychrome", "negative")
_ENHANCEMENTS = ("", *(name.lower() for name in facts.ENHANCEMENTS[1:]))
_SEALS = ("", *(name.lower() for name in facts.SEALS[1:]))
_PERISHABLE_ROUNDS = 5
_BLINDS = ("small", "big", "boss")


class Twin:
    """The game of the engine behind an env that a policy plays. `methods` are those that the real game offers.

    Raises UserError if `spec` is not an env of Balatro.
    """

    def __init__(self, spec: EnvSpec, deck: str, stake: str | int, methods: frozenset[str]) -> None:
        if not spec.id.startswith("ludus/Balatro-"):
            raise UserError(
                f"this policy plays '{spec.id}', not Balatro",
                where="command line: --agent",
                fix="give an agent of Balatro, such as balatro-ppo, rules or random",
            )
        wanted = spec.kwargs.get("max_ante", LAST_ANTE)
        last_ante = LAST_ANTE if wanted is None else min(int(wanted), LAST_ANTE)
        settings = BalatroSettings(deck, stake, last_ante)
        self.deck = facts.DECK_NAMES[settings.deck_number].removesuffix(" Deck").upper()
        self.stake = facts.STAKE_NAMES[settings.stake_number].removesuffix(" Stake").upper()
        run = {"deck": deck, "stake": stake, "max_ante": last_ante}
        self.env = build(replace(spec, kwargs={**spec.kwargs, **run}, curriculum=None))
        game = self.env.unwrapped
        assert isinstance(game, BalatroEnv)
        self._game = game
        self._methods = methods
        game.forbid = self._forbid

    def close(self) -> None:
        close_env(self.env)

    @property
    def s(self) -> Array:
        row: Array = self._game.games.s[0]
        return row

    @property
    def f(self) -> Array:
        row: Array = self._game.games.f[0]
        return row

    def game_copy(self) -> st.Games:
        """Return a copy of the game, to look ahead."""
        return self._game.games.copy()

    def engine_action(self, action: int) -> int | None:
        """Return the engine's action for a choice of the policy; None if it is not allowed."""
        if not 0 <= action < len(self._game.action_masks()) or not self._game.action_masks()[action]:
            return None
        return self._game.engine_action(action)

    def _forbid(self, s: Array, legal: BoolArray) -> None:
        """Take out the actions that cannot be sent to the game."""
        phase = s[st.PHASE]
        if phase in (nm.CHOOSING_BLIND, nm.OPENING_PACK):
            legal[act.USE : act.SWAP_JOKERS] = False  # use and sell
        if phase == nm.CHOOSING_BLIND:
            legal[act.SWAP_JOKERS : act.MOVE_CARD] = False
            if "reroll_boss" not in self._methods:
                legal[act.REROLL_BOSS] = False
        for at in np.flatnonzero(s[st.CONSUMABLE : st.CONSUMABLE + st.MAX_CONSUMABLES] == nm.C_AURA):
            legal[act.USE + at] = False  # `use` does not select a card for Aura; `pack` does
        if s[st.N_JOKERS] >= joker_limit(s):  # the mod also refuses a Negative joker, which needs no room
            for slots, items, first in (
                (st.SHOP_SLOTS, st.SHOP, act.BUY),
                (st.PACK_SLOTS, st.PACK, act.PICK),
            ):
                for k in range(slots):
                    if 0 < s[items + k] < nm.C_FOOL:
                        legal[first + k] = False
        if "buy_and_use" not in self._methods and s[st.N_CONSUMABLES] >= consumable_limit(s):
            legal[act.BUY_AND_USE : act.REDEEM] = False  # without room it cannot be bought first

    def view(self) -> View | None:
        """Return what the game must show now; None while the engine waits for the targets of a consumable."""
        return expected_view(self.s, self.f)


def expected_view(s: Array, f: Array) -> View | None:
    """Return what the real game must show when the engine is in this state, see `Twin.view`."""
    phase = int(s[st.PHASE])
    if phase == nm.TARGETING:
        return None
    if s[st.WON]:  # the engine ends here; the game offers to play on
        return {"state": "ROUND_EVAL", "won": True} if s[st.ANTE] >= LAST_ANTE else {"state": "ROUND_EVAL"}
    view: View = {"state": _STATES[phase], "ante": int(s[st.ANTE]), "round": int(s[st.ROUND])}
    if phase == nm.GAME_OVER:
        return view
    view["money"] = int(s[st.MONEY])
    levels = ((hand, int(s[st.LEVEL + i])) for i, hand in enumerate(facts.HANDS))
    view["levels"] = ", ".join(f"{hand} {level}" for hand, level in levels if level != 1) or "all 1"
    view["jokers"] = [_joker(s, i) for i in range(int(s[st.N_JOKERS]))]
    view["consumables"] = [
        card_words(facts.ITEM_KEYS[int(s[st.CONSUMABLE + k])], edition=_EDITIONS[int(s[st.C_EDITION + k])])
        for k in range(int(s[st.N_CONSUMABLES]))
    ]
    if phase in (nm.SELECTING_HAND, nm.OPENING_PACK):
        view["hand"] = [_playing_card(int(s[st.CARD + slot])) for slot in s[st.HAND : st.HAND + s[st.N_HAND]]]
    if phase in (nm.SELECTING_HAND, nm.CASHING_OUT):
        view["hands left"] = int(s[st.HANDS_LEFT])
        view["discards left"] = int(s[st.DISCARDS_LEFT])
        view["chips"] = float(f[st.CHIPS])
    if phase == nm.SELECTING_HAND:
        view["cards in the deck"] = int(s[st.N_DRAW])
    if phase in (nm.CHOOSING_BLIND, nm.SELECTING_HAND):
        view |= _blinds(s, phase == nm.SELECTING_HAND)
    if phase == nm.SHOPPING:
        view |= _shop(s)
    if phase == nm.OPENING_PACK:
        view["pack"] = [_in_pack(s, k) for k in range(st.PACK_SLOTS) if s[st.PACK + k]]
    return view


def shelf_order(s: Array) -> list[int]:
    """Return the filled slots of the shop in the order in which the game shows them: new items come last."""
    return sorted((k for k in range(st.SHOP_SLOTS) if s[st.SHOP + k]), key=lambda k: int(s[st.SHOP_AGE + k]))


def _blinds(s: Array, playing: bool) -> View:
    view: View = {}
    on_deck = int(s[st.BLIND_ON_DECK])
    for place, kind in enumerate(_BLINDS):
        number = int(s[st.BOSS]) if place == 2 else nm.BL_SMALL + place
        view[f"{kind} blind"] = facts.BLIND_KEYS[number]
        view[f"chips of the {kind} blind"] = int(blind_target(s, number))
        status = "CURRENT" if playing else "SELECT"
        view[f"status of the {kind} blind"] = (
            "PASSED" if place < on_deck else status if place == on_deck else "UPCOMING"
        )
        if place < 2 and place >= on_deck and not playing:
            view[f"tag of the {kind} blind"] = facts.TAG_KEYS[int(s[st.BLIND_TAG + place])]
    return view


def _shop(s: Array) -> View:
    vouchers = (int(v) for v in s[st.SHOP_VOUCHER : st.SHOP_VOUCHER + st.VOUCHER_SLOTS] if v)
    boosters = [k for k in range(st.BOOSTER_SLOTS) if s[st.SHOP_BOOSTER + k]]
    names = [facts.BOOSTER_KEYS[int(s[st.SHOP_BOOSTER + k])].rpartition("_")[0] for k in boosters]
    return {
        "reroll cost": int(reroll_cost(s)),
        "shop": [
            _item(s, k, st.SHOP, st.SHOP_EDITION, st.SHOP_STICKERS, st.SHOP_CARD, int(shop_price(s, k)))
            for k in shelf_order(s)
        ],
        "vouchers on offer": [
            card_words(facts.VOUCHER_KEYS[v], price=int(voucher_price(s))) for v in vouchers
        ],
        "packs on offer": [
            card_words(name, price=int(booster_price(s, k))) for name, k in zip(names, boosters, strict=True)
        ],
    }


def _in_pack(s: Array, k: int) -> str:
    return _item(s, k, st.PACK, st.PACK_EDITION, st.PACK_STICKERS, st.PACK_CARD)


def _item(
    s: Array, k: int, items: int, editions: int, stickers: int, faces: int, price: int | None = None
) -> str:
    item = int(s[items + k])
    if item == nm.PLAYING_CARD:
        return _playing_card(int(s[faces + k]), price)
    edition = _EDITIONS[int(s[editions + k])]
    if item >= nm.C_FOOL:
        return card_words(facts.ITEM_KEYS[item], edition=edition, price=price)
    marks = int(s[stickers + k])
    return _sticky(item, edition, marks, _PERISHABLE_ROUNDS if marks & st.PERISHABLE else 0, price)


def _joker(s: Array, i: int) -> str:
    marks = int(s[st.J_STICKERS + i])
    if marks & st.FACE_DOWN:
        return FACE_DOWN
    return _sticky(int(s[st.JOKER + i]), _EDITIONS[int(s[st.J_EDITION + i])], marks, int(s[st.J_PERISH + i]))


def _sticky(item: int, edition: str, marks: int, perishable: int, price: int | None = None) -> str:
    return card_words(
        facts.ITEM_KEYS[item],
        edition=edition,
        eternal=bool(marks & st.ETERNAL),
        perishable=perishable,
        rental=bool(marks & st.RENTAL),
        debuffed=bool(marks & st.DEBUFFED),
        price=price,
    )


def _playing_card(card: int, price: int | None = None) -> str:
    if card & HIDDEN:
        return FACE_DOWN
    return card_words(
        f"{'SHCD'[card >> 4 & 3]}_{'23456789TJQKA'[(card & 15) - 2]}",
        enhancement=_ENHANCEMENTS[card >> 6 & 15],
        edition=_EDITIONS[card >> 10 & 7],
        seal=_SEALS[card >> 13 & 7],
        debuffed=bool(card & DEBUFF),
        price=price,
    )
