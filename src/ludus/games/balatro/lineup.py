"""What is asked of the jokers and consumables held: how many of a kind, what they copy, room, luck, prices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.facts import ANSWERS_TO, BENDS, ITEM_COST, PAREIDOLIA, SMEARED

_SURCHARGE = np.zeros(8, dtype=np.int64)  # of an edition, which has three bits
_SURCHARGE[[nm.FOIL, nm.HOLOGRAPHIC, nm.POLYCHROME, nm.NEGATIVE]] = 2, 3, 5, 5


@kernel
def count_joker(s: Any, joker: Any) -> Any:
    """How many jokers of a kind are held and not debuffed."""
    count = 0
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == joker and not s[st.J_STICKERS + i] & st.DEBUFFED:
            count += 1
    return count


@kernel
def acting(s: Any, i: Any) -> Any:
    """The position of the joker whose rule the joker at i carries out; -1 when it does nothing.

    That is i itself, but for Blueprint (its right neighbour) and Brainstorm (the leftmost), which may chain.
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
    """Writes down, for the hand or discard that follows, whose rule each joker carries out and what it answers to."""
    scored, held, again, bends = 0, 0, 0, 0
    for i in range(s[st.N_JOKERS]):
        at = acting(s, i)
        s[st.W_ACTING + i] = at
        if not s[st.J_STICKERS + i] & st.DEBUFFED:
            bends |= BENDS[s[st.JOKER + i]]
        if at >= 0:
            answers = ANSWERS_TO[s[st.JOKER + at]]
            scored |= (answers & 1) << i
            held |= ((answers >> 1) & 1) << i
            again |= ((answers >> 2) & 1) << i
    s[st.W_FOR_SCORED], s[st.W_FOR_HELD], s[st.W_AGAIN] = scored, held, again
    s[st.W_BENDS] = bends
    s[st.W_SMEARED] = (bends & SMEARED) != 0
    s[st.W_ALL_FACES] = (bends & PAREIDOLIA) != 0


@entry
def joker_limit(s: Any) -> Any:
    """Places for jokers: every Negative one brings its own."""
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
    """Whether a joker of this edition can be taken."""
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
def add_consumable(s: Any, item: Any, edition: Any) -> Any:
    """Puts a consumable at the end of the row; False when even the row is full."""
    at = s[st.N_CONSUMABLES]
    if at >= st.MAX_CONSUMABLES:
        return False
    s[st.CONSUMABLE + at] = item
    s[st.C_EDITION + at] = edition
    s[st.C_EXTRA + at] = 0
    s[st.N_CONSUMABLES] += 1
    return True


@kernel
def take_consumable(s: Any, at: Any) -> None:
    """Removes the consumable at a position."""
    for i in range(at, s[st.N_CONSUMABLES] - 1):
        s[st.CONSUMABLE + i] = s[st.CONSUMABLE + i + 1]
        s[st.C_EDITION + i] = s[st.C_EDITION + i + 1]
        s[st.C_EXTRA + i] = s[st.C_EXTRA + i + 1]
    s[st.N_CONSUMABLES] -= 1
    s[st.CONSUMABLE + s[st.N_CONSUMABLES]] = 0
    s[st.C_EDITION + s[st.N_CONSUMABLES]] = 0
    s[st.C_EXTRA + s[st.N_CONSUMABLES]] = 0


@kernel
def luck(s: Any) -> Any:
    """What every listed chance is multiplied by: 2 for each Oops! All 6s."""
    return 1 << count_joker(s, nm.J_OOPS)


@kernel
def spendable(s: Any) -> Any:
    """Money that can be spent, with the debt that each Credit Card allows."""
    return s[st.MONEY] + 20 * count_joker(s, nm.J_CREDIT_CARD)


@kernel
def discounted(s: Any, price: Any) -> Any:
    """A price after Clearance Sale or Liquidation: rounded half up, at least 1."""
    percent = 100
    if s[st.VOUCHER + nm.V_LIQUIDATION]:
        percent = 50
    elif s[st.VOUCHER + nm.V_CLEARANCE_SALE]:
        percent = 75
    return max(1, (2 * price + 1) * percent // 200)


@kernel
def price(s: Any, item: Any, edition: Any, stickers: Any) -> Any:
    """What an item costs in the shop when it is not free."""
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
