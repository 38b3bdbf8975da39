"""Vouchers: what redeeming one changes at once, and which comes next.

What is read where it matters (prices, rates, editions, packs) needs nothing here but the mark that it is redeemed.
"""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

from ludus.games.balatro.chance import GIVEN_VOUCHER, below, given
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.drawing import change_hand_size
from ludus.games.balatro.facts import VOUCHER_REQUIRES
from ludus.games.balatro.jokers import change_discards
from ludus.games.balatro.names import (
    V_ANTIMATTER,
    V_BLANK,
    V_CRYSTAL_BALL,
    V_GRABBER,
    V_HIEROGLYPH,
    V_NACHO_TONG,
    V_PAINT_BRUSH,
    V_PALETTE,
    V_PETROGLYPH,
    V_RECYCLOMANCY,
    V_REROLL_GLUT,
    V_REROLL_SURPLUS,
    V_WASTEFUL,
)
from ludus.games.balatro.state import (
    ANTE,
    ANTE_VOUCHER,
    CONSUMABLE_SLOTS,
    DISCARDS_PER_ROUND,
    HANDS_LEFT,
    HANDS_PER_ROUND,
    JOKER_SLOTS,
    REROLL_BASE,
    SHOP_VOUCHER,
    VOUCHER,
    VOUCHER_SLOTS,
)


@kernel
def redeem(s: Any, q: Any, voucher: Any) -> None:
    """The voucher is the player's from now on; the later shops of the ante have none."""
    s[VOUCHER + voucher] = 1
    s[ANTE_VOUCHER] = 0
    if voucher in (V_REROLL_SURPLUS, V_REROLL_GLUT):
        s[REROLL_BASE] = max(0, s[REROLL_BASE] - 2)
    elif voucher == V_CRYSTAL_BALL:
        s[CONSUMABLE_SLOTS] += 1
    elif voucher in (V_GRABBER, V_NACHO_TONG):
        s[HANDS_PER_ROUND] += 1
        s[HANDS_LEFT] += 1
    elif voucher in (V_WASTEFUL, V_RECYCLOMANCY):
        s[DISCARDS_PER_ROUND] += 1
        change_discards(s, 1)
    elif voucher == V_ANTIMATTER:
        s[JOKER_SLOTS] += 1
    elif voucher == V_HIEROGLYPH:
        s[ANTE] -= 1
        s[HANDS_PER_ROUND] -= 1
        s[HANDS_LEFT] -= 1
    elif voucher == V_PETROGLYPH:
        s[ANTE] -= 1
        s[DISCARDS_PER_ROUND] -= 1
        change_discards(s, -1)
    elif voucher in (V_PAINT_BRUSH, V_PALETTE):
        change_hand_size(s, q, 1)


@kernel
def _offered(s: Any, voucher: Any) -> Any:
    if s[VOUCHER + voucher]:
        return False
    needs = VOUCHER_REQUIRES[voucher]
    if needs != 0 and not s[VOUCHER + needs]:
        return False
    for i in range(VOUCHER_SLOTS):
        if s[SHOP_VOUCHER + i] == voucher:
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
        return V_BLANK
    wanted = below(s, count)
    for v in range(1, 33):
        if _offered(s, v):
            if wanted == 0:
                return v
            wanted -= 1
    return V_BLANK
