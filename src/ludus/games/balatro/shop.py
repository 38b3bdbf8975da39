"""The shop: filling it, rerolling, prices of packs, buying, selling, and leaving."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import chance, lineup, pools, tags
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import disable_boss, refresh_debuffs
from ludus.games.balatro.cards import with_edition
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.facts import BOOSTER_COST, BOOSTER_KIND, BOOSTER_WEIGHT
from ludus.games.balatro.jokers import add_joker, duplicate_joker, remove_joker
from ludus.games.balatro.packs import add_to_deck
from ludus.games.balatro.rounds import end_round
from ludus.games.balatro.vouchers import next_voucher

_BUFFOON_PACK = 25


@kernel
def shop_size(s: Any) -> Any:
    return 2 + s[st.VOUCHER + nm.V_OVERSTOCK_NORM] + s[st.VOUCHER + nm.V_OVERSTOCK_PLUS]


@entry
def reroll_cost(s: Any) -> Any:
    if s[st.FREE_REROLLS] > 0:
        return 0
    return (0 if s[st.D6] else s[st.REROLL_BASE]) + s[st.REROLLS]


@entry
def booster_price(s: Any, k: Any) -> Any:
    booster = s[st.SHOP_BOOSTER + k]
    if s[st.BOOSTER_FREE + k]:
        return 0
    if BOOSTER_KIND[booster] == nm.CELESTIAL and lineup.count_joker(s, nm.J_ASTRONOMER) > 0:
        return 0
    return lineup.discounted(s, BOOSTER_COST[booster])


@entry
def voucher_price(s: Any) -> Any:
    return lineup.discounted(s, 10)


@entry
def shop_price(s: Any, k: Any) -> Any:
    if s[st.SHOP_FREE + k]:
        return 0
    return lineup.price(s, s[st.SHOP + k], s[st.SHOP_EDITION + k], s[st.SHOP_STICKERS + k])


@kernel
def _kind_of_item(s: Any) -> Any:
    """Which kind stands in a place: 0 joker, 1 tarot, 2 planet, 3 playing card, 4 spectral."""
    tarots = (
        32.0 if s[st.VOUCHER + nm.V_TAROT_TYCOON] else (9.6 if s[st.VOUCHER + nm.V_TAROT_MERCHANT] else 4.0)
    )
    planets = (
        32.0 if s[st.VOUCHER + nm.V_PLANET_TYCOON] else (9.6 if s[st.VOUCHER + nm.V_PLANET_MERCHANT] else 4.0)
    )
    cards = 4.0 if s[st.VOUCHER + nm.V_MAGIC_TRICK] else 0.0
    spectrals = 2.0 if s[st.DECK] == nm.B_GHOST else 0.0
    poll = chance.uniform(s) * (20.0 + tarots + planets + cards + spectrals)
    if poll < 20:
        return 0
    if poll < 20 + tarots:
        return 1
    if poll < 20 + tarots + planets:
        return 2
    if poll < 20 + tarots + planets + cards:
        return 3
    return 4


@kernel
def _playing_card(s: Any, q: Any) -> Any:
    """A playing card of the shop; Illusion enhances some and gives some an edition."""
    card = chance.given(q, chance.GIVEN_SHOP_CARD)
    if card > 0:
        return card
    illusion = s[st.VOUCHER + nm.V_ILLUSION]
    card = pools.random_card(s, illusion and chance.uniform(s) > 0.6)
    if illusion and chance.uniform(s) > 0.8:
        poll = chance.uniform(s)
        card = with_edition(
            card, nm.POLYCHROME if poll > 0.85 else (nm.HOLOGRAPHIC if poll > 0.5 else nm.FOIL)
        )
    return card


@kernel
def _fill_place(s: Any, q: Any, k: Any) -> None:
    """Puts a new item into place k, with the tags that wait for one."""
    s[st.SHOP + k] = 0
    s[st.SHOP_EDITION + k] = 0
    s[st.SHOP_STICKERS + k] = 0
    s[st.SHOP_CARD + k] = 0
    s[st.SHOP_FREE + k] = 0
    item = chance.given(q, chance.GIVEN_SHOP)
    if item <= 0:
        item = tags.tag_makes_joker(s)
        if item > 0:
            s[st.SHOP_FREE + k] = 1
        else:
            kind = _kind_of_item(s)
            if kind == 0:
                item = pools.new_joker(s, 0)
            elif kind == 1:
                item = pools.new_tarot(s)
            elif kind == 2:
                item = pools.new_planet(s)
            elif kind == 3:
                item = nm.PLAYING_CARD
            else:
                item = pools.new_spectral(s)
    s[st.SHOP + k] = item
    if item == nm.PLAYING_CARD:
        s[st.SHOP_CARD + k] = _playing_card(s, q)
        s[st.SHOP_EDITION + k] = (s[st.SHOP_CARD + k] >> 10) & 7
    elif item < nm.C_FOOL:
        edition = chance.given(q, chance.GIVEN_SHOP_EDITION)
        s[st.SHOP_EDITION + k] = (
            edition if edition >= 0 else (0 if len(q) > 0 else pools.new_edition(s, 1.0, True))
        )
        stickers = chance.given(q, chance.GIVEN_STICKERS)
        s[st.SHOP_STICKERS + k] = stickers if stickers >= 0 else pools.new_stickers(s, item)
        if s[st.SHOP_EDITION + k] == 0:
            marked = tags.tag_marks_joker(s)
            if marked > 0:
                s[st.SHOP_EDITION + k] = marked
                s[st.SHOP_FREE + k] = 1


@kernel
def _new_booster(s: Any, q: Any) -> Any:
    booster = chance.given(q, chance.GIVEN_BOOSTER)
    if booster > 0:
        return booster
    if s[st.FIRST_SHOP]:
        return _BUFFOON_PACK + chance.below(s, 2)
    poll = chance.uniform(s) * BOOSTER_WEIGHT[len(BOOSTER_WEIGHT) - 1]
    for b in range(1, len(BOOSTER_WEIGHT)):
        if poll < BOOSTER_WEIGHT[b]:
            return b
    return 1


@kernel
def open_shop(s: Any, q: Any) -> None:
    """Fills the shop; the first of a run has a Buffoon Pack."""
    for k in range(st.VOUCHER_SLOTS):
        s[st.SHOP_VOUCHER + k] = 0
    s[st.SHOP_VOUCHER] = s[st.ANTE_VOUCHER]
    for _ in range(tags.tags_at_shop(s)):
        for k in range(1, st.VOUCHER_SLOTS):
            if s[st.SHOP_VOUCHER + k] == 0:
                s[st.SHOP_VOUCHER + k] = next_voucher(s, q)
                break
    for k in range(shop_size(s)):
        _fill_place(s, q, k)
    for k in range(st.BOOSTER_SLOTS):
        s[st.SHOP_BOOSTER + k] = _new_booster(s, q)
        s[st.BOOSTER_FREE + k] = 0
        s[st.FIRST_SHOP] = 0
    if tags.tags_make_all_free(s):
        for k in range(st.SHOP_SLOTS):
            s[st.SHOP_FREE + k] = 1
        for k in range(st.BOOSTER_SLOTS):
            s[st.BOOSTER_FREE + k] = 1
    s[st.PHASE] = nm.SHOPPING


@kernel
def fill_new_places(s: Any, q: Any) -> None:
    """Overstock was redeemed: its place is filled at once, and with it those that were bought empty."""
    for k in range(shop_size(s)):
        if s[st.SHOP + k] == 0:
            _fill_place(s, q, k)


@kernel
def reroll(s: Any, f: Any, q: Any) -> None:
    """New items for all places of the shop, against money."""
    s[st.MONEY] -= reroll_cost(s)
    if s[st.FREE_REROLLS] > 0:
        s[st.FREE_REROLLS] -= 1
    else:
        s[st.REROLLS] += 1
    for k in range(st.SHOP_SLOTS):
        s[st.SHOP + k] = 0
    for k in range(shop_size(s)):
        _fill_place(s, q, k)
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_FLASH and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 2.0


@kernel
def buy(s: Any, f: Any, q: Any, k: Any) -> None:
    """Takes the item in place k, as `can_buy` allows."""
    s[st.MONEY] -= shop_price(s, k)
    item, edition, stickers, card = (
        s[st.SHOP + k],
        s[st.SHOP_EDITION + k],
        s[st.SHOP_STICKERS + k],
        s[st.SHOP_CARD + k],
    )
    s[st.SHOP + k] = 0
    if item == nm.PLAYING_CARD:
        add_to_deck(s, f, card)
    elif item < nm.C_FOOL:
        add_joker(s, f, q, item, edition, stickers)
    else:
        lineup.add_consumable(s, item, edition)


@kernel
def _card_sold(s: Any, f: Any) -> None:
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_CAMPFIRE and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 0.25


@kernel
def sell_consumable(s: Any, f: Any, i: Any) -> None:
    s[st.MONEY] += lineup.consumable_sell_value(s, i)
    lineup.take_consumable(s, i)
    _card_sold(s, f)


@kernel
def sell_joker(s: Any, f: Any, q: Any, i: Any) -> None:
    """Sells a joker; some do something as they go."""
    at = lineup.acting(s, i)
    acts_as = s[st.JOKER + at] if at >= 0 else 0
    ready = (
        acts_as == nm.J_INVISIBLE
        and at == i
        and s[st.J_COUNT + i] >= 2
        and s[st.N_JOKERS] <= lineup.joker_limit(s)
    )
    s[st.MONEY] += lineup.joker_sell_value(s, i)
    remove_joker(s, f, q, i)
    _card_sold(s, f)
    if acts_as == nm.J_LUCHADOR or s[st.BLIND] == nm.BL_FINAL_LEAF:
        disable_boss(s, f, q)
    refresh_debuffs(s)
    if acts_as == nm.J_DIET_COLA:
        tags.add_tag(s, nm.TAG_DOUBLE, 0)
    elif ready and s[st.N_JOKERS] > 0:
        chosen = chance.position(s, q, s[st.N_JOKERS])
        copy = duplicate_joker(s, f, q, chosen, False)
        if copy >= 0 and s[st.JOKER + copy] == nm.J_INVISIBLE:
            s[st.J_COUNT + copy] = 0
    if s[st.PHASE] == nm.SELECTING_HAND and f[st.CHIPS] >= f[st.TARGET]:
        end_round(s, f, q)  # a disabled Wall or Violet Vessel may be beaten already


@kernel
def leave_shop(s: Any, q: Any) -> None:
    """Empties the shop; Perkeo copies a consumable."""
    for i in range(s[st.N_JOKERS]):
        at = lineup.acting(s, i)
        if at >= 0 and s[st.JOKER + at] == nm.J_PERKEO and s[st.N_CONSUMABLES] > 0:
            chosen = chance.position(s, q, s[st.N_CONSUMABLES])
            if lineup.add_consumable(s, s[st.CONSUMABLE + chosen], nm.NEGATIVE):
                s[st.C_EXTRA + s[st.N_CONSUMABLES] - 1] = s[st.C_EXTRA + chosen]
    for k in range(st.SHOP_SLOTS):
        s[st.SHOP + k] = 0
    for k in range(st.VOUCHER_SLOTS):
        s[st.SHOP_VOUCHER + k] = 0
    for k in range(st.BOOSTER_SLOTS):
        s[st.SHOP_BOOSTER + k] = 0
    s[st.D6] = 0
