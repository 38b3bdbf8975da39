"""Scoring the played hand, in the order of the game.

The hand is named; the boss may forbid it; jokers prepare; base chips and mult; each scoring card with its
retriggers; each held card with its retriggers; jokers from left to right, each with its edition around it
(Foil and Holographic before, Polychrome after); the deck's last word; what breaks; what is eaten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from ludus.games.balatro.facts import (
    FOUR_FINGERS,
    HAND_CHIPS,
    HAND_CHIPS_UP,
    HAND_MULT,
    HAND_MULT_UP,
    JOKER_RARITY,
    PLANET_HAND,
    SHORTCUT,
    SMEARED,
    SPLASH,
)
from ludus.games.balatro.hands import poker_hand, stones
from ludus.games.balatro.joker_cards import extra_triggers, held_triggers, jokers_for_held, jokers_for_scored
from ludus.games.balatro.joker_hands import (
    cards_destroyed,
    count_deck,
    joker_turn,
    jokers_after,
    jokers_before,
)
from ludus.games.balatro.lineup import luck, note_acting
from ludus.games.balatro.names import (
    B_PLASMA,
    C_ERIS,
    C_MERCURY,
    FOIL,
    GOLD_SEAL,
    HOLOGRAPHIC,
    J_BASEBALL,
    J_MATADOR,
    J_SIXTH_SENSE,
    M_BONUS,
    M_GLASS,
    M_LUCKY,
    M_MULT,
    M_STEEL,
    M_STONE,
    POLYCHROME,
    RED_SEAL,
    V_OBSERVATORY,
)
from ludus.games.balatro.pools import create_spectral
from ludus.games.balatro.state import (
    CARD,
    CARD_BONUS,
    CONSUMABLE,
    DEBUFFED,
    DECK,
    HAND,
    HAND_SCORE,
    HANDS_THIS_ROUND,
    J_EDITION,
    J_STICKERS,
    JOKER,
    LAST_HAND,
    LEVEL,
    MONEY,
    N_CONSUMABLES,
    N_HAND,
    N_JOKERS,
    N_PLAY,
    PLAY,
    PLAYED,
    PLAYED_ROUND,
    TRIGGERED,
    VOUCHER,
    W_ACTING,
    W_ALL_FACES,
    W_BENDS,
    W_CARDS,
    W_CHIPS,
    W_CONTAINED,
    W_HAND,
    W_MONEY,
    W_MULT,
    W_SCORING,
)
from ludus.games.balatro.tally import (
    FROM_BLIND,
    FROM_CARD,
    FROM_CONSUMABLE,
    FROM_DECK,
    FROM_HAND,
    FROM_HELD,
    FROM_JOKER,
    SET_BOTH,
    add_chips,
    add_money,
    add_mult,
    note,
    times_mult,
)


@kernel
def name_hand(s: Any, cards: Any, n: Any) -> Any:
    """`poker_hand` with the jokers that bend it, after `note_acting`; Splash and Stone cards are in `scoring`."""
    bends = s[W_BENDS]
    hand, contained, scoring = poker_hand(cards, n, bends & FOUR_FINGERS, bends & SHORTCUT, bends & SMEARED)
    if bends & SPLASH:
        scoring = (1 << n) - 1
    else:
        scoring |= stones(cards, n)
    return hand, contained, scoring


@kernel
def hand_base(s: Any, f: Any, hand: Any) -> None:
    """Chips and mult of a poker hand at its level."""
    ups = s[LEVEL + hand] - 1
    f[W_CHIPS] = max(HAND_CHIPS[hand] + HAND_CHIPS_UP[hand] * ups, 0.0)
    f[W_MULT] = max(HAND_MULT[hand] + HAND_MULT_UP[hand] * ups, 1.0)


@kernel
def _score_card(s: Any, f: Any, q: Any, log: Any, place: Any) -> None:
    """One trigger of a scoring card: its own chips, mult, money, factor and edition, then the jokers."""
    card = s[CARD + place]
    enhancement = enhancement_of(card)
    chips = s[CARD_BONUS + place]
    if enhancement == M_STONE:
        chips += 50
    else:
        chips += chips_of_rank(rank_of(card))
        if enhancement == M_BONUS:
            chips += 30
    add_chips(f, log, FROM_CARD, place, float(chips))
    lucky = False
    money = 0
    if enhancement == M_MULT:
        add_mult(f, log, FROM_CARD, place, 4.0)
    elif enhancement == M_LUCKY:
        if happens(s, q, luck(s), 5):
            lucky = True
            add_mult(f, log, FROM_CARD, place, 20.0)
        if happens(s, q, luck(s), 15):
            lucky = True
            money = 20
    if seal_of(card) == GOLD_SEAL:
        money += 3
    if money:
        add_money(s, f, log, FROM_CARD, place, money)
    if enhancement == M_GLASS:
        times_mult(f, log, FROM_CARD, place, 2.0)
    edition = edition_of(card)
    if edition == FOIL:
        add_chips(f, log, FROM_CARD, place, 50.0)
    elif edition == HOLOGRAPHIC:
        add_mult(f, log, FROM_CARD, place, 10.0)
    elif edition == POLYCHROME:
        times_mult(f, log, FROM_CARD, place, 1.5)
    jokers_for_scored(s, f, q, log, place, lucky)


@kernel
def _score_played(s: Any, f: Any, q: Any, log: Any) -> None:
    first = True
    for k in range(s[N_PLAY]):
        if not (s[W_SCORING] >> k) & 1:
            continue
        place = s[PLAY + k]
        if s[CARD + place] & DEBUFF:
            s[TRIGGERED] = 1
        else:
            times = 1 + extra_triggers(s, place, first)
            if seal_of(s[CARD + place]) == RED_SEAL:
                times += 1
            for _ in range(times):
                _score_card(s, f, q, log, place)
        first = False


@kernel
def _score_held(s: Any, f: Any, q: Any, log: Any) -> None:
    mimes = held_triggers(s)
    for k in range(s[N_HAND]):
        place = s[HAND + k]
        card = s[CARD + place]
        if card & DEBUFF:
            continue
        steel = enhancement_of(card) == M_STEEL
        if steel:
            times_mult(f, log, FROM_HELD, place, 1.5)
        did = jokers_for_held(s, f, q, log, place) or steel
        if did:
            more = mimes + (1 if seal_of(card) == RED_SEAL else 0)
            for _ in range(more):
                if steel:
                    times_mult(f, log, FROM_HELD, place, 1.5)
                jokers_for_held(s, f, q, log, place)


@kernel
def _jokers_on_joker(s: Any, f: Any, log: Any, other: Any) -> None:
    """Baseball Card answers to every Uncommon joker's turn."""
    if JOKER_RARITY[s[JOKER + other]] != 2:
        return
    for i in range(s[N_JOKERS]):
        at = s[W_ACTING + i]
        if at >= 0 and s[JOKER + at] == J_BASEBALL:
            times_mult(f, log, FROM_JOKER, i, 1.5)


