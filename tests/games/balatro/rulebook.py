"""Reference rules in plain Python: the legal actions of a game, to check the masks against.

It is written from the rules of the game, not from the engine; both share the layout of a row, the names and the
numbers of `facts.json`. The conventions of the action space are the documented ones: sets contain only the first
positions of the hand; jokers and hand can be reordered a limited number of times between two other actions, the hand
only if its order matters or a card is out of reach (a card forced by Cerulean Bell can always be moved); at the
cash-out, cashing out is the only action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import FACTS

TAROTS, PLANETS, SPECTRALS = (
    range(first, first + count) for first, count in ((151, 22), (173, 12), (185, 18))
)
_ITEMS = [{}, *FACTS["jokers"], *FACTS["tarots"], *FACTS["planets"], *FACTS["spectrals"], {"cost": 1}]
_SURCHARGE = {0: 0, n.FOIL: 2, n.HOLOGRAPHIC: 3, n.POLYCHROME: 5, n.NEGATIVE: 5}

# number of target cards of consumables, from their descriptions
_UP_TO_THREE = (n.C_STAR, n.C_MOON, n.C_SUN, n.C_WORLD)
_UP_TO_TWO = (n.C_MAGICIAN, n.C_EMPRESS, n.C_HEIROPHANT, n.C_STRENGTH, n.C_HANGED_MAN)
_JUST_ONE = (
    *(n.C_LOVERS, n.C_CHARIOT, n.C_JUSTICE, n.C_DEVIL, n.C_TOWER),
    *(n.C_TALISMAN, n.C_AURA, n.C_DEJA_VU, n.C_TRANCE, n.C_MEDIUM, n.C_CRYPTID),
)
_WHOLE_HAND = (n.C_FAMILIAR, n.C_GRIM, n.C_INCANTATION, n.C_SIGIL, n.C_OUIJA, n.C_IMMOLATE)


@dataclass
class Card:
    edition: int
    enhancement: int
    debuffed: bool
    forced: bool


@dataclass
class Joker:
    number: int
    edition: int
    eternal: bool
    debuffed: bool


class Position:
    """A game as a player reads it."""

    def __init__(self, s: Any, max_hand: int) -> None:
        self.s = s
        self.reach = min(int(s[st.N_HAND]), max_hand)
        self.phase = int(s[st.PHASE])
        self.jokers = [
            Joker(
                int(s[st.JOKER + i]),
                int(s[st.J_EDITION + i]),
                bool(s[st.J_STICKERS + i] & 1),
                bool(s[st.J_STICKERS + i] & 8),
            )
            for i in range(s[st.N_JOKERS])
        ]
        self.consumables = [int(c) for c in s[st.CONSUMABLE : st.CONSUMABLE + s[st.N_CONSUMABLES]]]
        self.hand = [self._card(int(s[st.CARD + p])) for p in s[st.HAND : st.HAND + s[st.N_HAND]]]

    @staticmethod
    def _card(bits: int) -> Card:
        return Card(bits >> 10 & 7, bits >> 6 & 15, bool(bits >> 16 & 1), bool(bits >> 19 & 1))

    def has(self, joker: int) -> int:
        return sum(j.number == joker and not j.debuffed for j in self.jokers)

    def voucher(self, voucher: int) -> bool:
        return bool(self.s[st.VOUCHER + voucher])

    @property
    def spendable_money(self) -> int:
        """The money that can be spent: each Credit Card lends 20."""
        return int(self.s[st.MONEY]) + 20 * self.has(n.J_CREDIT_CARD)

    def affords(self, cost: int) -> bool:
        return cost == 0 or cost <= self.spendable_money

    @property
    def free_joker_slots(self) -> int:
        """The number of free joker slots; a Negative joker needs none. There are at most 15."""
        limit = int(self.s[st.JOKER_SLOTS]) + sum(j.edition == n.NEGATIVE for j in self.jokers)
        return max(0, min(limit, 15) - len(self.jokers))

    @property
    def free_consumable_slots(self) -> int:
        editions = self.s[st.C_EDITION : st.C_EDITION + len(self.consumables)]
        limit = int(self.s[st.CONSUMABLE_SLOTS]) + sum(int(e) == n.NEGATIVE for e in editions)
        return max(0, min(limit, 10) - len(self.consumables))

    def sale(self, cost: int) -> int:
        percent = 50 if self.voucher(n.V_LIQUIDATION) else 75 if self.voucher(n.V_CLEARANCE_SALE) else 100
        return max(1, int((cost + 0.5) * percent / 100))

    def price(self, place: int) -> int:
        s, item = self.s, int(self.s[st.SHOP + place])
        if s[st.SHOP_FREE + place] or (item in PLANETS and self.has(n.J_ASTRONOMER)):
            return 0
        if s[st.SHOP_STICKERS + place] & 4:  # a Rental
            return 1
        return self.sale(_ITEMS[item]["cost"] + _SURCHARGE[int(s[st.SHOP_EDITION + place])])

    def pack_price(self, place: int) -> int:
        pack = FACTS["boosters"][int(self.s[st.SHOP_BOOSTER + place]) - 1]
        if self.s[st.BOOSTER_FREE + place] or (pack["kind"] == "Celestial" and self.has(n.J_ASTRONOMER)):
            return 0
        return self.sale(pack["cost"])

    def fits(self, item: int, edition: int) -> bool:
        """Return whether there is room for an item of the shop or for a joker of a pack."""
        if item == n.PLAYING_CARD:
            return int(self.s[st.N_CARDS]) < st.MAX_CARDS
        if item <= 150:
            return len(self.jokers) < 15 and (edition == n.NEGATIVE or self.free_joker_slots > 0)
        return self.free_consumable_slots > 0

    def can_use(self, item: int, own: bool) -> bool:
        """Return whether a consumable can be used now; a held one frees its slot first."""
        s, hand = self.s, self.hand
        room_for_one = own or self.free_consumable_slots > 0
        deck_room = st.MAX_CARDS - int(s[st.N_CARDS])
        if item in PLANETS or item in (n.C_BLACK_HOLE, n.C_HERMIT, n.C_TEMPERANCE):
            return True
        if item in (n.C_EMPEROR, n.C_HIGH_PRIESTESS):
            return room_for_one
        if item == n.C_FOOL:
            return room_for_one and s[st.LAST_CONSUMABLE] not in (0, n.C_FOOL)
        if item in (n.C_JUDGEMENT, n.C_SOUL, n.C_WRAITH):
            return self.free_joker_slots > 0
        if item in (n.C_WHEEL_OF_FORTUNE, n.C_ECTOPLASM, n.C_HEX):
            return any(j.edition == 0 for j in self.jokers)
        if item == n.C_ANKH:
            return bool(self.jokers) and self.free_joker_slots > 0 and self._joker_limit() > 1
        if item in _WHOLE_HAND:
            # the deck needs room for the new cards: at most 4 (Incantation), after one was destroyed
            return len(hand) > 1 and (item > n.C_INCANTATION or deck_room >= 3)
        if item == n.C_CRYPTID and deck_room < 2:
            return False
        return any(self.may_target(item, chosen) for chosen in _subsets(self.reach))

    def _joker_limit(self) -> int:
        return int(self.s[st.JOKER_SLOTS]) + sum(j.edition == n.NEGATIVE for j in self.jokers)

    def may_target(self, item: int, chosen: tuple[int, ...]) -> bool:
        cards = [self.hand[i] for i in chosen]
        if any(card.forced for i, card in enumerate(self.hand) if i not in chosen):
            return False  # Cerulean Bell keeps one selected
        if item == n.C_DEATH:
            return len(cards) == 2
        if item == n.C_AURA:
            return len(cards) == 1 and cards[0].edition == 0
        return 1 <= len(cards) <= (3 if item in _UP_TO_THREE else 2 if item in _UP_TO_TWO else 1)

    def order_matters(self) -> bool:
        """Return whether the order of the hand matters, or cards are out of reach of the sets."""
        first_or_product = (
            *(n.J_HANGING_CHAD, n.J_PHOTOGRAPH, n.J_BLOODSTONE, n.J_ANCIENT, n.J_IDOL, n.J_TRIBOULET),
            *(n.J_BRAINSTORM, n.J_RAISED_FIST, n.J_SHOOT_THE_MOON),
        )
        death = n.C_DEATH in self.consumables or n.C_DEATH in self.s[st.PACK : st.PACK + st.PACK_SLOTS]
        products = any(
            not c.debuffed and (c.enhancement == n.M_GLASS or c.edition == n.POLYCHROME) for c in self.hand
        )
        jokers = any(j.number in first_or_product for j in self.jokers)
        return len(self.hand) > self.reach or death or products or jokers


@cache
def _subsets(size: int) -> tuple[tuple[int, ...], ...]:
    """Return all sets of one to five of `size` cards."""
    return tuple(chosen for k in range(1, 6) for chosen in combinations(range(size), k))


@cache
def _plays(size: int) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return these sets with the index of the action that plays them."""
    return tuple((chosen, act.play_action(chosen)) for chosen in _subsets(size))


