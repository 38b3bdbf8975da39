"""The shop: filling, rerolling, prices, buying, selling, and leaving."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import chance, lineup, pools, streams, tags
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import disable_boss, reached, refresh_debuffs
from ludus.games.balatro.cards import with_edition, with_enhancement
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
    """Draw the kind of item for a slot: 0 joker, 1 tarot, 2 planet, 3 playing card, 4 spectral."""
    tarots = (
        32.0 if s[st.VOUCHER + nm.V_TAROT_TYCOON] else (9.6 if s[st.VOUCHER + nm.V_TAROT_MERCHANT] else 4.0)
    )
    planets = (
        32.0 if s[st.VOUCHER + nm.V_PLANET_TYCOON] else (9.6 if s[st.VOUCHER + nm.V_PLANET_MERCHANT] else 4.0)
    )
    cards = 4.0 if s[st.VOUCHER + nm.V_MAGIC_TRICK] else 0.0
    spectrals = 2.0 if s[st.DECK] == nm.B_GHOST else 0.0
    poll = chance.uniform(s, streams.CDT) * (20.0 + tarots + planets + cards + spectrals)
    if poll <= 20:
        return 0
    if poll <= 20 + tarots:
        return 1
    if poll <= 20 + tarots + planets:
        return 2
    if poll <= 20 + tarots + planets + cards:
        return 3
    return 4


@kernel
def _playing_card(s: Any, queue: Any, enhanced: Any) -> Any:
    """Return a playing card for the shop; Illusion enhances some and gives some an edition."""
    card = chance.given(queue, chance.GIVEN_SHOP_CARD)
    if card > 0:
        return card
    enhancement = 1 + chance.below(s, streams.ENHANCEDSHO, 8) if enhanced else 0
    card = with_enhancement(pools.random_card(s, streams.FRONTSHO), enhancement)
    if s[st.VOUCHER + nm.V_ILLUSION] and chance.uniform(s, streams.ILLUSION) > 0.8:
        card = with_edition(card, pools.sure_edition(s, streams.ILLUSION))
    return card


@kernel
def fill_place(s: Any, queue: Any, k: Any) -> None:
    """Put a new item into slot k and apply the tags that change it."""
    s[st.SHOP + k] = 0
    s[st.SHOP_EDITION + k] = 0
    s[st.SHOP_STICKERS + k] = 0
    s[st.SHOP_CARD + k] = 0
    s[st.SHOP_FREE + k] = 0
    s[st.SHOP_AGE + k] = lineup.new_age(s)
    event, enhanced = streams.FROM_SHOP, False
    item = chance.given(queue, chance.GIVEN_SHOP)
    if item <= 0:
        item, event = tags.tag_makes_joker(s)
        if item > 0:
            s[st.SHOP_FREE + k] = 1
        else:
            kind = _kind_of_item(s)
            enhanced = s[st.VOUCHER + nm.V_ILLUSION] and chance.uniform(s, streams.ILLUSION) > 0.6
            if kind == 0:
                item = pools.new_joker(s, event, 0)
            elif kind == 1:
                item = pools.new_tarot(s, streams.TAROTSHO)
            elif kind == 2:
                item = pools.new_planet(s, streams.PLANETSHO)
            elif kind == 3:
                item = nm.PLAYING_CARD
            else:
                item = pools.new_spectral(s, streams.SPECTRALSHO)
    s[st.SHOP + k] = item
    if item == nm.PLAYING_CARD:
        s[st.SHOP_CARD + k] = _playing_card(s, queue, enhanced)
        s[st.SHOP_EDITION + k] = (s[st.SHOP_CARD + k] >> 10) & 7
    elif item < nm.C_FOOL:
        _finish_joker(s, queue, k, event)


@kernel
def _finish_joker(s: Any, queue: Any, k: Any, event: Any) -> None:
    """Give the joker in slot k its stickers and edition, of which one may come from a tag."""
    edition = chance.given(queue, chance.GIVEN_SHOP_EDITION)
    if edition < 0:
        edition = 0 if len(queue) > 0 else pools.new_edition(s, streams.EDITION_STREAM[event], 1.0, True)
    s[st.SHOP_EDITION + k] = edition
    stickers = chance.given(queue, chance.GIVEN_STICKERS)
    s[st.SHOP_STICKERS + k] = stickers if stickers >= 0 else pools.new_stickers(s, s[st.SHOP + k], False)
    if edition == 0:
        marked = tags.tag_marks_joker(s)
        if marked > 0:
            s[st.SHOP_EDITION + k] = marked
            s[st.SHOP_FREE + k] = 1


@kernel
def _new_booster(s: Any, queue: Any) -> Any:
    booster = chance.given(queue, chance.GIVEN_BOOSTER)
    if booster > 0:
        return booster
    if s[st.FIRST_SHOP]:
        return _BUFFOON_PACK  # without a draw
    poll = chance.uniform(s, streams.SHOP_PACK) * BOOSTER_WEIGHT[len(BOOSTER_WEIGHT) - 1]
    for b in range(1, len(BOOSTER_WEIGHT)):
        if poll <= BOOSTER_WEIGHT[b]:
            return b
    return 1


@kernel
def open_shop(s: Any, queue: Any) -> None:
    """Fill the shop; the first shop of a run has a Buffoon Pack."""
    for k in range(st.VOUCHER_SLOTS):
        s[st.SHOP_VOUCHER + k] = 0
    s[st.SHOP_VOUCHER] = s[st.ANTE_VOUCHER]
    for _ in range(tags.tags_at_shop(s)):
        for k in range(1, st.VOUCHER_SLOTS):
            if s[st.SHOP_VOUCHER + k] == 0:
                s[st.SHOP_VOUCHER + k] = next_voucher(s, queue, streams.VOUCHER_FROMTAG)
                break
    for k in range(shop_size(s)):
        fill_place(s, queue, k)
    for k in range(st.BOOSTER_SLOTS):
        s[st.SHOP_BOOSTER + k] = _new_booster(s, queue)
        s[st.BOOSTER_FREE + k] = 0
        s[st.FIRST_SHOP] = 0
    if tags.tags_make_all_free(s):
        for k in range(st.SHOP_SLOTS):
            s[st.SHOP_FREE + k] = 1
        for k in range(st.BOOSTER_SLOTS):
            s[st.BOOSTER_FREE + k] = 1
    s[st.PHASE] = nm.SHOPPING


@kernel
def fill_new_places(s: Any, queue: Any) -> None:
    """Fill the empty slots after Overstock was redeemed: the new one, and those already bought."""
    for k in range(shop_size(s)):
        if s[st.SHOP + k] == 0:
            fill_place(s, queue, k)


@kernel
def reroll(s: Any, f: Any, queue: Any) -> None:
    """Pay for new items in all slots of the shop."""
    s[st.MONEY] -= reroll_cost(s)
    if s[st.FREE_REROLLS] > 0:
        s[st.FREE_REROLLS] -= 1
    else:
        s[st.REROLLS] += 1
    for k in range(st.SHOP_SLOTS):
        s[st.SHOP + k] = 0
    for k in range(shop_size(s)):
        fill_place(s, queue, k)
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_FLASH and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 2.0


@kernel
def buy(s: Any, f: Any, queue: Any, k: Any) -> None:
    """Buy the item in slot k. The caller checks that it is affordable and that there is room."""
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
        at = add_joker(s, f, queue, item, edition, stickers)
        if at >= 0:
            s[st.J_AGE + at] = s[st.SHOP_AGE + k]
    elif lineup.add_consumable(s, item, edition):
        s[st.C_AGE + s[st.N_CONSUMABLES] - 1] = s[st.SHOP_AGE + k]


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
def sell_joker(s: Any, f: Any, queue: Any, i: Any) -> None:
    """Sell a joker and apply its effect on being sold."""
    at = lineup.acting(s, i)
    acts_as = s[st.JOKER + at] if at >= 0 else 0
    ready = (
        acts_as == nm.J_INVISIBLE
        and at == i
        and s[st.J_COUNT + i] >= 2
        and s[st.N_JOKERS] <= lineup.joker_limit(s)
    )
    s[st.MONEY] += lineup.joker_sell_value(s, i)
    remove_joker(s, f, queue, i)
    _card_sold(s, f)
    if acts_as == nm.J_LUCHADOR or s[st.BLIND] == nm.BL_FINAL_LEAF:
        disable_boss(s, f, queue)
    refresh_debuffs(s)
    if acts_as == nm.J_DIET_COLA:
        tags.add_tag(s, nm.TAG_DOUBLE, 0)
    elif ready and s[st.N_JOKERS] > 0:
        n = s[st.N_JOKERS]
        chosen = lineup.pick_by_age(s, queue, streams.INVISIBLE, st.J_AGE, (1 << n) - 1, n)
        copy = duplicate_joker(s, f, queue, chosen, False)
        if copy >= 0 and s[st.JOKER + copy] == nm.J_INVISIBLE:
            s[st.J_COUNT + copy] = 0
    if s[st.PHASE] == nm.SELECTING_HAND and reached(f[st.CHIPS], f[st.TARGET]):
        end_round(s, f, queue)  # disabling The Wall or Violet Vessel lowers the target


@kernel
def leave_shop(s: Any, queue: Any) -> None:
    """Empty the shop. Perkeo copies a consumable."""
    for i in range(s[st.N_JOKERS]):
        at = lineup.acting(s, i)
        if at >= 0 and s[st.JOKER + at] == nm.J_PERKEO and s[st.N_CONSUMABLES] > 0:
            n = s[st.N_CONSUMABLES]
            chosen = lineup.pick_by_age(s, queue, streams.PERKEO, st.C_AGE, (1 << n) - 1, n)
            if lineup.add_consumable(s, s[st.CONSUMABLE + chosen], nm.NEGATIVE):
                s[st.C_EXTRA + s[st.N_CONSUMABLES] - 1] = s[st.C_EXTRA + chosen]
    for k in range(st.SHOP_SLOTS):
        s[st.SHOP + k] = 0
    for k in range(st.VOUCHER_SLOTS):
        s[st.SHOP_VOUCHER + k] = 0
    for k in range(st.BOOSTER_SLOTS):
        s[st.SHOP_BOOSTER + k] = 0
    s[st.D6] = 0