@kernel
def _score_jokers(s: Any, f: Any, q: Any, log: Any, stones: Any, steels: Any, enhanced: Any) -> None:
    for i in range(s[N_JOKERS]):
        edition = 0 if s[J_STICKERS + i] & DEBUFFED else s[J_EDITION + i]
        if edition == FOIL:
            add_chips(f, log, FROM_JOKER, i, 50.0)
        elif edition == HOLOGRAPHIC:
            add_mult(f, log, FROM_JOKER, i, 10.0)
        joker_turn(s, f, q, log, i, stones, steels, enhanced)
        _jokers_on_joker(s, f, log, i)
        if edition == POLYCHROME:
            times_mult(f, log, FROM_JOKER, i, 1.5)
    if s[VOUCHER + V_OBSERVATORY]:
        for k in range(s[N_CONSUMABLES]):
            item = s[CONSUMABLE + k]
            if C_MERCURY <= item <= C_ERIS and PLANET_HAND[item - C_MERCURY] == s[W_HAND]:
                times_mult(f, log, FROM_CONSUMABLE, k, 1.5)


@kernel
def _break_cards(s: Any, f: Any, q: Any) -> None:
    """Sixth Sense takes its six, and glass may break."""
    faces, glasses = 0, 0
    sixth = False
    if s[N_PLAY] == 1 and s[HANDS_THIS_ROUND] == 0 and rank_shown(s[CARD + s[PLAY]]) == 6:
        for i in range(s[N_JOKERS]):
            if s[JOKER + i] == J_SIXTH_SENSE and not s[J_STICKERS + i] & DEBUFFED and not sixth:
                sixth = True
                create_spectral(s, q)
    broken = 0
    for k in range(s[N_PLAY]):
        if not (s[W_SCORING] >> k) & 1:
            continue
        card = s[CARD + s[PLAY + k]]
        glass = enhancement_of(card) == M_GLASS
        if sixth or (glass and not card & DEBUFF and happens(s, q, luck(s), 4)):
            if is_face(card, s[W_ALL_FACES], False):
                faces += 1
            if glass:
                glasses += 1
            broken |= 1 << k
    for k in range(s[N_PLAY] - 1, -1, -1):
        if (broken >> k) & 1:
            destroy_card(s, s[PLAY + k])
    if faces + glasses > 0:
        cards_destroyed(s, f, faces, glasses)