def permitted(s: Any, max_hand: int) -> set[int]:
    """Return the indices of all legal actions of a game, for hands of up to `max_hand` cards."""
    game = Position(s, max_hand)
    if game.phase == n.GAME_OVER:
        return set()
    if game.phase == n.CASHING_OUT:
        return {act.CASH_OUT}
    if game.phase == n.TARGETING:
        return {index for chosen, index in _plays(game.reach) if game.may_target(int(s[st.WAITING]), chosen)}
    legal = _use_or_sell(game)
    if game.phase == n.CHOOSING_BLIND:
        legal |= _at_the_blinds(game)
    elif game.phase == n.SELECTING_HAND:
        legal |= _with_the_hand(game)
    elif game.phase == n.SHOPPING:
        legal |= _in_the_shop(game)
    elif game.phase == n.OPENING_PACK:
        legal |= _in_a_pack(game)
    if len(game.hand) > 1 and s[st.HAND_MOVES] > 0 and game.order_matters():
        legal |= {act.MOVE_CARD + i for i in range(1, len(game.hand))}
    return legal | {act.MOVE_CARD + i for i in range(game.reach, len(game.hand)) if game.hand[i].forced}


def _use_or_sell(game: Position) -> set[int]:
    legal = {act.SELL_CONSUMABLE + k for k in range(len(game.consumables))}
    legal |= {act.USE + k for k, item in enumerate(game.consumables) if game.can_use(item, own=True)}
    legal |= {act.SELL_JOKER + i for i, joker in enumerate(game.jokers) if not joker.eternal}
    if game.s[st.JOKER_MOVES] > 0:
        legal |= {act.SWAP_JOKERS + i for i in range(len(game.jokers) - 1)}
    return legal


