"""A run: how decks and stakes begin it, how antes follow each other, skipping, and cashing out."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import tags
from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.cards import make_card, new_card, to_draw_pile
from ludus.games.balatro.chance import below
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import add_consumable
from ludus.games.balatro.rounds import new_targets, reset_round, start_round
from ludus.games.balatro.shop import leave_shop, open_shop
from ludus.games.balatro.vouchers import next_voucher, redeem


@kernel
def _deal_deck(s: Any) -> None:
    deck = s[st.DECK]
    for suit in range(4):
        for rank in range(2, 15):
            if deck == nm.B_ABANDONED and 11 <= rank <= 13:
                continue
            mine = suit
            if deck == nm.B_CHECKERED:
                mine = nm.SPADES if suit == nm.CLUBS else (nm.HEARTS if suit == nm.DIAMONDS else suit)
            card = make_card(rank, mine, 0, 0, 0)
            if deck == nm.B_ERRATIC:
                card = make_card(2 + below(s, 13), below(s, 4), 0, 0, 0)
            to_draw_pile(s, new_card(s, card))
    s[st.STARTING_CARDS] = s[st.N_CARDS]


@kernel
def _deck_gifts(s: Any, q: Any) -> None:
    deck = s[st.DECK]
    if deck == nm.B_RED:
        s[st.DISCARDS_PER_ROUND] += 1
    elif deck == nm.B_BLUE:
        s[st.HANDS_PER_ROUND] += 1
    elif deck == nm.B_YELLOW:
        s[st.MONEY] += 10
    elif deck == nm.B_BLACK:
        s[st.HANDS_PER_ROUND] -= 1
        s[st.JOKER_SLOTS] += 1
    elif deck == nm.B_MAGIC:
        redeem(s, q, nm.V_CRYSTAL_BALL)
        add_consumable(s, nm.C_FOOL, 0)
        add_consumable(s, nm.C_FOOL, 0)
    elif deck == nm.B_NEBULA:
        redeem(s, q, nm.V_TELESCOPE)
        s[st.CONSUMABLE_SLOTS] -= 1
    elif deck == nm.B_GHOST:
        add_consumable(s, nm.C_HEX, 0)
    elif deck == nm.B_ZODIAC:
        redeem(s, q, nm.V_TAROT_MERCHANT)
        redeem(s, q, nm.V_PLANET_MERCHANT)
        redeem(s, q, nm.V_OVERSTOCK_NORM)
    elif deck == nm.B_PAINTED:
        s[st.HAND_SIZE] += 2
        s[st.JOKER_SLOTS] -= 1


@kernel
def start_run(s: Any, f: Any, q: Any, seed: Any, deck: Any, stake: Any, last_ante: Any) -> None:
    """Begins a run in rows that may hold anything; what is rewarded stays as it is."""
    chips, blind, win, illegal = f[st.R_CHIPS], f[st.R_BLIND], f[st.R_WIN], f[st.R_ILLEGAL]
    fixed = s[st.PURSE_FIXED]
    s[:] = 0
    f[:] = 0.0
    f[st.R_CHIPS], f[st.R_BLIND], f[st.R_WIN], f[st.R_ILLEGAL] = chips, blind, win, illegal
    s[st.PURSE_FIXED] = fixed
    s[st.SEED_LOW] = seed & 0x7FFFFFFF
    s[st.SEED_HIGH] = (seed >> 31) & 0x7FFFFFFF
    s[st.DECK] = deck
    s[st.STAKE] = stake
    s[st.LAST_ANTE] = last_ante
    s[st.ANTE] = 1
    s[st.MONEY] = 4
    s[st.HANDS_PER_ROUND] = 4
    s[st.DISCARDS_PER_ROUND] = 3 - (1 if stake >= 5 else 0)
    s[st.HAND_SIZE] = 8
    s[st.JOKER_SLOTS] = 5
    s[st.CONSUMABLE_SLOTS] = 2
    s[st.REROLL_BASE] = 5
    s[st.ECTOPLASM_COST] = 1
    s[st.FIRST_SHOP] = 1
    for hand in range(st.N_HANDS):
        s[st.LEVEL + hand] = 1
    _deal_deck(s)
    _deck_gifts(s, q)
    reset_round(s)
    new_targets(s, q)
    _new_ante(s, q)
    s[st.PHASE] = nm.CHOOSING_BLIND


@kernel
def _new_ante(s: Any, q: Any) -> None:
    choose_boss(s, q)
    s[st.ANTE_VOUCHER] = next_voucher(s, q)
    tags.choose_tags(s, q)
    s[st.BOSS_REROLLED] = 0
    s[st.BLIND_ON_DECK] = 0


@kernel
def take_blind(s: Any, f: Any, q: Any) -> None:
    """Takes on the blind on deck."""
    tags.tags_at_round(s)
    start_round(s, f, q)


@kernel
def skip_blind(s: Any, f: Any, q: Any) -> None:
    """Skips the small or big blind for its tag."""
    on_deck = s[st.BLIND_ON_DECK]
    s[st.SKIPS] += 1
    s[st.BLIND_ON_DECK] += 1
    tags.add_tag(s, s[st.BLIND_TAG + on_deck], s[st.BLIND_TAG_HAND + on_deck])
    tags.tags_at_once(s, f, q)
    tags.tags_at_blind_choice(s, q)


@kernel
def reroll_boss(s: Any, q: Any) -> None:
    """Director's Cut and Retcon: another boss for $10."""
    s[st.MONEY] -= 10
    s[st.BOSS_REROLLED] = 1
    choose_boss(s, q)


@kernel
def cash_out(s: Any, f: Any, q: Any) -> None:
    """Takes the payout, sets up the next blind and opens the shop."""
    boss = s[st.BLIND_ON_DECK] == 2
    s[st.MONEY] += s[st.PAYOUT] + tags.tags_at_cash_out(s, boss)
    s[st.PAYOUT] = 0
    if boss:
        if s[st.DECK] == nm.B_ANAGLYPH:
            tags.add_tag(s, nm.TAG_DOUBLE, 0)
        s[st.ANTE] += 1
        _new_ante(s, q)
    else:
        s[st.BLIND_ON_DECK] += 1
    f[st.CHIPS] = 0.0
    reset_round(s)
    open_shop(s, q)


@kernel
def next_round(s: Any, q: Any) -> None:
    """Leaves the shop for the choice of the next blind."""
    leave_shop(s, q)
    s[st.PHASE] = nm.CHOOSING_BLIND
    tags.tags_at_blind_choice(s, q)


@kernel
def is_over(s: Any) -> Any:
    return s[st.PHASE] == nm.GAME_OVER