@entry
def evaluate(s: Any, f: Any, q: Any, log: Any) -> None:
    """Scores the cards in PLAY: sets HAND_SCORE and W_HAND, and does all that playing the hand does."""
    n = s[N_PLAY]
    note_acting(s)
    for k in range(n):
        s[W_CARDS + k] = s[CARD + s[PLAY + k]]
    hand, contained, scoring = name_hand(s, s[W_CARDS : W_CARDS + 5], n)
    s[W_HAND], s[W_CONTAINED], s[W_SCORING] = hand, contained, scoring
    s[PLAYED + hand] += 1
    s[PLAYED_ROUND + hand] += 1
    s[LAST_HAND] = hand
    f[HAND_SCORE] = 0.0
    if boss_forbids(s, hand, n):
        f[W_CHIPS] = 0.0
        f[W_MULT] = 0.0
        note(f, log, FROM_BLIND, 0, SET_BOTH, 0.0)
        for i in range(s[N_JOKERS]):
            at = s[W_ACTING + i]
            if at >= 0 and s[JOKER + at] == J_MATADOR and s[TRIGGERED]:
                add_money(s, f, log, FROM_JOKER, i, 8)
    else:
        s[W_MONEY] = s[MONEY]
        stones, steels, enhanced = count_deck(s)
        jokers_before(s, f, q, log)
        hand_base(s, f, hand)
        note(f, log, FROM_HAND, hand, SET_BOTH, 0.0)
        if flint_halves(s):
            f[W_MULT] = max(np.floor(f[W_MULT] * 0.5 + 0.5), 1.0)
            f[W_CHIPS] = max(np.floor(f[W_CHIPS] * 0.5 + 0.5), 0.0)
            note(f, log, FROM_BLIND, 0, SET_BOTH, 0.5)
        _score_played(s, f, q, log)
        _score_held(s, f, q, log)
        _score_jokers(s, f, q, log, stones, steels, enhanced)
        if s[DECK] == B_PLASMA:
            half = np.floor((f[W_CHIPS] + f[W_MULT]) / 2)
            f[W_CHIPS] = half
            f[W_MULT] = half
            note(f, log, FROM_DECK, 0, SET_BOTH, 0.0)
        f[HAND_SCORE] = np.floor(f[W_CHIPS] * f[W_MULT])
        _break_cards(s, f, q)
    jokers_after(s, f, q)
