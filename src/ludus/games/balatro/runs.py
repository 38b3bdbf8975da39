"""A run: how decks and stakes begin it, how antes follow each other, skipping, and cashing out."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.cards import make_card, new_card, to_draw_pile
from ludus.games.balatro.chance import below
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import add_consumable
from ludus.games.balatro.names import (
    B_ABANDONED,
    B_ANAGLYPH,
    B_BLACK,
    B_BLUE,
    B_CHECKERED,
    B_ERRATIC,
    B_GHOST,
    B_MAGIC,
    B_NEBULA,
    B_PAINTED,
    B_RED,
    B_YELLOW,
    B_ZODIAC,
    C_FOOL,
    C_HEX,
    CHOOSING_BLIND,
    CLUBS,
    DIAMONDS,
    GAME_OVER,
    HEARTS,
    SPADES,
    TAG_DOUBLE,
    V_CRYSTAL_BALL,
    V_OVERSTOCK_NORM,
    V_PLANET_MERCHANT,
    V_TAROT_MERCHANT,
    V_TELESCOPE,
)
from ludus.games.balatro.rounds import new_targets, reset_round, start_round
from ludus.games.balatro.shop import leave_shop, open_shop
from ludus.games.balatro.state import (
    ANTE,
    ANTE_VOUCHER,
    BLIND_ON_DECK,
    BLIND_TAG,
    BLIND_TAG_HAND,
    BOSS_REROLLED,
    CHIPS,
    CONSUMABLE_SLOTS,
    DECK,
    DISCARDS_PER_ROUND,
    ECTOPLASM_COST,
    FIRST_SHOP,
    HAND_SIZE,
    HANDS_PER_ROUND,
    JOKER_SLOTS,
    LAST_ANTE,
    LEVEL,
    MONEY,
    N_CARDS,
    N_HANDS,
    PAYOUT,
    PHASE,
    PURSE_FIXED,
    R_BLIND,
    R_CHIPS,
    R_ILLEGAL,
    R_WIN,
    REROLL_BASE,
    SEED_HIGH,
    SEED_LOW,
    SKIPS,
    STAKE,
    STARTING_CARDS,
)
from ludus.games.balatro.tags import (
    add_tag,
    choose_tags,
    tags_at_blind_choice,
    tags_at_cash_out,
    tags_at_once,
    tags_at_round,
)
from ludus.games.balatro.vouchers import next_voucher, redeem


@kernel
def _deal_deck(s: Any) -> None:
    deck = s[DECK]
    for suit in range(4):
        for rank in range(2, 15):
            if deck == B_ABANDONED and 11 <= rank <= 13:
                continue
            mine = suit
            if deck == B_CHECKERED:
                mine = SPADES if suit == CLUBS else (HEARTS if suit == DIAMONDS else suit)
            card = make_card(rank, mine, 0, 0, 0)
            if deck == B_ERRATIC:
                card = make_card(2 + below(s, 13), below(s, 4), 0, 0, 0)
            to_draw_pile(s, new_card(s, card))
    s[STARTING_CARDS] = s[N_CARDS]


@kernel
def _deck_gifts(s: Any, q: Any) -> None:
    deck = s[DECK]
    if deck == B_RED:
        s[DISCARDS_PER_ROUND] += 1
    elif deck == B_BLUE:
        s[HANDS_PER_ROUND] += 1
    elif deck == B_YELLOW:
        s[MONEY] += 10
    elif deck == B_BLACK:
        s[HANDS_PER_ROUND] -= 1
        s[JOKER_SLOTS] += 1
    elif deck == B_MAGIC:
        redeem(s, q, V_CRYSTAL_BALL)
        add_consumable(s, C_FOOL, 0)
        add_consumable(s, C_FOOL, 0)
    elif deck == B_NEBULA:
        redeem(s, q, V_TELESCOPE)
        s[CONSUMABLE_SLOTS] -= 1
    elif deck == B_GHOST:
        add_consumable(s, C_HEX, 0)
    elif deck == B_ZODIAC:
        redeem(s, q, V_TAROT_MERCHANT)
        redeem(s, q, V_PLANET_MERCHANT)
        redeem(s, q, V_OVERSTOCK_NORM)
    elif deck == B_PAINTED:
        s[HAND_SIZE] += 2
        s[JOKER_SLOTS] -= 1


@kernel
def start_run(s: Any, f: Any, q: Any, seed: Any, deck: Any, stake: Any, last_ante: Any) -> None:
    """Begins a run in rows that may hold anything; what is rewarded stays as it is."""
    chips, blind, win, illegal = f[R_CHIPS], f[R_BLIND], f[R_WIN], f[R_ILLEGAL]
    fixed = s[PURSE_FIXED]
    s[:] = 0
    f[:] = 0.0
    f[R_CHIPS], f[R_BLIND], f[R_WIN], f[R_ILLEGAL] = chips, blind, win, illegal
    s[PURSE_FIXED] = fixed
    s[SEED_LOW] = seed & 0x7FFFFFFF
    s[SEED_HIGH] = (seed >> 31) & 0x7FFFFFFF
    s[DECK] = deck
    s[STAKE] = stake
    s[LAST_ANTE] = last_ante
    s[ANTE] = 1
    s[MONEY] = 4
    s[HANDS_PER_ROUND] = 4
    s[DISCARDS_PER_ROUND] = 3 - (1 if stake >= 5 else 0)
    s[HAND_SIZE] = 8
    s[JOKER_SLOTS] = 5
    s[CONSUMABLE_SLOTS] = 2
    s[REROLL_BASE] = 5
    s[ECTOPLASM_COST] = 1
    s[FIRST_SHOP] = 1
    for hand in range(N_HANDS):
        s[LEVEL + hand] = 1
    _deal_deck(s)
    _deck_gifts(s, q)
    reset_round(s)
    new_targets(s, q)
    _new_ante(s, q)
    s[PHASE] = CHOOSING_BLIND


@kernel
def _new_ante(s: Any, q: Any) -> None:
    choose_boss(s, q)
    s[ANTE_VOUCHER] = next_voucher(s, q)
    choose_tags(s, q)
    s[BOSS_REROLLED] = 0
    s[BLIND_ON_DECK] = 0


@kernel
def take_blind(s: Any, f: Any, q: Any) -> None:
    """Takes on the blind on deck."""
    tags_at_round(s)
    start_round(s, f, q)


@kernel
def skip_blind(s: Any, f: Any, q: Any) -> None:
    """Skips the small or big blind for its tag."""
    on_deck = s[BLIND_ON_DECK]
    s[SKIPS] += 1
    s[BLIND_ON_DECK] += 1
    add_tag(s, s[BLIND_TAG + on_deck], s[BLIND_TAG_HAND + on_deck])
    tags_at_once(s, f, q)
    tags_at_blind_choice(s, q)


@kernel
def reroll_boss(s: Any, q: Any) -> None:
    """Director's Cut and Retcon: another boss for $10."""
    s[MONEY] -= 10
    s[BOSS_REROLLED] = 1
    choose_boss(s, q)


@kernel
def cash_out(s: Any, f: Any, q: Any) -> None:
    """Takes the payout, sets up the next blind and opens the shop."""
    boss = s[BLIND_ON_DECK] == 2
    s[MONEY] += s[PAYOUT] + tags_at_cash_out(s, boss)
    s[PAYOUT] = 0
    if boss:
        if s[DECK] == B_ANAGLYPH:
            add_tag(s, TAG_DOUBLE, 0)
        s[ANTE] += 1
        _new_ante(s, q)
    else:
        s[BLIND_ON_DECK] += 1
    f[CHIPS] = 0.0
    reset_round(s)
    open_shop(s, q)


@kernel
def next_round(s: Any, q: Any) -> None:
    """Leaves the shop for the choice of the next blind."""
    leave_shop(s, q)
    s[PHASE] = CHOOSING_BLIND
    tags_at_blind_choice(s, q)


@kernel
def is_over(s: Any) -> Any:
    return s[PHASE] == GAME_OVER
