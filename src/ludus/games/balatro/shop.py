"""The shop: filling it, rerolling, prices of packs, buying, selling, and leaving."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.bosses import disable_boss, refresh_debuffs
from ludus.games.balatro.cards import with_edition
from ludus.games.balatro.chance import (
    GIVEN_BOOSTER,
    GIVEN_SHOP,
    GIVEN_SHOP_CARD,
    GIVEN_SHOP_EDITION,
    GIVEN_STICKERS,
    below,
    given,
    position,
    uniform,
)
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.facts import BOOSTER_COST, BOOSTER_KIND, BOOSTER_WEIGHT
from ludus.games.balatro.jokers import add_joker, duplicate_joker, remove_joker
from ludus.games.balatro.lineup import (
    acting,
    add_consumable,
    consumable_sell_value,
    count_joker,
    discounted,
    joker_limit,
    joker_sell_value,
    price,
    take_consumable,
)
from ludus.games.balatro.names import (
    B_GHOST,
    BL_FINAL_LEAF,
    C_FOOL,
    CELESTIAL,
    FOIL,
    HOLOGRAPHIC,
    J_ASTRONOMER,
    J_CAMPFIRE,
    J_DIET_COLA,
    J_FLASH,
    J_INVISIBLE,
    J_LUCHADOR,
    J_PERKEO,
    NEGATIVE,
    PLAYING_CARD,
    POLYCHROME,
    SELECTING_HAND,
    SHOPPING,
    TAG_DOUBLE,
    V_ILLUSION,
    V_MAGIC_TRICK,
    V_OVERSTOCK_NORM,
    V_OVERSTOCK_PLUS,
    V_PLANET_MERCHANT,
    V_PLANET_TYCOON,
    V_TAROT_MERCHANT,
    V_TAROT_TYCOON,
)
from ludus.games.balatro.packs import add_to_deck
from ludus.games.balatro.pools import (
    new_edition,
    new_joker,
    new_planet,
    new_spectral,
    new_stickers,
    new_tarot,
    random_card,
)
from ludus.games.balatro.rounds import end_round
from ludus.games.balatro.state import (
    ANTE_VOUCHER,
    BLIND,
    BOOSTER_FREE,
    BOOSTER_SLOTS,
    C_EXTRA,
    CHIPS,
    CONSUMABLE,
    D6,
    DEBUFFED,
    DECK,
    FIRST_SHOP,
    FREE_REROLLS,
    J_COUNT,
    J_STICKERS,
    J_VALUE,
    JOKER,
    MONEY,
    N_CONSUMABLES,
    N_JOKERS,
    PHASE,
    REROLL_BASE,
    REROLLS,
    SHOP,
    SHOP_BOOSTER,
    SHOP_CARD,
    SHOP_EDITION,
    SHOP_FREE,
    SHOP_SLOTS,
    SHOP_STICKERS,
    SHOP_VOUCHER,
    TARGET,
    VOUCHER,
    VOUCHER_SLOTS,
)
from ludus.games.balatro.tags import (
    add_tag,
    tag_makes_joker,
    tag_marks_joker,
    tags_at_shop,
    tags_make_all_free,
)
from ludus.games.balatro.vouchers import next_voucher

_BUFFOON_PACK = 25


@kernel
def shop_size(s: Any) -> Any:
    return 2 + s[VOUCHER + V_OVERSTOCK_NORM] + s[VOUCHER + V_OVERSTOCK_PLUS]


@entry
def reroll_cost(s: Any) -> Any:
    if s[FREE_REROLLS] > 0:
        return 0
    return (0 if s[D6] else s[REROLL_BASE]) + s[REROLLS]


@entry
def booster_price(s: Any, k: Any) -> Any:
    booster = s[SHOP_BOOSTER + k]
    if s[BOOSTER_FREE + k]:
        return 0
    if BOOSTER_KIND[booster] == CELESTIAL and count_joker(s, J_ASTRONOMER) > 0:
        return 0
    return discounted(s, BOOSTER_COST[booster])


@entry
def voucher_price(s: Any) -> Any:
    return discounted(s, 10)


@entry
def shop_price(s: Any, k: Any) -> Any:
    if s[SHOP_FREE + k]:
        return 0
    return price(s, s[SHOP + k], s[SHOP_EDITION + k], s[SHOP_STICKERS + k])


@kernel
def _kind_of_item(s: Any) -> Any:
    """Which kind stands in a place: 0 joker, 1 tarot, 2 planet, 3 playing card, 4 spectral."""
    tarots = 32.0 if s[VOUCHER + V_TAROT_TYCOON] else (9.6 if s[VOUCHER + V_TAROT_MERCHANT] else 4.0)
    planets = 32.0 if s[VOUCHER + V_PLANET_TYCOON] else (9.6 if s[VOUCHER + V_PLANET_MERCHANT] else 4.0)
    cards = 4.0 if s[VOUCHER + V_MAGIC_TRICK] else 0.0
    spectrals = 2.0 if s[DECK] == B_GHOST else 0.0
    poll = uniform(s) * (20.0 + tarots + planets + cards + spectrals)
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
    card = given(q, GIVEN_SHOP_CARD)
    if card > 0:
        return card
    illusion = s[VOUCHER + V_ILLUSION]
    card = random_card(s, illusion and uniform(s) > 0.6)
    if illusion and uniform(s) > 0.8:
        poll = uniform(s)
        card = with_edition(card, POLYCHROME if poll > 0.85 else (HOLOGRAPHIC if poll > 0.5 else FOIL))
    return card


@kernel
def _fill_place(s: Any, q: Any, k: Any) -> None:
    """Puts a new item into place k, with the tags that wait for one."""
    s[SHOP + k] = 0
    s[SHOP_EDITION + k] = 0
    s[SHOP_STICKERS + k] = 0
    s[SHOP_CARD + k] = 0
    s[SHOP_FREE + k] = 0
    item = given(q, GIVEN_SHOP)
    if item <= 0:
        item = tag_makes_joker(s)
        if item > 0:
            s[SHOP_FREE + k] = 1
        else:
            kind = _kind_of_item(s)
            if kind == 0:
                item = new_joker(s, 0)
            elif kind == 1:
                item = new_tarot(s)
            elif kind == 2:
                item = new_planet(s)
            elif kind == 3:
                item = PLAYING_CARD
            else:
                item = new_spectral(s)
    s[SHOP + k] = item
    if item == PLAYING_CARD:
        s[SHOP_CARD + k] = _playing_card(s, q)
        s[SHOP_EDITION + k] = (s[SHOP_CARD + k] >> 10) & 7
    elif item < C_FOOL:
        edition = given(q, GIVEN_SHOP_EDITION)
        s[SHOP_EDITION + k] = edition if edition >= 0 else (0 if len(q) > 0 else new_edition(s, 1.0, True))
        stickers = given(q, GIVEN_STICKERS)
        s[SHOP_STICKERS + k] = stickers if stickers >= 0 else new_stickers(s, item)
        if s[SHOP_EDITION + k] == 0:
            marked = tag_marks_joker(s)
            if marked > 0:
                s[SHOP_EDITION + k] = marked
                s[SHOP_FREE + k] = 1


@kernel
def _new_booster(s: Any, q: Any) -> Any:
    booster = given(q, GIVEN_BOOSTER)
    if booster > 0:
        return booster
    if s[FIRST_SHOP]:
        return _BUFFOON_PACK + below(s, 2)
    poll = uniform(s) * BOOSTER_WEIGHT[len(BOOSTER_WEIGHT) - 1]
    for b in range(1, len(BOOSTER_WEIGHT)):
        if poll < BOOSTER_WEIGHT[b]:
            return b
    return 1


@kernel
def open_shop(s: Any, q: Any) -> None:
    """Fills the shop; the first of a run has a Buffoon Pack."""
    for k in range(VOUCHER_SLOTS):
        s[SHOP_VOUCHER + k] = 0
    s[SHOP_VOUCHER] = s[ANTE_VOUCHER]
    for _ in range(tags_at_shop(s)):
        for k in range(1, VOUCHER_SLOTS):
            if s[SHOP_VOUCHER + k] == 0:
                s[SHOP_VOUCHER + k] = next_voucher(s, q)
                break
    for k in range(shop_size(s)):
        _fill_place(s, q, k)
    for k in range(BOOSTER_SLOTS):
        s[SHOP_BOOSTER + k] = _new_booster(s, q)
        s[BOOSTER_FREE + k] = 0
        s[FIRST_SHOP] = 0
    if tags_make_all_free(s):
        for k in range(SHOP_SLOTS):
            s[SHOP_FREE + k] = 1
        for k in range(BOOSTER_SLOTS):
            s[BOOSTER_FREE + k] = 1
    s[PHASE] = SHOPPING


@kernel
def fill_new_places(s: Any, q: Any) -> None:
    """Overstock was redeemed: its place is filled at once, and with it those that were bought empty."""
    for k in range(shop_size(s)):
        if s[SHOP + k] == 0:
            _fill_place(s, q, k)


@kernel
def reroll(s: Any, f: Any, q: Any) -> None:
    """New items for all places of the shop, against money."""
    s[MONEY] -= reroll_cost(s)
    if s[FREE_REROLLS] > 0:
        s[FREE_REROLLS] -= 1
    else:
        s[REROLLS] += 1
    for k in range(SHOP_SLOTS):
        s[SHOP + k] = 0
    for k in range(shop_size(s)):
        _fill_place(s, q, k)
    for i in range(s[N_JOKERS]):
        if s[JOKER + i] == J_FLASH and not s[J_STICKERS + i] & DEBUFFED:
            f[J_VALUE + i] += 2.0


@kernel
def buy(s: Any, f: Any, q: Any, k: Any) -> None:
    """Takes the item in place k, as `can_buy` allows."""
    s[MONEY] -= shop_price(s, k)
    item, edition, stickers, card = s[SHOP + k], s[SHOP_EDITION + k], s[SHOP_STICKERS + k], s[SHOP_CARD + k]
    s[SHOP + k] = 0
    if item == PLAYING_CARD:
        add_to_deck(s, f, card)
    elif item < C_FOOL:
        add_joker(s, f, q, item, edition, stickers)
    else:
        add_consumable(s, item, edition)


@kernel
def _card_sold(s: Any, f: Any) -> None:
    for i in range(s[N_JOKERS]):
        if s[JOKER + i] == J_CAMPFIRE and not s[J_STICKERS + i] & DEBUFFED:
            f[J_VALUE + i] += 0.25


@kernel
def sell_consumable(s: Any, f: Any, i: Any) -> None:
    s[MONEY] += consumable_sell_value(s, i)
    take_consumable(s, i)
    _card_sold(s, f)


@kernel
def sell_joker(s: Any, f: Any, q: Any, i: Any) -> None:
    """Sells a joker; some do something as they go."""
    at = acting(s, i)
    acts_as = s[JOKER + at] if at >= 0 else 0
    ready = acts_as == J_INVISIBLE and at == i and s[J_COUNT + i] >= 2 and s[N_JOKERS] <= joker_limit(s)
    s[MONEY] += joker_sell_value(s, i)
    remove_joker(s, f, q, i)
    _card_sold(s, f)
    if acts_as == J_LUCHADOR or s[BLIND] == BL_FINAL_LEAF:
        disable_boss(s, f, q)
    refresh_debuffs(s)
    if acts_as == J_DIET_COLA:
        add_tag(s, TAG_DOUBLE, 0)
    elif ready and s[N_JOKERS] > 0:
        chosen = position(s, q, s[N_JOKERS])
        copy = duplicate_joker(s, f, q, chosen, False)
        if copy >= 0 and s[JOKER + copy] == J_INVISIBLE:
            s[J_COUNT + copy] = 0
    if s[PHASE] == SELECTING_HAND and f[CHIPS] >= f[TARGET]:
        end_round(s, f, q)  # a disabled Wall or Violet Vessel may be beaten already


@kernel
def leave_shop(s: Any, q: Any) -> None:
    """Empties the shop; Perkeo copies a consumable."""
    for i in range(s[N_JOKERS]):
        at = acting(s, i)
        if at >= 0 and s[JOKER + at] == J_PERKEO and s[N_CONSUMABLES] > 0:
            chosen = position(s, q, s[N_CONSUMABLES])
            if add_consumable(s, s[CONSUMABLE + chosen], NEGATIVE):
                s[C_EXTRA + s[N_CONSUMABLES] - 1] = s[C_EXTRA + chosen]
    for k in range(SHOP_SLOTS):
        s[SHOP + k] = 0
    for k in range(VOUCHER_SLOTS):
        s[SHOP_VOUCHER + k] = 0
    for k in range(BOOSTER_SLOTS):
        s[SHOP_BOOSTER + k] = 0
    s[D6] = 0