def _at_the_blinds(game: Position) -> set[int]:
    s = game.s
    legal = {act.TAKE_BLIND}
    if s[st.BLIND_ON_DECK] in (0, 1):
        legal.add(act.SKIP_BLIND)
    once = game.voucher(n.V_DIRECTORS_CUT) and not s[st.BOSS_REROLLED]
    if (game.voucher(n.V_RETCON) or once) and game.spendable_money >= 10:
        legal.add(act.REROLL_BOSS)
    return legal


def _with_the_hand(game: Position) -> set[int]:
    forced = {i for i, card in enumerate(game.hand) if card.forced}
    plays = {index for chosen, index in _plays(game.reach) if forced <= set(chosen)}
    return plays | ({index + 1 for index in plays} if game.s[st.DISCARDS_LEFT] > 0 else set())


def _in_the_shop(game: Position) -> set[int]:
    s = game.s
    legal = {act.NEXT_ROUND}
    base = 0 if s[st.D6] else int(s[st.REROLL_BASE])
    if s[st.FREE_REROLLS] > 0 or game.affords(base + int(s[st.REROLLS])):
        legal.add(act.REROLL)
    for k in range(st.SHOP_SLOTS):
        item = int(s[st.SHOP + k])
        if item and game.affords(game.price(k)):
            if game.fits(item, int(s[st.SHOP_EDITION + k])):
                legal.add(act.BUY + k)
            if 150 < item < n.PLAYING_CARD and game.can_use(item, own=False):
                legal.add(act.BUY_AND_USE + k)
    for k in range(st.VOUCHER_SLOTS):
        if s[st.SHOP_VOUCHER + k] and game.sale(10) <= game.spendable_money:
            legal.add(act.REDEEM + k)
    for k in range(st.BOOSTER_SLOTS):
        if s[st.SHOP_BOOSTER + k] and game.affords(game.pack_price(k)):
            legal.add(act.OPEN + k)
    return legal


def _in_a_pack(game: Position) -> set[int]:
    legal = {act.SKIP_PACK}
    for k in range(st.PACK_SLOTS):
        item = int(game.s[st.PACK + k])
        if 150 < item < n.PLAYING_CARD:
            if game.can_use(item, own=False):
                legal.add(act.PICK + k)
        elif item and game.fits(item, int(game.s[st.PACK_EDITION + k])):
            legal.add(act.PICK + k)
    return legal
