"""A game of Balatro with a chosen state, played through `step`, for the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance, engine
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import refresh_debuffs
from ludus.games.balatro.cards import packed
from ludus.games.balatro.facts import HANDS, ITEM_NAMES, number_of
from ludus.games.balatro.observation import observation_size
from ludus.games.balatro.score import put_joker

MAX_HAND = 12
_RANKS = "23456789TJQKA"
_SUITS = "SHCD"
_WORDS = {
    **{
        word: ("enhancement", i)
        for i, word in enumerate(
            ("", "bonus", "mult", "wild", "glass", "steel", "stone", "goldcard", "lucky")
        )
    },
    **{word: ("edition", i) for i, word in enumerate(("", "foil", "holo", "poly", "neg"))},
    **{word: ("seal", i) for i, word in enumerate(("", "gold", "red", "blue", "purple"))},
}


def card(token: str) -> int:
    """Return a token like `KS` or `TH:glass:red:foil` as a packed card."""
    name, *words = token.split(":")
    parts = dict(_WORDS[word] for word in words)
    return packed(2 + _RANKS.index(name[0]), _SUITS.index(name[1]), **parts)


class Game:
    """One game. With a `hand`, a blind is being played and these cards are drawn; otherwise a blind is to be chosen."""

    def __init__(
        self,
        hand: str = "",
        jokers: Iterable[Any] = (),
        *,
        deck: int = n.B_RED,
        stake: int = 1,
        blind: int = n.BL_SMALL,
        money: int = 4,
        ante: int = 1,
        target: float = 1e15,
        vouchers: Iterable[int] = (),
        consumables: Iterable[int] = (),
        tags: Iterable[int] = (),
        seed: int = 1,
        last_ante: int = 8,
        given: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.games = st.Games.empty(1)
        self.s, self.f = self.games.s[0], self.games.f[0]
        s, f = self.s, self.f
        engine.begin(s, f, queue(()), seed, deck, stake, last_ante)
        self.obs = np.zeros((1, observation_size(MAX_HAND)), dtype=np.float32)
        self.legal = np.zeros((1, act.n_actions(MAX_HAND)), dtype=bool)
        self.reward, self.done = np.zeros(1), np.zeros(1, dtype=np.uint8)
        s[st.MONEY], s[st.ANTE] = money, ante
        s[st.BLIND_ON_DECK] = min(blind, 3) - 1
        if blind >= n.BL_HOOK:
            s[st.BOSS] = blind
        for voucher in vouchers:
            s[st.VOUCHER + voucher] = 1
        for joker in jokers:
            put_joker(s, f, {"name": joker} if isinstance(joker, str) else joker)
        for item in consumables:
            s[st.CONSUMABLE + s[st.N_CONSUMABLES]] = item
            s[st.N_CONSUMABLES] += 1
        for tag in tags:
            s[st.TAG + s[st.N_TAGS]] = tag
            s[st.N_TAGS] += 1
        self.observe()
        if hand:
            cards = [card(token) for token in hand.split()]
            self._add_missing_cards(cards)
            self.do(act.TAKE_BLIND, [*given, *((chance.GIVEN_DRAW, c & 63) for c in cards)])
            self._enhance_and_order(cards)
            f[st.TARGET] = target
            refresh_debuffs(s)
            self.observe()

    def _add_missing_cards(self, cards: list[int]) -> None:
        """Change cards of the deck so that it contains `cards`, also duplicates."""
        s = self.s
        wanted = [c & 63 for c in cards]
        spare = []
        for place in range(52):
            if (identity := int(s[st.CARD + place])) in wanted:
                wanted.remove(identity)
            else:
                spare.append(place)
        for identity, place in zip(wanted, spare, strict=False):
            s[st.CARD + place] = identity

    def _enhance_and_order(self, cards: list[int]) -> None:
        """Give the drawn cards the enhancements of the tokens, and their order."""
        s = self.s
        places = [int(p) for p in s[st.HAND : st.HAND + s[st.N_HAND]]]
        ordered = []
        for c in cards:
            place = next(p for p in places if int(s[st.CARD + p]) & 63 == c & 63)
            places.remove(place)
            ordered.append(place)
            s[st.CARD + place] |= c
        for i, place in enumerate([*ordered, *places]):
            s[st.HAND + i] = place

    def observe(self) -> None:
        engine.observe(self.games.s, self.games.f, self.obs, self.legal, MAX_HAND)

    def can(self, action: int) -> bool:
        return bool(self.legal[0, action])

    def do(self, action: int, given: Iterable[tuple[int, int]] = (), *, illegal: bool = False) -> Game:
        """Take one step; `given` are the outcomes of random events."""
        assert self.can(action) or illegal, f"not legal: {act.describe(action)} in phase {self.s[st.PHASE]}"
        engine.step(
            self.games.s,
            self.games.f,
            queue(given),
            np.array([action]),
            self.obs,
            self.reward,
            self.done,
            self.legal,
            self.legal,
            MAX_HAND,
            10**9,
            0,
            self.games.s[:0],
            self.games.f[:0],
            self.obs[:0],
            self.legal[:0],
            np.zeros((0, 6)),
        )
        return self

    def play(self, *positions: int, given: Iterable[tuple[int, int]] = ()) -> Game:
        return self.do(act.play_action(positions), given)

    def discard(self, *positions: int, given: Iterable[tuple[int, int]] = ()) -> Game:
        return self.do(act.discard_action(positions), given)

    def use(self, slot: int = 0, *positions: int, given: Iterable[tuple[int, int]] = ()) -> Game:
        self.do(act.USE + slot, given if not positions else ())
        return self.play(*positions, given=given) if positions else self

    def win_round(self) -> Game:
        """Beat the blind with the first card, by lowering the target."""
        self.f[st.TARGET] = 1.0
        for k in range(4):  # Cerulean Bell may force another card
            if self.can(act.play_action((k,))):
                return self.play(k)
        raise AssertionError("no single card can be played")

    def to_shop(self, given: Iterable[tuple[int, int]] = ()) -> Game:
        return self.win_round().do(act.CASH_OUT, given)

    @property
    def money(self) -> int:
        return int(self.s[st.MONEY])

    @property
    def chips(self) -> float:
        return float(self.f[st.W_CHIPS])

    @property
    def mult(self) -> float:
        return float(self.f[st.W_MULT])

    @property
    def hand(self) -> list[str]:
        return [name(int(self.s[st.CARD + p])) for p in self.s[st.HAND : st.HAND + self.s[st.N_HAND]]]

    def card_at(self, position: int) -> int:
        return int(self.s[st.CARD + self.s[st.HAND + position]])

    @property
    def jokers(self) -> list[str]:
        return [ITEM_NAMES[int(j)] for j in self.s[st.JOKER : st.JOKER + self.s[st.N_JOKERS]]]

    @property
    def consumables(self) -> list[int]:
        return [int(c) for c in self.s[st.CONSUMABLE : st.CONSUMABLE + self.s[st.N_CONSUMABLES]]]

    @property
    def tags(self) -> list[int]:
        return [int(t) for t in self.s[st.TAG : st.TAG + self.s[st.N_TAGS]]]

    def level(self, hand: str) -> int:
        return int(self.s[st.LEVEL + HANDS.index(hand)])

    def value(self, joker: int = 0) -> float:
        return float(self.f[st.J_VALUE + joker])

    def count(self, joker: int = 0) -> int:
        return int(self.s[st.J_COUNT + joker])

    def __getitem__(self, cell: int) -> int:
        return int(self.s[cell])

    def __setitem__(self, cell: int, value: int) -> None:
        self.s[cell] = value
        self.observe()


def name(packed_card: int) -> str:
    return f"{_RANKS[(packed_card & 15) - 2]}{_SUITS[packed_card >> 4 & 3]}"


def queue(given: Iterable[tuple[int, int]]) -> Any:
    return np.array([number for pair in given for number in pair], dtype=np.int64)


def joker(name_: str) -> int:
    number = number_of(ITEM_NAMES, name_)
    assert number is not None, name_
    return number


PROC, NO_PROC = (chance.GIVEN_PROC, 1), (chance.GIVEN_PROC, 0)
