"""Contents of a seed: bosses, vouchers, tags, shops, packs and deck orders, read from the engine without playing.

The explorer passes every blind without a hand and visits the shops as its caller asks. It uses the same rules as a
game, so what it shows is what a player of that seed meets who makes the same choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import cards, chance, facts, jokers, pools, runs, shop, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import for_python, kernel
from ludus.games.balatro.engine import apply, begin
from ludus.games.balatro.env import NO_LOG, NO_QUEUE
from ludus.games.balatro.rounds import new_targets
from ludus.games.balatro.seeds import seed_code

_RICH = 1_000_000
_SUIT_LETTERS, _RANK_LETTERS = "SHCD", "23456789TJQKA"
_EDITION_KEYS = ("", "e_foil", "e_holo", "e_polychrome", "e_negative")
_ENHANCEMENT_KEYS = ("", *(f"m_{name.lower()}" for name in facts.ENHANCEMENTS[1:]))
# the events of `SeedExplorer.effect`, in the order of `_create`
EFFECTS = (
    *("judgement", "wraith", "soul", "rare_tag", "uncommon_tag", "emperor", "purple_seal_and_8_ball"),
    *("hallucination", "cartomancer", "vagabond", "superposition", "high_priestess", "sixth_sense", "seance"),
)


@kernel
def _pass_blind(s: Any, f: Any, queue: Any) -> None:
    """Beat the blind on deck without playing it, and open the shop."""
    if s[st.BLIND_ON_DECK] == 2:
        s[st.ANTE] += 1
        chance.forget_old_antes(s)
    new_targets(s, queue, False)
    s[st.PAYOUT] = 0
    runs.cash_out(s, f, queue)


@kernel
def _deal(s: Any) -> None:
    """Shuffle the draw pile as for the blind on deck."""
    cards.collect_cards(s)
    cards.shuffle_draw_pile(s, streams.NR)
    chance.shuffle_up_to(s, 0)


@kernel
def _create(s: Any, f: Any, queue: Any, effect: Any) -> None:
    """Create what an effect of `EFFECTS` creates."""
    if effect == 0:
        jokers.create_joker(s, f, queue, streams.FROM_JUDGEMENT, 0)
    elif effect == 1:
        jokers.create_joker(s, f, queue, streams.FROM_WRAITH, 3)
    elif effect == 2:
        jokers.create_joker(s, f, queue, streams.FROM_SOUL, 4)
    elif effect <= 4:
        s[st.TAG] = nm.TAG_RARE if effect == 3 else nm.TAG_UNCOMMON
        s[st.N_TAGS] = 1
        shop.fill_place(s, queue, 0)
        shop.buy(s, f, queue, 0)
    elif effect == 5:
        pools.create_tarot(s, queue, streams.TAROTEMP)
    elif effect == 6:
        pools.create_tarot(s, queue, streams.TAROT8BA)
    elif effect == 7:
        pools.create_tarot(s, queue, streams.TAROTHAL)
    elif effect == 8:
        pools.create_tarot(s, queue, streams.TAROTCAR)
    elif effect == 9:
        pools.create_tarot(s, queue, streams.TAROTVAG)
    elif effect == 10:
        pools.create_tarot(s, queue, streams.TAROTSUP)
    elif effect == 11:
        pools.create_planet(s, queue, streams.PLANETPRI)
    elif effect == 12:
        pools.create_spectral(s, queue, streams.SPECTRALSIXTH)
    else:
        pools.create_spectral(s, queue, streams.SPECTRALSEA)


@kernel
def _explore(s: Any, f: Any, queue: Any, what: Any) -> None:
    """Pass the blind (-1), deal its cards (-2) or create what an effect creates (0 and above)."""
    if what == -1:
        _pass_blind(s, f, queue)
    elif what == -2:
        _deal(s)
    else:
        _create(s, f, queue, what)


_explore_entry = for_python(_explore)


class SeedExplorer:
    """A game of one seed that is walked through without playing hands."""

    def __init__(self, seed: int | str, deck: int = 0, stake: int = 1) -> None:
        self._code, self._deck, self._stake = seed_code(seed), deck, stake
        self._games = st.Games.empty(1)
        self.s, self.f = self._games.s[0], self._games.f[0]
        self.restart()

    def restart(self) -> None:
        """Go back to the start of the run."""
        begin(self.s, self.f, NO_QUEUE, self._code, self._deck, self._stake, 0)

    def numbers(self, stream: int, count: int) -> list[float]:
        """Return the next numbers of a stream."""
        out = np.zeros(count)
        chance.draw_numbers(self.s, stream, out)
        return [float(number) for number in out]

    def forget_draws(self) -> None:
        """Set every stream back to its start."""
        self.s[st.STREAMS :] = 0

    def drop_consumables(self) -> None:
        """Remove the consumables that the deck begins with."""
        self.s[st.CONSUMABLE : st.CONSUMABLE + st.MAX_CONSUMABLES] = 0
        self.s[st.N_CONSUMABLES] = 0

    def ante(self) -> int:
        return int(self.s[st.ANTE])

    def boss(self) -> str:
        return facts.BLIND_KEYS[int(self.s[st.BOSS])]

    def voucher(self) -> str:
        """Return the voucher of the ante; "" once it was redeemed."""
        return facts.VOUCHER_KEYS.get(int(self.s[st.ANTE_VOUCHER]), "")

    def tags(self) -> list[str]:
        """Return the tags of the small and the big blind."""
        return [facts.TAG_KEYS[int(tag)] for tag in self.s[st.BLIND_TAG : st.BLIND_TAG + 2]]

    def deck_order(self) -> list[str]:
        """Return the cards in the order in which the blind on deck would draw them. The shuffle counts as done."""
        saved = self._games.copy()
        _explore_entry(self.s, self.f, NO_QUEUE, -2)
        pile = self.s[st.DRAW_PILE : st.DRAW_PILE + int(self.s[st.N_DRAW])]
        order = [card_text(int(self.s[st.CARD + slot])) for slot in reversed(pile)]
        drawn = self.s[st.STREAMS :].copy()
        self._games.put_back(saved)
        self.s[st.STREAMS :] = drawn
        return order

    def next_shop(self) -> None:
        """Leave the shop, if one is open, pass the next blind and enter its shop."""
        if self.s[st.PHASE] == nm.SHOPPING:
            self._do(act.NEXT_ROUND)
        _explore_entry(self.s, self.f, NO_QUEUE, -1)

    def shelf(self) -> list[dict[str, Any]]:
        """Return the items of the shop."""
        return [
            self._described(st.SHOP, st.SHOP_EDITION, st.SHOP_STICKERS, st.SHOP_CARD, k)
            for k in range(st.SHOP_SLOTS)
            if self.s[st.SHOP + k]
        ]

    def reroll(self) -> list[dict[str, Any]]:
        """Reroll the shop and return its items."""
        self._do(act.REROLL)
        return self.shelf()

    def buy(self, k: int) -> None:
        self._do(act.BUY + k)

    def redeem(self) -> None:
        """Redeem the voucher of the shop."""
        self._do(act.REDEEM)

    def packs(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Open the packs of the shop in order and skip them; give the key and the contents of each."""
        for k in range(st.BOOSTER_SLOTS):
            booster = int(self.s[st.SHOP_BOOSTER + k])
            if booster:
                room, self.s[st.CONSUMABLE_SLOTS] = (
                    int(self.s[st.CONSUMABLE_SLOTS]),
                    0,
                )  # no tarot by Hallucination
                self._do(act.OPEN + k)
                self.s[st.CONSUMABLE_SLOTS] = room
                contents = [
                    self._described(st.PACK, st.PACK_EDITION, st.PACK_STICKERS, st.PACK_CARD, i)
                    for i in range(st.PACK_SLOTS)
                    if self.s[st.PACK + i]
                ]
                self._do(act.SKIP_PACK)
                yield facts.BOOSTER_KEYS[booster], contents

    def effect(self, name: str) -> dict[str, Any]:
        """Create what an effect of `EFFECTS` creates, and return it; the item is held from then on."""
        self.s[st.CONSUMABLE_SLOTS] = st.MAX_CONSUMABLES
        before = int(self.s[st.N_JOKERS])
        _explore_entry(self.s, self.f, NO_QUEUE, EFFECTS.index(name))
        if self.s[st.N_JOKERS] > before:
            return self._described(st.JOKER, st.J_EDITION, st.J_STICKERS, st.JOKER, before)
        last = int(self.s[st.N_CONSUMABLES]) - 1
        return {"key": facts.ITEM_KEYS[int(self.s[st.CONSUMABLE + last])]}

    def _do(self, action: int) -> None:
        self.s[st.MONEY] = _RICH
        apply(self.s, self.f, NO_QUEUE, NO_LOG, action)

    def _described(self, items: int, editions: int, stickers: int, playing: int, k: int) -> dict[str, Any]:
        item = int(self.s[items + k])
        if item == nm.PLAYING_CARD:
            return describe_card(int(self.s[playing + k]))
        row: dict[str, Any] = {"key": facts.ITEM_KEYS[item]}
        marks = int(self.s[stickers + k])
        for name, bit in (("eternal", st.ETERNAL), ("perishable", st.PERISHABLE), ("rental", st.RENTAL)):
            if marks & bit:
                row[name] = True
        if self.s[editions + k]:
            row["edition"] = _EDITION_KEYS[int(self.s[editions + k])]
        return row


def card_text(card: int) -> str:
    """Return a packed card as suit and rank, such as H_T."""
    return f"{_SUIT_LETTERS[card >> 4 & 3]}_{_RANK_LETTERS[(card & 15) - 2]}"


def describe_card(card: int) -> dict[str, Any]:
    """Return a playing card with what it has besides rank and suit."""
    row = {"key": card_text(card)}
    enhancement, edition, seal = int(card >> 6 & 15), int(card >> 10 & 7), int(card >> 13 & 7)
    if enhancement:
        row["enhancement"] = _ENHANCEMENT_KEYS[enhancement]
    if edition:
        row["edition"] = _EDITION_KEYS[edition]
    if seal:
        row["seal"] = facts.SEALS[seal]
    return row
