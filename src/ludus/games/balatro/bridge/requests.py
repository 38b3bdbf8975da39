"""Translation of the engine's actions into requests of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bridge.twin import shelf_order
from ludus.games.balatro.bridge.view import HAND_IDS, JOKER_IDS
from ludus.games.balatro.facts import TARGETS_MAX
from ludus.types import Array

_PLAIN = {
    act.TAKE_BLIND: "select",
    act.SKIP_BLIND: "skip",
    act.REROLL_BOSS: "reroll_boss",
    act.CASH_OUT: "cash_out",
    act.REROLL: "reroll",
    act.NEXT_ROUND: "next_round",
}
_PACK_SOURCE = 100  # WAITING_FROM of an item of a pack, see engine.py


@dataclass(frozen=True)
class Request:
    """A method with its parameters.

    `engine_action` is what the engine does for this request alone, where one action takes several requests. A
    rearrangement names the field of the view with the ids that it permutes.
    """

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    engine_action: int | None = None
    permutes: str = ""

    @property
    def order(self) -> list[int]:
        """The permutation of a rearrangement: place i gets what was at `order[i]`."""
        return list(next(iter(self.params.values()))) if self.permutes else []

    def __str__(self) -> str:
        return f"{self.method} {self.params}" if self.params else self.method


def rearrange_hand(order: list[int]) -> Request:
    return Request("rearrange", {"hand": order}, permutes=HAND_IDS)


class Translator:
    """Translates the actions of one run, in their order. A consumable with targets takes two actions, one request."""

    def __init__(self, methods: frozenset[str]) -> None:
        self._methods = methods
        self._waiting = 0  # position of the consumable whose targets are chosen next

    def requests(self, s: Array, action: int) -> list[Request]:
        """Return the requests for a legal action in the state `s` before it; none if its targets follow."""
        if action in _PLAIN:
            return [Request(_PLAIN[action])]
        if action == act.SKIP_PACK:
            return [Request("pack", {"skip": True})]
        if action >= act.CARDS:
            return [self._on_cards(s, action)]
        if action >= act.MOVE_CARD:
            at = action - act.MOVE_CARD
            others = [i for i in range(int(s[st.N_HAND])) if i != at]
            return [rearrange_hand([at, *others])]
        if action >= act.SWAP_JOKERS:
            order = list(range(int(s[st.N_JOKERS])))
            at = action - act.SWAP_JOKERS
            order[at], order[at + 1] = order[at + 1], order[at]
            return [Request("rearrange", {"jokers": order}, permutes=JOKER_IDS)]
        if action >= act.SELL_JOKER:
            return [Request("sell", {"joker": action - act.SELL_JOKER})]
        if action >= act.SELL_CONSUMABLE:
            return [Request("sell", {"consumable": action - act.SELL_CONSUMABLE})]
        if action >= act.USE:
            return self._use(s, action - act.USE)
        if action >= act.PICK:
            slot = action - act.PICK
            if TARGETS_MAX[s[st.PACK + slot]] > 0:
                return []
            return [Request("pack", {"card": _place(s, st.PACK, slot)})]
        return self._buy(s, action)

    def _use(self, s: Array, at: int) -> list[Request]:
        if TARGETS_MAX[s[st.CONSUMABLE + at]] > 0:
            self._waiting = at
            return []
        return [Request("use", {"consumable": at})]

    def _on_cards(self, s: Array, action: int) -> Request:
        bits = int(act.SETS[(action - act.CARDS) // 2])
        cards = [place for place in range(st.MAX_HAND) if bits >> place & 1]
        if s[st.PHASE] != nm.TARGETING:
            return Request("discard" if (action - act.CARDS) % 2 else "play", {"cards": cards})
        source = int(s[st.WAITING_FROM])
        if source >= _PACK_SOURCE:
            return Request("pack", {"card": _place(s, st.PACK, source - _PACK_SOURCE), "targets": cards})
        return Request("use", {"consumable": self._waiting, "cards": cards})

    def _buy(self, s: Array, action: int) -> list[Request]:
        if action >= act.OPEN:
            return [Request("buy", {"pack": _place(s, st.SHOP_BOOSTER, action - act.OPEN)})]
        if action >= act.REDEEM:
            return [Request("buy", {"voucher": _place(s, st.SHOP_VOUCHER, action - act.REDEEM)})]
        if action < act.BUY_AND_USE:
            return [Request("buy", {"card": shelf_order(s).index(action - act.BUY)})]
        slot = action - act.BUY_AND_USE
        card = shelf_order(s).index(slot)
        if "buy_and_use" in self._methods:
            return [Request("buy_and_use", {"card": card})]
        held = int(s[st.N_CONSUMABLES])
        return [
            Request("buy", {"card": card}, engine_action=act.BUY + slot),
            Request("use", {"consumable": held}, engine_action=act.USE + held),
        ]


def _place(s: Array, first: int, slot: int) -> int:
    """Return the index in the game of an item: empty slots of the engine do not count."""
    return sum(1 for k in range(slot) if s[first + k])
