"""A run: its start by deck and stake, the sequence of antes, skipping and cashing out."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams, tags
from ludus.games.balatro.bosses import choose_boss
from ludus.games.balatro.cards import collect_cards, new_card, rank_of, shuffle_draw_pile, suit_of, with_suit
from ludus.games.balatro.chance import below, set_seed
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import CARD_ORDER
from ludus.games.balatro.lineup import add_consumable
from ludus.games.balatro.rounds import new_targets, reset_round, start_round
from ludus.games.balatro.shop import leave_shop, open_shop
from ludus.games.balatro.vouchers import next_voucher, redeem


@kernel
def _deal_deck(s: Any) -> None:
    """Create the cards of the deck, in the order in which the game lists them."""
    deck = s[st.DECK]
    if deck == nm.B_ERRATIC:
        for k in range(52):  # DRAW_PILE is free until `shuffle_draw_pile`
            s[st.DRAW_PILE + k] = below(s, streams.ERRATIC, 52)
    for index in range(52):
        card = CARD_ORDER[index]
        copies = 1
        if deck == nm.B_ABANDONED and 11 <= rank_of(card) <= 13:
            copies = 0
        elif deck == nm.B_CHECKERED and suit_of(card) in (nm.CLUBS, nm.DIAMONDS):
            card = with_suit(card, nm.SPADES if suit_of(card) == nm.CLUBS else nm.HEARTS)
        elif deck == nm.B_ERRATIC:
            copies = 0
            for k in range(52):
                if s[st.DRAW_PILE + k] == index:
                    copies += 1
        for _ in range(copies):
            new_card(s, card)
    s[st.STARTING_CARDS] = s[st.N_CARDS]
    collect_cards(s)


@kernel
def _apply_deck(s: Any, queue: Any) -> None:
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
        redeem(s, queue, nm.V_CRYSTAL_BALL)
        add_consumable(s, nm.C_FOOL, 0)
        add_consumable(s, nm.C_FOOL, 0)
    elif deck == nm.B_NEBULA:
        redeem(s, queue, nm.V_TELESCOPE)
        s[st.CONSUMABLE_SLOTS] -= 1
    elif deck == nm.B_GHOST:
        add_consumable(s, nm.C_HEX, 0)
    elif deck == nm.B_ZODIAC:
        redeem(s, queue, nm.V_TAROT_MERCHANT)
        redeem(s, queue, nm.V_PLANET_MERCHANT)
        redeem(s, queue, nm.V_OVERSTOCK_NORM)
    elif deck == nm.B_PAINTED:
        s[st.HAND_SIZE] += 2
        s[st.JOKER_SLOTS] -= 1


@kernel
def start_run(s: Any, f: Any, queue: Any, seed: Any, deck: Any, stake: Any, last_ante: Any) -> None:
    """Start a run in rows with any content; the reward settings are kept."""
    chips, blind, win, illegal = f[st.R_CHIPS], f[st.R_BLIND], f[st.R_WIN], f[st.R_ILLEGAL]
    fixed, fast = s[st.MONEY_FIXED], s[st.FAST_RANDOM]
    s[:] = 0
    f[:] = 0.0
    f[st.R_CHIPS], f[st.R_BLIND], f[st.R_WIN], f[st.R_ILLEGAL] = chips, blind, win, illegal
    s[st.MONEY_FIXED] = fixed
    s[st.FAST_RANDOM] = fast
    set_seed(s, seed)
    s[st.DECK] = deck
    s[st.STAKE] = stake
    s[st.LAST_ANTE] = last_ante
    s[st.ANTE] = 1
    s[st.TOP_ANTE] = 1
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
    _apply_deck(s, queue)
    shuffle_draw_pile(s, streams.SHUFFLE)
    reset_round(s)
    new_targets(s, queue, True)
    _new_ante(s, queue)
    s[st.PHASE] = nm.CHOOSING_BLIND


@kernel
def _new_ante(s: Any, queue: Any) -> None:
    choose_boss(s, queue)
    s[st.ANTE_VOUCHER] = next_voucher(s, queue, streams.VOUCHER)
    tags.choose_tags(s, queue)
    s[st.BOSS_REROLLED] = 0
    s[st.BLIND_ON_DECK] = 0


@kernel
def take_blind(s: Any, f: Any, queue: Any) -> None:
    """Select the blind on deck."""
    tags.tags_at_round(s)
    start_round(s, f, queue)


@kernel
def skip_blind(s: Any, f: Any, queue: Any) -> None:
    """Skip the small or big blind and gain its tag."""
    on_deck = s[st.BLIND_ON_DECK]
    s[st.SKIPS] += 1
    s[st.BLIND_ON_DECK] += 1
    tags.add_tag(s, s[st.BLIND_TAG + on_deck], s[st.BLIND_TAG_HAND + on_deck])
    tags.tags_at_once(s, f, queue)
    tags.tags_at_blind_choice(s, queue)


@kernel
def reroll_boss(s: Any, queue: Any) -> None:
    """Choose another boss for $10 (Director's Cut and Retcon)."""
    s[st.MONEY] -= 10
    s[st.BOSS_REROLLED] = 1
    choose_boss(s, queue)


@kernel
def cash_out(s: Any, f: Any, queue: Any) -> None:
    """Take the payout, set up the next blind and open the shop."""
    boss = s[st.BLIND_ON_DECK] == 2
    s[st.MONEY] += s[st.PAYOUT] + tags.tags_at_cash_out(s, boss)
    s[st.PAYOUT] = 0
    if boss:
        if s[st.DECK] == nm.B_ANAGLYPH:
            tags.add_tag(s, nm.TAG_DOUBLE, 0)
        _new_ante(s, queue)
    else:
        s[st.BLIND_ON_DECK] += 1
    f[st.CHIPS] = 0.0
    reset_round(s)
    shuffle_draw_pile(s, streams.CASHOUT)
    open_shop(s, queue)


@kernel
def next_round(s: Any, queue: Any) -> None:
    """Leave the shop and go to the blind selection."""
    leave_shop(s, queue)
    s[st.PHASE] = nm.CHOOSING_BLIND
    tags.tags_at_blind_choice(s, queue)


@kernel
def is_over(s: Any) -> Any:
    return s[st.PHASE] == nm.GAME_OVER
