"""Queries on held jokers and consumables: counts, copied jokers, free slots, luck, prices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_POSITION, below, given
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.facts import HAND_RULES, ITEM_COST, PAREIDOLIA, SMEARED, TRIGGERED_BY

_SURCHARGE = np.zeros(8, dtype=np.int64)  # by edition, which has three bits
_SURCHARGE[[nm.FOIL, nm.HOLOGRAPHIC, nm.POLYCHROME, nm.NEGATIVE]] = 2, 3, 5, 5


@kernel
def count_joker(s: Any, joker: Any) -> Any:
    """Return how many jokers of a kind are held and not debuffed."""
    count = 0
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == joker and not s[st.J_STICKERS + i] & st.DEBUFFED:
            count += 1
    return count


@kernel
def acting(s: Any, i: Any) -> Any:
    """Return the position of the joker whose rule the joker at i applies; -1 if it has no effect.

    That is i itself, except for Blueprint (its right neighbour) and Brainstorm (the leftmost), which may chain.
    """
    at = i
    for _ in range(s[st.N_JOKERS] + 1):
        if s[st.J_STICKERS + at] & st.DEBUFFED:
            return -1
        if s[st.JOKER + at] == nm.J_BLUEPRINT:
            if at + 1 >= s[st.N_JOKERS]:
                return -1
            at = at + 1
        elif s[st.JOKER + at] == nm.J_BRAINSTORM:
            if at == 0:
                return -1
            at = 0
        else:
            return at
    return -1


@kernel
def note_acting(s: Any) -> None:
    """Store, for the following hand or discard, whose rule each joker applies and what triggers it."""
    scored, held, retrigger, hand_rules = 0, 0, 0, 0
    for i in range(s[st.N_JOKERS]):
        at = acting(s, i)
        s[st.W_ACTING + i] = at
        if not s[st.J_STICKERS + i] & st.DEBUFFED:
            hand_rules |= HAND_RULES[s[st.JOKER + i]]
        if at >= 0:
            triggers = TRIGGERED_BY[s[st.JOKER + at]]
            scored |= (triggers & 1) << i
            held |= ((triggers >> 1) & 1) << i
            retrigger |= ((triggers >> 2) & 1) << i
    s[st.W_FOR_SCORED], s[st.W_FOR_HELD], s[st.W_RETRIGGER] = scored, held, retrigger
    s[st.W_HAND_RULES] = hand_rules
    s[st.W_SMEARED] = (hand_rules & SMEARED) != 0
    s[st.W_ALL_FACES] = (hand_rules & PAREIDOLIA) != 0


@entry
def joker_limit(s: Any) -> Any:
    """Return the number of joker slots: every Negative joker adds its own."""
    limit = s[st.JOKER_SLOTS]
    for i in range(s[st.N_JOKERS]):
        if s[st.J_EDITION + i] == nm.NEGATIVE:
            limit += 1
    return limit


@kernel
def joker_room(s: Any) -> Any:
    return max(0, min(joker_limit(s), st.MAX_JOKERS) - s[st.N_JOKERS])


@kernel
def joker_fits(s: Any, edition: Any) -> Any:
    """Return whether there is room for a joker of this edition."""
    return s[st.N_JOKERS] < st.MAX_JOKERS and (edition == nm.NEGATIVE or joker_room(s) > 0)


@entry
def consumable_limit(s: Any) -> Any:
    limit = s[st.CONSUMABLE_SLOTS]
    for i in range(s[st.N_CONSUMABLES]):
        if s[st.C_EDITION + i] == nm.NEGATIVE:
            limit += 1
    return limit


@kernel
def consumable_room(s: Any) -> Any:
    return max(0, min(consumable_limit(s), st.MAX_CONSUMABLES) - s[st.N_CONSUMABLES])


@kernel
def new_age(s: Any) -> Any:
    """Return the number of a joker or consumable that is being created."""
    s[st.NEXT_AGE] += 1
    return s[st.NEXT_AGE]


@kernel
def pick_by_age(s: Any, queue: Any, stream: Any, ages: Any, candidates: Any, count: Any) -> Any:
    """Return the position of one of the candidates (a bit each), drawn in the order of their creation.

    `ages` is J_AGE or C_AGE. A given outcome counts from left to right.
    """
    index = given(queue, GIVEN_POSITION)
    in_order = 0 <= index < count
    if not in_order:
        index = below(s, stream, count)
    for i in range(st.MAX_JOKERS):
        if (candidates >> i) & 1:
            before = 0
            for k in range(st.MAX_JOKERS):
                if (candidates >> k) & 1 and (k < i if in_order else s[ages + k] < s[ages + i]):
                    before += 1
            if before == index:
                return i
    return 0


@kernel
def add_consumable(s: Any, item: Any, edition: Any) -> Any:
    """Add a consumable at the end; return False if all MAX_CONSUMABLES slots are used."""
    at = s[st.N_CONSUMABLES]
    if at >= st.MAX_CONSUMABLES:
        return False
    s[st.CONSUMABLE + at] = item
    s[st.C_EDITION + at] = edition
    s[st.C_EXTRA + at] = 0
    s[st.C_AGE + at] = new_age(s)
    s[st.N_CONSUMABLES] += 1
    return True


@kernel
def take_consumable(s: Any, at: Any) -> None:
    """Remove the consumable at a position."""
    for i in range(at, s[st.N_CONSUMABLES] - 1):
        s[st.CONSUMABLE + i] = s[st.CONSUMABLE + i + 1]
        s[st.C_EDITION + i] = s[st.C_EDITION + i + 1]
        s[st.C_EXTRA + i] = s[st.C_EXTRA + i + 1]
        s[st.C_AGE + i] = s[st.C_AGE + i + 1]
    s[st.N_CONSUMABLES] -= 1
    s[st.CONSUMABLE + s[st.N_CONSUMABLES]] = 0
    s[st.C_EDITION + s[st.N_CONSUMABLES]] = 0
    s[st.C_EXTRA + s[st.N_CONSUMABLES]] = 0
    s[st.C_AGE + s[st.N_CONSUMABLES]] = 0


@kernel
def luck(s: Any) -> Any:
    """Return the factor of all listed probabilities: 2 for each Oops! All 6s."""
    return 1 << count_joker(s, nm.J_OOPS)


@kernel
def spendable(s: Any) -> Any:
    """Return the money that can be spent, with the debt that each Credit Card allows."""
    return s[st.MONEY] + 20 * count_joker(s, nm.J_CREDIT_CARD)


@kernel
def discounted(s: Any, price: Any) -> Any:
    """Return a price after Clearance Sale or Liquidation: rounded half up, at least 1."""
    percent = 100
    if s[st.VOUCHER + nm.V_LIQUIDATION]:
        percent = 50
    elif s[st.VOUCHER + nm.V_CLEARANCE_SALE]:
        percent = 75
    return max(1, (2 * price + 1) * percent // 200)


@kernel
def price(s: Any, item: Any, edition: Any, stickers: Any) -> Any:
    """Return the price of an item in the shop if it is not free."""
    if nm.C_MERCURY <= item <= nm.C_ERIS and count_joker(s, nm.J_ASTRONOMER) > 0:
        return 0
    return _usual_price(s, item, edition, stickers)


@kernel
def _usual_price(s: Any, item: Any, edition: Any, stickers: Any) -> Any:
    cost = discounted(s, ITEM_COST[item] + _SURCHARGE[edition])
    return 1 if stickers & st.RENTAL else cost


@entry
def joker_sell_value(s: Any, i: Any) -> Any:
    return (
        max(1, _usual_price(s, s[st.JOKER + i], s[st.J_EDITION + i], s[st.J_STICKERS + i]) // 2)
        + s[st.J_EXTRA + i]
    )


@kernel
def consumable_sell_value(s: Any, i: Any) -> Any:
    return max(1, price(s, s[st.CONSUMABLE + i], s[st.C_EDITION + i], 0) // 2) + s[st.C_EXTRA + i]
