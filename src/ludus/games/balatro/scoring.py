"""Scoring of the played hand, in the order of the game.

1. The poker hand is determined; the boss may forbid it.
2. Jokers act before scoring; then base chips and mult are set.
3. Each scoring card scores, with its retriggers; then each held card, with its retriggers.
4. Each joker acts, left to right, with its edition (Foil and Holographic before, Polychrome after).
5. The Plasma Deck balances chips and mult. Cards break, and used-up jokers are removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import facts, joker_hands, streams, tally
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import boss_forbids, flint_halves
from ludus.games.balatro.cards import (
    DEBUFF,
    chips_of_rank,
    destroy_card,
    edition_of,
    enhancement_of,
    is_face,
    rank_of,
    rank_shown,
    seal_of,
)
from ludus.games.balatro.chance import happens
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.hands import poker_hand, stones
from ludus.games.balatro.joker_cards import extra_triggers, held_triggers, jokers_for_held, jokers_for_scored
from ludus.games.balatro.lineup import luck, note_acting
from ludus.games.balatro.pools import create_spectral


@kernel
def name_hand(s: Any, cards: Any, n: Any) -> Any:
    """Apply `poker_hand` with the jokers that change it, after `note_acting`; `scoring` has Splash and Stone cards."""
    hand_rules = s[st.W_HAND_RULES]
    hand, contained, scoring = poker_hand(
        cards, n, hand_rules & facts.FOUR_FINGERS, hand_rules & facts.SHORTCUT, hand_rules & facts.SMEARED
    )
    if hand_rules & facts.SPLASH:
        scoring = (1 << n) - 1
    else:
        scoring |= stones(cards, n)
    return hand, contained, scoring


@kernel
def hand_base(s: Any, f: Any, hand: Any) -> None:
    """Set chips and mult of a poker hand at its level."""
    ups = s[st.LEVEL + hand] - 1
    f[st.W_CHIPS] = max(facts.HAND_CHIPS[hand] + facts.HAND_CHIPS_UP[hand] * ups, 0.0)
    f[st.W_MULT] = max(facts.HAND_MULT[hand] + facts.HAND_MULT_UP[hand] * ups, 1.0)


@kernel
def _score_card(s: Any, f: Any, queue: Any, log: Any, slot: Any) -> None:
    """Apply one trigger of a scoring card: its own chips, mult, money, factor and edition, then the jokers."""
    card = s[st.CARD + slot]
    enhancement = enhancement_of(card)
    chips = s[st.CARD_BONUS + slot]
    if enhancement == nm.M_STONE:
        chips += 50
    else:
        chips += chips_of_rank(rank_of(card))
        if enhancement == nm.M_BONUS:
            chips += 30
    tally.add_chips(f, log, tally.FROM_CARD, slot, float(chips))
    lucky = False
    money = 0
    if enhancement == nm.M_MULT:
        tally.add_mult(f, log, tally.FROM_CARD, slot, 4.0)
    elif enhancement == nm.M_LUCKY:
        if happens(s, queue, streams.LUCKY_MULT, luck(s), 5):
            lucky = True
            tally.add_mult(f, log, tally.FROM_CARD, slot, 20.0)
        if happens(s, queue, streams.LUCKY_MONEY, luck(s), 15):
            lucky = True
            money = 20
    if seal_of(card) == nm.GOLD_SEAL:
        money += 3
    if money:
        tally.add_money(s, f, log, tally.FROM_CARD, slot, money)
    if enhancement == nm.M_GLASS:
        tally.times_mult(f, log, tally.FROM_CARD, slot, 2.0)
    edition = edition_of(card)
    if edition == nm.FOIL:
        tally.add_chips(f, log, tally.FROM_CARD, slot, 50.0)
    elif edition == nm.HOLOGRAPHIC:
        tally.add_mult(f, log, tally.FROM_CARD, slot, 10.0)
    elif edition == nm.POLYCHROME:
        tally.times_mult(f, log, tally.FROM_CARD, slot, 1.5)
    jokers_for_scored(s, f, queue, log, slot, lucky)


@kernel
def _score_played(s: Any, f: Any, queue: Any, log: Any) -> None:
    first = True
    for k in range(s[st.N_PLAY]):
        if not (s[st.W_SCORING] >> k) & 1:
            continue
        slot = s[st.PLAY + k]
        if s[st.CARD + slot] & DEBUFF:
            s[st.TRIGGERED] = 1
        else:
            times = 1 + extra_triggers(s, slot, first)
            if seal_of(s[st.CARD + slot]) == nm.RED_SEAL:
                times += 1
            for _ in range(times):
                _score_card(s, f, queue, log, slot)
        first = False


@kernel
def _score_held(s: Any, f: Any, queue: Any, log: Any) -> None:
    mimes = held_triggers(s)
    for k in range(s[st.N_HAND]):
        slot = s[st.HAND + k]
        card = s[st.CARD + slot]
        if card & DEBUFF:
            continue
        steel = enhancement_of(card) == nm.M_STEEL
        if steel:
            tally.times_mult(f, log, tally.FROM_HELD, slot, 1.5)
        did = jokers_for_held(s, f, queue, log, slot) or steel
        if did:
            more = mimes + (1 if seal_of(card) == nm.RED_SEAL else 0)
            for _ in range(more):
                if steel:
                    tally.times_mult(f, log, tally.FROM_HELD, slot, 1.5)
                jokers_for_held(s, f, queue, log, slot)


@kernel
def _jokers_on_joker(s: Any, f: Any, log: Any, other: Any) -> None:
    """Apply Baseball Card to the turn of an Uncommon joker."""
    if facts.JOKER_RARITY[s[st.JOKER + other]] != 2:
        return
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        if at >= 0 and s[st.JOKER + at] == nm.J_BASEBALL:
            tally.times_mult(f, log, tally.FROM_JOKER, i, 1.5)


@kernel
def _score_jokers(s: Any, f: Any, queue: Any, log: Any, stones: Any, steels: Any, enhanced: Any) -> None:
    for i in range(s[st.N_JOKERS]):
        edition = 0 if s[st.J_STICKERS + i] & st.DEBUFFED else s[st.J_EDITION + i]
        if edition == nm.FOIL:
            tally.add_chips(f, log, tally.FROM_JOKER, i, 50.0)
        elif edition == nm.HOLOGRAPHIC:
            tally.add_mult(f, log, tally.FROM_JOKER, i, 10.0)
        joker_hands.joker_turn(s, f, queue, log, i, stones, steels, enhanced)
        _jokers_on_joker(s, f, log, i)
        if edition == nm.POLYCHROME:
            tally.times_mult(f, log, tally.FROM_JOKER, i, 1.5)
    if s[st.VOUCHER + nm.V_OBSERVATORY]:
        for k in range(s[st.N_CONSUMABLES]):
            item = s[st.CONSUMABLE + k]
            if nm.C_MERCURY <= item <= nm.C_ERIS and facts.PLANET_HAND[item - nm.C_MERCURY] == s[st.W_HAND]:
                tally.times_mult(f, log, tally.FROM_CONSUMABLE, k, 1.5)


@kernel
def _break_cards(s: Any, f: Any, queue: Any) -> None:
    """Destroy the six of Sixth Sense and the Glass cards that break."""
    faces, glasses = 0, 0
    sixth = False
    if s[st.N_PLAY] == 1 and s[st.HANDS_THIS_ROUND] == 0 and rank_shown(s[st.CARD + s[st.PLAY]]) == 6:
        for i in range(s[st.N_JOKERS]):
            if s[st.JOKER + i] == nm.J_SIXTH_SENSE and not s[st.J_STICKERS + i] & st.DEBUFFED and not sixth:
                sixth = True
                create_spectral(s, queue, streams.SPECTRALSIXTH)
    broken = 0
    for k in range(s[st.N_PLAY]):
        if not (s[st.W_SCORING] >> k) & 1:
            continue
        card = s[st.CARD + s[st.PLAY + k]]
        glass = enhancement_of(card) == nm.M_GLASS
        if sixth or (glass and not card & DEBUFF and happens(s, queue, streams.GLASS, luck(s), 4)):
            if is_face(card, s[st.W_ALL_FACES], False):
                faces += 1
            if glass:
                glasses += 1
            broken |= 1 << k
    for k in range(s[st.N_PLAY] - 1, -1, -1):
        if (broken >> k) & 1:
            destroy_card(s, s[st.PLAY + k])
    if faces + glasses > 0:
        joker_hands.cards_destroyed(s, f, faces, glasses)


@entry
def evaluate(s: Any, f: Any, queue: Any, log: Any) -> None:
    """Score the cards in PLAY: set HAND_SCORE and W_HAND, and apply all effects of playing the hand."""
    n = s[st.N_PLAY]
    note_acting(s)
    for k in range(n):
        s[st.W_CARDS + k] = s[st.CARD + s[st.PLAY + k]]
    hand, contained, scoring = name_hand(s, s[st.W_CARDS : st.W_CARDS + 5], n)
    s[st.W_HAND], s[st.W_CONTAINED], s[st.W_SCORING] = hand, contained, scoring
    s[st.PLAYED + hand] += 1
    s[st.PLAYED_ROUND + hand] += 1
    s[st.LAST_HAND] = hand
    f[st.HAND_SCORE] = 0.0
    if boss_forbids(s, hand, n):
        f[st.W_CHIPS] = 0.0
        f[st.W_MULT] = 0.0
        tally.note(f, log, tally.FROM_BLIND, 0, tally.SET_BOTH, 0.0)
        for i in range(s[st.N_JOKERS]):
            at = s[st.W_ACTING + i]
            if at >= 0 and s[st.JOKER + at] == nm.J_MATADOR and s[st.TRIGGERED]:
                tally.add_money(s, f, log, tally.FROM_JOKER, i, 8)
    else:
        s[st.W_MONEY] = s[st.MONEY]
        stones, steels, enhanced = joker_hands.count_deck(s)
        joker_hands.jokers_before(s, f, queue, log)
        hand_base(s, f, hand)
        tally.note(f, log, tally.FROM_HAND, hand, tally.SET_BOTH, 0.0)
        if flint_halves(s):
            f[st.W_MULT] = max(np.floor(f[st.W_MULT] * 0.5 + 0.5), 1.0)
            f[st.W_CHIPS] = max(np.floor(f[st.W_CHIPS] * 0.5 + 0.5), 0.0)
            tally.note(f, log, tally.FROM_BLIND, 0, tally.SET_BOTH, 0.5)
        _score_played(s, f, queue, log)
        _score_held(s, f, queue, log)
        _score_jokers(s, f, queue, log, stones, steels, enhanced)
        if s[st.DECK] == nm.B_PLASMA:
            half = np.floor((f[st.W_CHIPS] + f[st.W_MULT]) / 2)
            f[st.W_CHIPS] = half
            f[st.W_MULT] = half
            tally.note(f, log, tally.FROM_DECK, 0, tally.SET_BOTH, 0.0)
        f[st.HAND_SCORE] = np.floor(f[st.W_CHIPS] * f[st.W_MULT])
        _break_cards(s, f, queue)
    joker_hands.jokers_after(s, f, queue)
