"""Vouchers: the immediate effects of redeeming one, and the choice of the next one.

Many vouchers only change prices, rates, editions or packs. The code for those reads the flag that they are redeemed.
"""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_VOUCHER, below_again, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import VOUCHER_REQUIRES
from ludus.games.balatro.jokers import change_discards


@kernel
def redeem(s: Any, queue: Any, voucher: Any) -> None:
    """Redeem a voucher. The later shops of the ante have no voucher."""
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
        change_hand_size(s, queue, 1)


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
def next_voucher(s: Any, queue: Any, stream: Any) -> Any:
    """Return a random voucher that is neither redeemed nor in the shop and may be offered; Blank if none is left."""
    voucher = given(queue, GIVEN_VOUCHER)
    if voucher > 0:
        return voucher
    count = 0
    for v in range(1, 33):
        if _offered(s, v):
            count += 1
    if count == 0:
        return nm.V_BLANK
    attempt = 0
    while True:
        attempt += 1
        voucher = 1 + below_again(s, stream, attempt, 32)
        if _offered(s, voucher):
            return voucher
