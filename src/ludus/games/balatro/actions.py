"""Actions: a fixed index for each action, and the mask of the legal ones.

The first indices are actions that do not select cards of the hand. After them come two indices for every set of one to
five positions of the hand: play (or select as targets, when a consumable waits for its targets) and discard. The sets
are sorted by their bits, so the sets within the first h positions are a prefix: an env for hands of up to h cards uses
the first `n_actions(h)` indices, and an index means the same in all envs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import DEBUFF, FORCED, HIDDEN, edition_of, enhancement_of
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.consumables import can_target, can_use
from ludus.games.balatro.facts import TARGETS_MAX, TARGETS_MIN
from ludus.games.balatro.lineup import consumable_room, joker_fits, spendable
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price

TAKE_BLIND, SKIP_BLIND, REROLL_BOSS, CASH_OUT, REROLL, NEXT_ROUND, SKIP_PACK = range(7)
BUY = 7
BUY_AND_USE = BUY + st.SHOP_SLOTS
REDEEM = BUY_AND_USE + st.SHOP_SLOTS
OPEN = REDEEM + st.VOUCHER_SLOTS
PICK = OPEN + st.BOOSTER_SLOTS
USE = PICK + st.PACK_SLOTS
SELL_CONSUMABLE = USE + st.MAX_CONSUMABLES
SELL_JOKER = SELL_CONSUMABLE + st.MAX_CONSUMABLES
SWAP_JOKERS = SELL_JOKER + st.MAX_JOKERS  # the joker at k with the one to its right
MOVE_CARD = SWAP_JOKERS + st.MAX_JOKERS - 1  # the card at k to the left end of the hand
CARDS = MOVE_CARD + st.MAX_HAND  # CARDS + 2 * set, and one more for a discard

# Hanging Chad, Photograph, Brainstorm and the jokers that multiply as single cards score. Raised Fist picks the
# rightmost of equal cards. With Shoot the Moon, Steel cards and Baron multiply between its additions.
_ORDER_MATTERS = np.zeros(151, dtype=np.uint8)
_ORDER_MATTERS[
    [
        *(
            nm.J_HANGING_CHAD,
            nm.J_PHOTOGRAPH,
            nm.J_BLOODSTONE,
            nm.J_ANCIENT,
            nm.J_IDOL,
            nm.J_TRIBOULET,
            nm.J_BRAINSTORM,
        ),
        *(nm.J_RAISED_FIST, nm.J_SHOOT_THE_MOON),
    ]
] = 1

SETS = np.array([bits for bits in range(1, 1 << st.MAX_HAND) if bits.bit_count() <= 5], dtype=np.int64)
SET_SIZE = np.array([int(bits).bit_count() for bits in SETS], dtype=np.int64)
_PLAYS = np.tile(np.array([True, False]), len(SETS))  # the mask of all sets when no discards are left
N_SETS = np.array([int(np.searchsorted(SETS, 1 << h)) for h in range(st.MAX_HAND + 1)], dtype=np.int64)


def n_actions(max_hand: int) -> int:
    """Return the number of actions for hands of up to `max_hand` cards."""
    return CARDS + 2 * int(N_SETS[max_hand])


def set_index(positions: list[int] | tuple[int, ...]) -> int:
    """Return the index in SETS of these positions of the hand. ValueError for positions that are not a set."""
    bits = sum(1 << p for p in set(positions))
    index = int(np.searchsorted(SETS, bits))
    if index >= len(SETS) or SETS[index] != bits:
        raise ValueError(f"expected one to five positions below {st.MAX_HAND}, got {list(positions)}")
    return index


def play_action(positions: list[int] | tuple[int, ...]) -> int:
    """Return the index that plays the cards at these positions, or selects them as targets of a consumable."""
    return CARDS + 2 * set_index(positions)


def discard_action(positions: list[int] | tuple[int, ...]) -> int:
    """Return the index that discards the cards at these positions."""
    return CARDS + 2 * set_index(positions) + 1


_NAMED = (
    (TAKE_BLIND, "take the blind"),
    (SKIP_BLIND, "skip the blind"),
    (REROLL_BOSS, "reroll the boss"),
    (CASH_OUT, "cash out"),
    (REROLL, "reroll the shop"),
    (NEXT_ROUND, "leave the shop"),
    (SKIP_PACK, "skip the pack"),
)
_NUMBERED = (
    (BUY, st.SHOP_SLOTS, "buy item"),
    (BUY_AND_USE, st.SHOP_SLOTS, "buy and use item"),
    (REDEEM, st.VOUCHER_SLOTS, "redeem voucher"),
    (OPEN, st.BOOSTER_SLOTS, "open pack"),
    (PICK, st.PACK_SLOTS, "pick"),
    (USE, st.MAX_CONSUMABLES, "use consumable"),
    (SELL_CONSUMABLE, st.MAX_CONSUMABLES, "sell consumable"),
    (SELL_JOKER, st.MAX_JOKERS, "sell joker"),
    (SWAP_JOKERS, st.MAX_JOKERS - 1, "swap with its right neighbour joker"),
    (MOVE_CARD, st.MAX_HAND, "move to the left end card"),
)


def describe(action: int) -> str:
    """Describe an action in words; positions are counted from 1."""
    for index, words in _NAMED:
        if action == index:
            return words
    for start, count, words in _NUMBERED:
        if start <= action < start + count:
            return f"{words} {action - start + 1}"
    bits = int(SETS[(action - CARDS) // 2])
    cards = " ".join(str(p + 1) for p in range(st.MAX_HAND) if bits >> p & 1)
    return f"{'discard' if (action - CARDS) % 2 else 'play'} {cards}"


@kernel
def order_matters(s: Any) -> Any:
    """Return whether the order of the hand matters to a joker, a card or a consumable.

    It matters to the jokers above, to cards that multiply as they score (a sum and a product do not commute) and to
    Death.
    """
    for i in range(s[st.N_JOKERS]):
        if _ORDER_MATTERS[s[st.JOKER + i]]:
            return True
    for k in range(s[st.N_CONSUMABLES]):
        if s[st.CONSUMABLE + k] == nm.C_DEATH:
            return True
    for k in range(st.PACK_SLOTS):
        if s[st.PACK + k] == nm.C_DEATH:
            return True
    for i in range(s[st.N_HAND]):
        card = s[st.CARD + s[st.HAND + i]]
        multiplies = enhancement_of(card) == nm.M_GLASS or edition_of(card) == nm.POLYCHROME
        if multiplies and not card & (DEBUFF | HIDDEN):  # the mask must not show what lies face down
            return True
    return False


@kernel
def _mask_sets(s: Any, mask: Any, max_hand: Any) -> None:
    """Mark the plays and discards of every set of cards that the hand allows."""
    n = min(s[st.N_HAND], max_hand)
    count = N_SETS[n]
    discards = s[st.DISCARDS_LEFT] > 0
    forced = 0
    if s[st.BLIND] == nm.BL_FINAL_BELL:
        for i in range(s[st.N_HAND]):
            if s[st.CARD + s[st.HAND + i]] & FORCED:
                forced |= 1 << i
    if forced == 0:
        if discards:
            mask[CARDS : CARDS + 2 * count] = True
        else:
            for k in range(2 * count):
                mask[CARDS + k] = _PLAYS[k]
        return
    for k in range(count):
        if (SETS[k] & forced) == forced:
            mask[CARDS + 2 * k] = True
            mask[CARDS + 2 * k + 1] = discards


@kernel
def _mask_targets(s: Any, mask: Any, max_hand: Any) -> None:
    item = s[st.WAITING]
    low, high = TARGETS_MIN[item], TARGETS_MAX[item]
    for k in range(N_SETS[min(s[st.N_HAND], max_hand)]):
        if low <= SET_SIZE[k] <= high and can_target(s, item, SETS[k]):
            mask[CARDS + 2 * k] = True


@kernel
def item_fits(s: Any, item: Any, edition: Any) -> Any:
    """Return whether there is room for an item of the shop."""
    if item == nm.PLAYING_CARD:
        return s[st.N_CARDS] < st.MAX_CARDS
    if item < nm.C_FOOL:
        return joker_fits(s, edition)
    return consumable_room(s) > 0


@kernel
def _mask_shop(s: Any, mask: Any, max_hand: Any) -> None:
    money = spendable(s)
    mask[NEXT_ROUND] = True
    cost = reroll_cost(s)
    mask[REROLL] = cost <= money or cost == 0
    for k in range(st.SHOP_SLOTS):
        item = s[st.SHOP + k]
        if item != 0:
            cost = shop_price(s, k)
            if cost <= money or cost == 0:
                mask[BUY + k] = item_fits(s, item, s[st.SHOP_EDITION + k])
                mask[BUY_AND_USE + k] = nm.C_FOOL <= item < nm.PLAYING_CARD and can_use(
                    s, item, False, max_hand
                )
    cost = voucher_price(s)
    for k in range(st.VOUCHER_SLOTS):
        mask[REDEEM + k] = s[st.SHOP_VOUCHER + k] != 0 and cost <= money
    for k in range(st.BOOSTER_SLOTS):
        if s[st.SHOP_BOOSTER + k] != 0:
            cost = booster_price(s, k)
            mask[OPEN + k] = cost <= money or cost == 0


@kernel
def _mask_pack(s: Any, mask: Any, max_hand: Any) -> None:
    mask[SKIP_PACK] = True
    for k in range(st.PACK_SLOTS):
        item = s[st.PACK + k]
        if item == nm.PLAYING_CARD:
            mask[PICK + k] = s[st.N_CARDS] < st.MAX_CARDS
        elif item >= nm.C_FOOL:
            mask[PICK + k] = can_use(s, item, False, max_hand)
        elif item > 0:
            mask[PICK + k] = joker_fits(s, s[st.PACK_EDITION + k])


@kernel
def _mask_held_items(s: Any, mask: Any, max_hand: Any) -> None:
    """Mark the actions that use, sell and reorder jokers and consumables."""
    for k in range(s[st.N_CONSUMABLES]):
        mask[USE + k] = can_use(s, s[st.CONSUMABLE + k], True, max_hand)
        mask[SELL_CONSUMABLE + k] = True
    for i in range(s[st.N_JOKERS]):
        mask[SELL_JOKER + i] = not s[st.J_STICKERS + i] & st.ETERNAL
    if s[st.JOKER_MOVES] > 0:
        for i in range(s[st.N_JOKERS] - 1):
            mask[SWAP_JOKERS + i] = True


@kernel
def mask_reach(s: Any, max_hand: Any) -> Any:
    """Return the index from which on all flags of the game's mask are False."""
    return CARDS + 2 * N_SETS[min(s[st.N_HAND], max_hand)]


