"""Vouchers: what redeeming one changes at once, and which comes next.

What is read where it matters (prices, rates, editions, packs) needs nothing here but the mark that it is redeemed.
"""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_VOUCHER, below, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import VOUCHER_REQUIRES
from ludus.games.balatro.jokers import change_discards


@kernel
def redeem(s: Any, q: Any, voucher: Any) -> None:
    """The voucher is the player's from now on; the later shops of the ante have none."""
    s[st.VOUCHER + voucher] = 1
    s[st.ANTE_VOUCHER] = 0
    if voucher in (nm.V_REROLL_SURPLUS, nm.V_REROLL_GLUT):
        s[st.REROLL_BASE] = max(0, s[st.REROLL_BASE] - 2)
    elif voucher == nm.V_CRYSTAL_BALL:
        s[st.CONSUMABLE_SLOTS] += 1
    elif voucher in (nm.V_GRABBER, nm.V_NACHO_TONG):
        s[st.HANDS_PER_ROUND] += 1
        s[st.HANDS_LEFT] += 1
    elif voucher in (nm.V_WASTEFUL, nm.V_RECYCLOMANCY):
        s[st.DISCARDS_PER_ROUND] += 1
        change_discards(s, 1)
    elif voucher == nm.V_ANTIMATTER:
        s[st.JOKER_SLOTS] += 1
    elif voucher == nm.V_HIEROGLYPH:
        s[st.ANTE] -= 1
        s[st.HANDS_PER_ROUND] -= 1
        s[st.HANDS_LEFT] -= 1
    elif voucher == nm.V_PETROGLYPH:
        s[st.ANTE] -= 1
        s[st.DISCARDS_PER_ROUND] -= 1
        change_discards(s, -1)
    elif voucher in (nm.V_PAINT_BRUSH, nm.V_PALETTE):
        change_hand_size(s, q, 1)


@kernel
def _offered(s: Any, voucher: Any) -> Any:
    if s[st.VOUCHER + voucher]:
        return False
    needs = VOUCHER_REQUIRES[voucher]
    if needs != 0 and not s[st.VOUCHER + needs]:
        return False
    for i in range(st.VOUCHER_SLOTS):
        if s[st.SHOP_VOUCHER + i] == voucher:
            return False
    return True


@kernel
def next_voucher(s: Any, q: Any) -> Any:
    """A voucher that is not redeemed, not in the shop, and whose predecessor is redeemed; Blank when none is left."""
    voucher = given(q, GIVEN_VOUCHER)
    if voucher > 0:
        return voucher
    count = 0
    for v in range(1, 33):
        if _offered(s, v):
            count += 1
    if count == 0:
        return nm.V_BLANK
    wanted = below(s, count)
    for v in range(1, 33):
        if _offered(s, v):
            if wanted == 0:
                return v
            wanted -= 1
    return nm.V_BLANK
