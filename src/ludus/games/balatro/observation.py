"""The observation: everything the player sees, as one flat vector of numbers near 0 to 1.

The layout is a list of named blocks (`BLOCKS`); `slices(max_hand)` returns their positions. The faces of face-down
cards and the order of the draw pile are not included. For items in slots, one block marks which item is in which slot
(1 for the first slot, less for later ones), and another describes each slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.envs.finite import LARGEST
from ludus.games.balatro import cards, facts
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target, progress
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.lineup import consumable_room, joker_room, joker_sell_value, spendable
from ludus.games.balatro.names import BL_BIG, BL_SMALL, C_FOOL, M_STONE, OPENING_PACK, PLAYING_CARD, TARGETING
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price
from ludus.types import Array

CARD_FEATURES = 39
JOKER_FEATURES = 12
OFFER_FEATURES = 14
BOOSTER_FEATURES = 9

# name and length of each block; the hand has CARD_FEATURES for each position and comes last
BLOCKS = (
    ("run", 40),
    ("phase", 7),
    ("blind", 31),
    ("boss", 31),
    ("levels", st.N_HANDS),
    ("played", st.N_HANDS),
    ("played_this_round", st.N_HANDS),
    ("deck", 52),
    ("deck_enhancements", 9),
    ("jokers", st.MAX_JOKERS * JOKER_FEATURES),
    ("jokers_held", 150),
    ("consumables_held", 52),
    ("offers", st.PACK_SLOTS * OFFER_FEATURES),
    ("offered", facts.N_ITEMS),
    ("vouchers_redeemed", 32),
    ("vouchers_offered", 32),
    ("boosters", st.BOOSTER_SLOTS * BOOSTER_FEATURES),
    ("tags_held", 24),
    ("tags_offered", 24),
)
_STARTS = np.cumsum([0, *(size for _, size in BLOCKS)])
(
    O_RUN,
    O_PHASE,
    O_BLIND,
    O_BOSS,
    O_LEVELS,
    O_PLAYED,
    O_PLAYED_ROUND,
    O_DECK,
    O_DECK_ENHANCEMENTS,
    O_JOKERS,
    O_JOKERS_HELD,
    O_CONSUMABLES,
    O_OFFERS,
    O_OFFERED,
    O_VOUCHERS,
    O_VOUCHERS_OFFERED,
    O_BOOSTERS,
    O_TAGS,
    O_TAGS_OFFERED,
    O_HAND,
) = (int(start) for start in _STARTS)


def observation_size(max_hand: int) -> int:
    """Return the length of the vector for hands of up to `max_hand` cards."""
    return O_HAND + CARD_FEATURES * max_hand


def slices(max_hand: int) -> dict[str, slice]:
    """Return the position of each block."""
    blocks = [*BLOCKS, ("hand", CARD_FEATURES * max_hand)]
    starts = [int(start) for start in _STARTS]
    return {name: slice(start, start + size) for (name, size), start in zip(blocks, starts, strict=True)}


def _sums_of(step: float, count: int) -> Array:
    """Return 0, step, 2 * step, … as float32 sums of single steps."""
    sums = np.zeros(count, dtype=np.float32)
    for i in range(1, count):
        sums[i] = np.float32(float(sums[i - 1]) + step)
    return sums


_BY_PLACE = 1.0 - np.arange(st.MAX_JOKERS) / st.MAX_JOKERS
_TENTHS = _sums_of(0.1, st.MAX_CARDS + 1)


@kernel
def _log10(f: Any, slot: Any, x: Any) -> Any:
    """Return log10(1 + x) / 10, cached in LOGS: most numbers do not change for many steps."""
    at = st.LOGS + 2 * slot
    if f[at] != x:
        f[at] = x
        f[at + 1] = np.log10(1.0 + min(max(0.0, x), 1e300)) / 10.0
    return f[at + 1]


@kernel
def _ratio(x: Any, whole: Any) -> Any:
    """Return x / whole in float32, which equals the float64 quotient rounded."""
    return np.float32(x) / np.float32(whole)


@kernel
def _write_run(s: Any, f: Any, obs: Any, money: Any) -> None:
    target = f[st.TARGET] if s[st.BLIND] else blind_target(s, _next_blind(s))
    cost = reroll_cost(s)
    obs[0] = _ratio(s[st.ANTE], 8.0)
    obs[1] = _ratio(s[st.BLIND_ON_DECK], 2.0)
    obs[2] = _log10(f, 3, float(s[st.MONEY]))
    obs[3] = _ratio(min(s[st.MONEY], 50), 50.0)
    obs[4] = _ratio(min(s[st.MONEY] // 5, 10), 10.0)
    obs[5] = _ratio(s[st.HANDS_LEFT], 5.0)
    obs[6] = _ratio(s[st.DISCARDS_LEFT], 5.0)
    obs[7] = _ratio(s[st.HANDS_PER_ROUND], 5.0)
    obs[8] = _ratio(s[st.DISCARDS_PER_ROUND], 5.0)
    obs[9] = _ratio(s[st.HAND_SIZE], 10.0)
    obs[10] = _ratio(s[st.N_HAND], 10.0)
    obs[11] = _log10(f, 0, target)
    obs[12] = _log10(f, 1, f[st.CHIPS])
    obs[13] = progress(f[st.CHIPS], target)
    obs[14] = _log10(f, 2, target - min(f[st.CHIPS], 1e300))
    obs[15] = _ratio(joker_room(s), 5.0)
    obs[16] = _ratio(consumable_room(s), 5.0)
    obs[17] = _ratio(cost, 10.0)
    obs[18] = 1.0 if cost <= money else 0.0
    obs[19] = _ratio(s[st.N_DRAW], 52.0)
    obs[20] = _ratio(s[st.N_CARDS], 52.0)
    obs[21] = float(s[st.BOSS_OFF])
    obs[22] = _ratio(s[st.PACK_PICKS], 2.0)
    obs[23] = _ratio(s[st.IDOL_RANK], 14.0)
    obs[24] = _ratio(s[st.IDOL_SUIT], 3.0)
    obs[25] = _ratio(s[st.MAIL_RANK], 14.0)
    obs[26 + s[st.ANCIENT_SUIT]] = 1.0
    obs[30 + s[st.CASTLE_SUIT]] = 1.0
    obs[34] = _ratio(s[st.STAKE], 8.0)
    obs[35] = _ratio(s[st.PAYOUT], 20.0)
    obs[36] = _ratio(s[st.N_JOKERS], 5.0)
    obs[37] = _ratio(s[st.MOUTH_HAND] + 1, 12.0) if s[st.BLIND] else 0.0
    if s[st.PHASE] == TARGETING:
        obs[38] = _ratio(facts.TARGETS_MAX[s[st.WAITING]], 3.0)
        obs[39] = _ratio(s[st.WAITING] - C_FOOL + 1, 52.0)


@kernel
def _next_blind(s: Any) -> Any:
    if s[st.BLIND_ON_DECK] == 2:
        return s[st.BOSS]
    return BL_SMALL if s[st.BLIND_ON_DECK] == 0 else BL_BIG


@kernel
def _write_deck(s: Any, obs: Any) -> None:
    """Write the cards that may still be drawn, without their order: the draw pile and the face-down cards of the hand.

    The game's own view of the deck includes these too. Leaving them out would reveal them.
    """
    for k in range(52):
        obs[O_DECK + k] = np.float32(s[st.PILE_CARDS + k])
    for k in range(9):
        obs[O_DECK_ENHANCEMENTS + k] = _TENTHS[s[st.PILE_ENHANCED + k]]
    for i in range(s[st.N_HAND]):
        card = s[st.CARD + s[st.HAND + i]]
        if card & cards.HIDDEN:
            enhancement = cards.enhancement_of(card)
            if enhancement != M_STONE:
                obs[O_DECK + cards.suit_of(card) * 13 + cards.rank_of(card) - 2] += 1.0
            obs[O_DECK_ENHANCEMENTS + enhancement] += 0.1


@kernel
def _write_jokers(s: Any, f: Any, obs: Any) -> None:
    for i in range(s[st.N_JOKERS]):
        at = O_JOKERS + i * JOKER_FEATURES
        joker, stickers = s[st.JOKER + i], s[st.J_STICKERS + i]
        obs[at] = 1.0
        if stickers & st.FACE_DOWN:
            continue
        obs[O_JOKERS_HELD + joker - 1] += _BY_PLACE[i]
        obs[at + 1] = _ratio(facts.JOKER_RARITY[joker], 4.0)
        obs[at + 2] = _log10(f, 4 + i, f[st.J_VALUE + i])
        obs[at + 3] = _ratio(s[st.J_COUNT + i], 10.0)
        if s[st.J_EDITION + i] > 0:
            obs[at + 3 + s[st.J_EDITION + i]] = 1.0
        obs[at + 8] = 1.0 if stickers & st.ETERNAL else 0.0
        obs[at + 9] = 1.0 if stickers & st.PERISHABLE else 0.0
        obs[at + 10] = (1.0 if stickers & st.RENTAL else 0.0) + (2.0 if stickers & st.DEBUFFED else 0.0)
        obs[at + 11] = _ratio(joker_sell_value(s, i), 10.0)


@kernel
def _write_offer(
    obs: Any, k: Any, item: Any, edition: Any, stickers: Any, card: Any, cost: Any, money: Any
) -> None:
    at = O_OFFERS + k * OFFER_FEATURES
    obs[at] = 1.0
    obs[at + 1] = _ratio(cost, 10.0)
    obs[at + 2] = 1.0 if cost <= money else 0.0
    if edition > 0:
        obs[at + 2 + edition] = 1.0
    obs[at + 7] = float(stickers)
    if item == PLAYING_CARD:
        obs[at + 8] = _ratio(cards.rank_of(card), 14.0)
        obs[at + 9] = _ratio(cards.suit_of(card), 3.0)
        obs[at + 10] = _ratio(cards.enhancement_of(card), 8.0)
        obs[at + 11] = _ratio(cards.seal_of(card), 4.0)
    elif item < C_FOOL:
        obs[at + 12] = _ratio(facts.JOKER_RARITY[item], 4.0)
    else:
        obs[at + 13] = 1.0
    obs[O_OFFERED + item] += 1.0 - k / 8.0


@kernel
def _write_offers(s: Any, obs: Any, money: Any) -> None:
    """Write the items of the open pack, otherwise those of the shop."""
    if s[st.PHASE] == OPENING_PACK or (s[st.PHASE] == TARGETING and s[st.WAITING_BACK] == OPENING_PACK):
        for k in range(st.PACK_SLOTS):
            if s[st.PACK + k] != 0:
                _write_offer(
                    obs,
                    k,
                    s[st.PACK + k],
                    s[st.PACK_EDITION + k],
                    s[st.PACK_STICKERS + k],
                    s[st.PACK_CARD + k],
                    0,
                    money,
                )
        return
    for k in range(st.SHOP_SLOTS):
        if s[st.SHOP + k] != 0:
            _write_offer(
                obs,
                k,
                s[st.SHOP + k],
                s[st.SHOP_EDITION + k],
                s[st.SHOP_STICKERS + k],
                s[st.SHOP_CARD + k],
                shop_price(s, k),
                money,
            )
    for k in range(st.VOUCHER_SLOTS):
        if s[st.SHOP_VOUCHER + k] != 0:
            obs[O_VOUCHERS_OFFERED + s[st.SHOP_VOUCHER + k] - 1] += 1.0 - k / 8.0
    for k in range(st.BOOSTER_SLOTS):
        booster = s[st.SHOP_BOOSTER + k]
        if booster != 0:
            at = O_BOOSTERS + k * BOOSTER_FEATURES
            obs[at] = 1.0
            obs[at + 1 + facts.BOOSTER_KIND[booster]] = 1.0
            obs[at + 6] = _ratio(facts.BOOSTER_CARDS[booster], 5.0)
            obs[at + 7] = _ratio(facts.BOOSTER_PICKS[booster], 2.0)
            obs[at + 8] = _ratio(booster_price(s, k), 10.0)


@kernel
def _write_hand(s: Any, obs: Any, max_hand: Any) -> None:
    for i in range(min(s[st.N_HAND], max_hand)):
        at = O_HAND + i * CARD_FEATURES
        slot = s[st.HAND + i]
        card = s[st.CARD + slot]
        obs[at] = 1.0
        if card & cards.FORCED:
            obs[at + 1] = 1.0
        if card & cards.HIDDEN:
            obs[at + 2] = 1.0
            continue
        if card & cards.DEBUFF:
            obs[at + 3] = 1.0
        enhancement = cards.enhancement_of(card)
        if enhancement != M_STONE:
            obs[at + 4 + cards.rank_of(card) - 2] = 1.0
            obs[at + 17 + cards.suit_of(card)] = 1.0
        if enhancement > 0:
            obs[at + 20 + enhancement] = 1.0
        if cards.edition_of(card) > 0:
            obs[at + 28 + cards.edition_of(card)] = 1.0
        if cards.seal_of(card) > 0:
            obs[at + 32 + cards.seal_of(card)] = 1.0
        obs[at + 37] = _ratio(s[st.CARD_BONUS + slot], 50.0)
        obs[at + 38] = 1.0 if card & cards.PLAYED_ANTE else 0.0


@kernel
def write_observation(s: Any, f: Any, obs: Any, max_hand: Any) -> None:
    """Write the observation of one game into a row of `observation_size(max_hand)` floats."""
    obs[:] = 0.0
    money = spendable(s)
    _write_run(s, f, obs, money)
    obs[O_PHASE + s[st.PHASE]] = 1.0
    obs[O_BLIND + (s[st.BLIND] if s[st.BLIND] else _next_blind(s))] = 1.0
    obs[O_BOSS + s[st.BOSS]] = 1.0
    for hand in range(st.N_HANDS):
        obs[O_LEVELS + hand] = _ratio(s[st.LEVEL + hand], 10.0)
    for hand in range(st.N_HANDS):
        obs[O_PLAYED + hand] = _ratio(s[st.PLAYED + hand], 20.0)
    for hand in range(st.N_HANDS):
        obs[O_PLAYED_ROUND + hand] = _ratio(s[st.PLAYED_ROUND + hand], 4.0)
    _write_deck(s, obs)
    _write_jokers(s, f, obs)
    for k in range(s[st.N_CONSUMABLES]):
        obs[O_CONSUMABLES + s[st.CONSUMABLE + k] - C_FOOL] += 1.0 - k / st.MAX_CONSUMABLES
    _write_offers(s, obs, money)
    for v in range(32):
        obs[O_VOUCHERS + v] = s[st.VOUCHER + 1 + v]
    for k in range(s[st.N_TAGS]):
        obs[O_TAGS + s[st.TAG + k] - 1] += 1.0
    for k in range(2):
        if s[st.BLIND_ON_DECK] <= k:
            obs[O_TAGS_OFFERED + s[st.BLIND_TAG + k] - 1] += 1.0 - 0.5 * k
    _write_hand(s, obs, max_hand)


@kernel
def are_finite(numbers: Any) -> Any:
    """Return whether all numbers are finite and at most LARGEST in size."""
    bad = 0
    for k in range(len(numbers)):  # no early exit, so that the loop is vectorised
        bad += not abs(numbers[k]) <= LARGEST
    return bad == 0


@kernel
def row_is_finite(obs: Any, n_jokers: Any, max_hand: Any) -> Any:
    """Return `are_finite` of the parts of a row that come from floats of the game. The others are counts and flags."""
    return (
        are_finite(obs[O_RUN:O_PHASE])
        and are_finite(obs[O_JOKERS : O_JOKERS + n_jokers * JOKER_FEATURES])
        and are_finite(obs[O_HAND + CARD_FEATURES * max_hand :])
    )


N_IDS = st.MAX_JOKERS + st.MAX_CONSUMABLES + st.PACK_SLOTS  # and one for each position of the hand
STONE_ID, FACE_DOWN_ID = 53, 54
N_CARD_IDS = 55


@entry
def write_ids(s: Any, ids: Any, max_hand: Any) -> None:
    """Write the ids of what is in each slot, for embeddings: jokers, consumables, offers (items), then the hand.

    A card is 1 + 13 * suit + rank - 2, or STONE_ID or FACE_DOWN_ID; an empty slot is 0 in every part.
    """
    ids[:] = 0
    for i in range(s[st.N_JOKERS]):
        if not s[st.J_STICKERS + i] & st.FACE_DOWN:
            ids[i] = s[st.JOKER + i]
    for k in range(s[st.N_CONSUMABLES]):
        ids[st.MAX_JOKERS + k] = s[st.CONSUMABLE + k]
    offers = st.MAX_JOKERS + st.MAX_CONSUMABLES
    if s[st.PHASE] == OPENING_PACK or (s[st.PHASE] == TARGETING and s[st.WAITING_BACK] == OPENING_PACK):
        for k in range(st.PACK_SLOTS):
            ids[offers + k] = s[st.PACK + k]
    else:
        for k in range(st.SHOP_SLOTS):
            ids[offers + k] = s[st.SHOP + k]
    for i in range(min(s[st.N_HAND], max_hand)):
        card = s[st.CARD + s[st.HAND + i]]
        if card & cards.HIDDEN:
            number = FACE_DOWN_ID
        elif cards.enhancement_of(card) == M_STONE:
            number = STONE_ID
        else:
            number = 1 + 13 * cards.suit_of(card) + cards.rank_of(card) - 2
        ids[N_IDS + i] = number