@kernel
def write_mask(s: Any, mask: Any, max_hand: Any) -> None:
    """Write which actions are legal into a row of `n_actions(max_hand)` flags."""
    write_mask_over(s, mask, max_hand, len(mask))


@kernel
def write_mask_over(s: Any, mask: Any, max_hand: Any, reach: Any) -> None:
    """Do the same as `write_mask` for a row whose flags from `reach` on are already False."""
    mask[:reach] = False
    phase = s[st.PHASE]
    if phase == nm.TARGETING:
        _mask_targets(s, mask, max_hand)
        return
    if phase == nm.CASHING_OUT:
        mask[CASH_OUT] = True
        return
    if phase == nm.GAME_OVER:
        return
    _mask_held_items(s, mask, max_hand)
    if phase == nm.SELECTING_HAND:
        _mask_sets(s, mask, max_hand)
    elif phase == nm.SHOPPING:
        _mask_shop(s, mask, max_hand)
    elif phase == nm.OPENING_PACK:
        _mask_pack(s, mask, max_hand)
    elif phase == nm.CHOOSING_BLIND:
        mask[TAKE_BLIND] = True
        mask[SKIP_BLIND] = s[st.BLIND_ON_DECK] < 2
        can_reroll = s[st.VOUCHER + nm.V_RETCON] or (
            s[st.VOUCHER + nm.V_DIRECTORS_CUT] and not s[st.BOSS_REROLLED]
        )
        mask[REROLL_BOSS] = can_reroll and spendable(s) >= 10
    if s[st.N_HAND] > 1 and s[st.HAND_MOVES] > 0 and (s[st.N_HAND] > max_hand or order_matters(s)):
        for i in range(1, s[st.N_HAND]):
            mask[MOVE_CARD + i] = True
    for i in range(max_hand, s[st.N_HAND]):
        if (
            s[st.CARD + s[st.HAND + i]] & FORCED
        ):  # no set reaches this position, so the card may always be moved
            mask[MOVE_CARD + i] = True


@kernel
def refill_moves(s: Any) -> None:
    """Allow enough swaps for any order of the hand and of the jokers, until another action is taken."""
    s[st.HAND_MOVES] = s[st.N_HAND]
    s[st.JOKER_MOVES] = s[st.N_JOKERS] * (s[st.N_JOKERS] - 1) // 2
