"""Boss blinds: the size of a blind, the effect of each boss, and disabling a boss."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.cards import DEBUFF, FORCED, HIDDEN, PLAYED_ANTE, is_face, is_suit, pick_from_hand
from ludus.games.balatro.chance import GIVEN_BOSS, below, given, shuffle
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.drawing import change_hand_size, draw
from ludus.games.balatro.facts import ANTE_BASE, BLIND_MULT, BLIND_SUIT, BOSS_MIN_ANTE, BOSS_ORDER, SHOWDOWN
from ludus.games.balatro.jokers import change_discards, set_debuffed, swap_jokers
from ludus.games.balatro.lineup import count_joker, pick_by_age

WIN_ANTE = 8


@kernel
def ante_chips(ante: Any, stake: Any) -> Any:
    """Return the base chips of an ante. After ante 8 the game's own formula applies."""
    row = 2 if stake >= 6 else (1 if stake >= 3 else 0)
    if ante < 1:
        return 100.0
    if ante <= 8:
        return ANTE_BASE[row, ante - 1]
    over = float(ante - 8)
    amount = np.floor(ANTE_BASE[row, 7] * (1.6 + (0.75 * over) ** (1 + 0.2 * over)) ** over)
    if not np.isfinite(amount):
        return amount
    return amount - amount % (10.0 ** np.floor(np.log10(amount) - 1))


@entry
def blind_target(s: Any, blind: Any) -> Any:
    """Return the chips that beat a blind."""
    target = ante_chips(s[st.ANTE], s[st.STAKE]) * BLIND_MULT[blind]
    return target * 2 if s[st.DECK] == nm.B_PLASMA else target


@kernel
def reached(chips: Any, target: Any) -> Any:
    """Return whether chips beat a blind. From ante 39 on never: the target is infinite, in the game NaN."""
    return chips >= target and not np.isinf(target)


@kernel
def progress(chips: Any, target: Any) -> Any:
    """Return the beaten share of a blind, 0 to 1. An infinite target (ante 39 and later) gives 0."""
    if reached(chips, target):
        return 1.0
    return 0.0 if np.isinf(target) else max(0.0, chips / max(1.0, target))


@kernel
def choose_boss(s: Any, queue: Any) -> None:
    """Choose a boss for the ante, among the allowed ones that appeared least often."""
    boss = given(queue, GIVEN_BOSS)
    if boss <= 0:
        ante = max(1, s[st.ANTE])
        finale = ante % WIN_ANTE == 0 and s[st.ANTE] >= 2
        fewest = 1 << 30
        count = 0
        for b in range(nm.BL_HOOK, nm.BL_FINAL_BELL + 1):
            if _is_allowed_boss(b, ante, finale):
                if s[st.BOSS_USED + b] < fewest:
                    fewest = s[st.BOSS_USED + b]
                    count = 0
                if s[st.BOSS_USED + b] == fewest:
                    count += 1
        wanted = below(s, streams.BOSS, count)
        for b in BOSS_ORDER:
            if _is_allowed_boss(b, ante, finale) and s[st.BOSS_USED + b] == fewest:
                if wanted == 0:
                    boss = b
                    break
                wanted -= 1
    s[st.BOSS_USED + boss] += 1
    s[st.BOSS] = boss


@kernel
def _is_allowed_boss(boss: Any, ante: Any, finale: Any) -> Any:
    if finale:
        return SHOWDOWN[boss] == 1
    return SHOWDOWN[boss] == 0 and BOSS_MIN_ANTE[boss] <= ante


@kernel
def boss_debuffs(s: Any, card: Any, smeared: Any, all_faces: Any) -> Any:
    """Return whether the blind being played debuffs a card."""
    blind = s[st.BLIND]
    if s[st.BOSS_OFF] or blind == 0:
        return False
    if BLIND_SUIT[blind] >= 0:
        return is_suit(card, BLIND_SUIT[blind], smeared, True)
    if blind == nm.BL_PLANT:
        return is_face(card, all_faces, True)
    if blind == nm.BL_PILLAR:
        return (card & PLAYED_ANTE) != 0
    return blind == nm.BL_FINAL_LEAF


@kernel
def _debuffs_cards(s: Any) -> Any:
    """Return whether the blind being played debuffs any cards."""
    blind = s[st.BLIND]
    return (
        not s[st.BOSS_OFF]
        and blind != 0
        and (BLIND_SUIT[blind] >= 0 or blind in (nm.BL_PLANT, nm.BL_PILLAR, nm.BL_FINAL_LEAF))
    )


@entry
def refresh_debuffs(s: Any) -> None:
    """Debuff exactly the cards that the blind debuffs. Call it when the blind or a card has changed."""
    if not s[st.DEBUFFING] and not _debuffs_cards(s):
        return
    s[st.DEBUFFING] = _debuffs_cards(s)
    smeared = count_joker(s, nm.J_SMEARED) > 0
    all_faces = count_joker(s, nm.J_PAREIDOLIA) > 0
    for slot in range(s[st.CARD_TOP]):
        card = s[st.CARD + slot]
        if card != 0:
            if boss_debuffs(s, card & ~DEBUFF, smeared, all_faces):
                s[st.CARD + slot] = card | DEBUFF
            else:
                s[st.CARD + slot] = card & ~DEBUFF


@entry
def begin_blind(s: Any, f: Any, queue: Any) -> None:
    """Start the blind on deck, with the effects of its boss that come before the first draw."""
    on_deck = s[st.BLIND_ON_DECK]
    blind = s[st.BOSS] if on_deck == 2 else nm.BL_SMALL + on_deck
    s[st.BLIND] = blind
    s[st.BOSS_OFF] = 0
    s[st.TRIGGERED] = 0
    s[st.EYE_SEEN] = 0
    s[st.MOUTH_HAND] = -1
    s[st.BOSS_TOOK] = 0
    s[st.PREPPED] = 0 if blind == nm.BL_FISH else 1
    f[st.TARGET] = blind_target(s, blind)
    if blind == nm.BL_WATER:
        s[st.BOSS_TOOK] = s[st.DISCARDS_LEFT]
        s[st.DISCARDS_LEFT] = 0
    elif blind == nm.BL_NEEDLE:
        s[st.BOSS_TOOK] = s[st.HANDS_PER_ROUND] - 1
        s[st.HANDS_LEFT] -= s[st.BOSS_TOOK]
    elif blind == nm.BL_MANACLE:
        s[st.HAND_SIZE] -= 1
    elif blind == nm.BL_FINAL_ACORN:
        for i in range(s[st.N_JOKERS]):
            s[st.J_STICKERS + i] |= st.FACE_DOWN
    refresh_debuffs(s)


@kernel
def _shuffle_once(s: Any, f: Any) -> None:
    """Shuffle the jokers from the order of their creation."""
    n = s[st.N_JOKERS]
    for i in range(n):  # W_ACTING is free until a hand is scored: it holds the ages in their new order
        age, at = s[st.J_AGE + i], i
        while at > 0 and s[st.W_ACTING + at - 1] > age:
            s[st.W_ACTING + at] = s[st.W_ACTING + at - 1]
            at -= 1
        s[st.W_ACTING + at] = age
    shuffle(s, streams.AAJK, st.W_ACTING, n)
    for i in range(n):
        for k in range(i, n):
            if s[st.J_AGE + k] == s[st.W_ACTING + i]:
                swap_jokers(s, f, i, k)
                break


@kernel
def shuffle_jokers(s: Any, f: Any, queue: Any) -> None:
    """Shuffle the jokers for Amber Acorn, after every joker had its turn, even if the boss is disabled."""
    if s[st.BLIND] == nm.BL_FINAL_ACORN:
        for _ in range(3):  # the game shuffles three times, each time from the order of creation
            _shuffle_once(s, f)


@kernel
def _show_and_revive_jokers(s: Any, queue: Any) -> None:
    for i in range(s[st.N_JOKERS]):
        s[st.J_STICKERS + i] &= ~st.FACE_DOWN
        if not (s[st.J_STICKERS + i] & st.PERISHABLE and s[st.J_PERISH + i] == 0):
            set_debuffed(s, queue, i, False)


@kernel
def disable_boss(s: Any, f: Any, queue: Any) -> None:
    """Disable the boss (Chicot, Luchador, Verdant Leaf) and undo what it took."""
    blind = s[st.BLIND]
    if s[st.BOSS_OFF] or blind < nm.BL_HOOK:
        return
    s[st.BOSS_OFF] = 1
    for i in range(s[st.N_HAND]):
        s[st.CARD + s[st.HAND + i]] &= ~(HIDDEN | FORCED)
    if blind == nm.BL_WATER:
        change_discards(s, s[st.BOSS_TOOK])
    elif blind == nm.BL_NEEDLE:
        s[st.HANDS_LEFT] += s[st.BOSS_TOOK]
    elif blind == nm.BL_WALL:
        f[st.TARGET] = f[st.TARGET] / 2
    elif blind == nm.BL_FINAL_VESSEL:
        f[st.TARGET] = f[st.TARGET] / 3
    elif blind == nm.BL_MANACLE:
        change_hand_size(s, queue, 1)
        if s[st.PHASE] == nm.SELECTING_HAND:
            draw(s, queue, 1)  # the game draws for the larger hand and once more for the boss
    elif blind in (nm.BL_FINAL_HEART, nm.BL_FINAL_ACORN):
        _show_and_revive_jokers(s, queue)
    refresh_debuffs(s)


@kernel
def end_blind(s: Any, queue: Any) -> None:
    """Undo the effects of the beaten blind on hand size and jokers."""
    if s[st.BLIND] == nm.BL_MANACLE and not s[st.BOSS_OFF]:
        s[st.HAND_SIZE] += 1
    _show_and_revive_jokers(s, queue)
    s[st.BLIND] = 0
    s[st.BOSS_OFF] = 0


@kernel
def after_draw(s: Any, queue: Any) -> None:
    """Apply the boss effects that follow a draw."""
    if not s[st.BOSS_OFF]:
        if s[st.BLIND] == nm.BL_FINAL_BELL and s[st.N_HAND] > 0:
            forced = False
            for i in range(s[st.N_HAND]):
                forced = forced or (s[st.CARD + s[st.HAND + i]] & FORCED) != 0
            if not forced:
                s[st.CARD + s[st.HAND + pick_from_hand(s, queue, streams.CERULEAN_BELL)]] |= FORCED
        elif s[st.BLIND] == nm.BL_FINAL_HEART and s[st.PREPPED] and s[st.N_JOKERS] > 0:
            _debuff_one_joker(s, queue)
    s[st.PREPPED] = 0


@kernel
def _debuff_one_joker(s: Any, queue: Any) -> None:
    """Debuff one joker for Crimson Heart, not the one debuffed for the previous hand."""
    n = s[st.N_JOKERS]
    free, candidates = 0, 0
    for i in range(n):
        if not s[st.J_STICKERS + i] & st.DEBUFFED or n < 2:
            free += 1
            candidates |= 1 << i
    chosen = -1
    if free > 0:
        chosen = pick_by_age(s, queue, streams.CRIMSON_HEART, st.J_AGE, candidates, free)
    for i in range(n):
        if not (s[st.J_STICKERS + i] & st.PERISHABLE and s[st.J_PERISH + i] == 0):
            set_debuffed(s, queue, i, False)
    if chosen >= 0:
        set_debuffed(s, queue, chosen, True)


@kernel
def boss_forbids(s: Any, hand: Any, n_cards: Any) -> Any:
    """Return whether the boss makes this hand score nothing. Applies the effects of The Arm and The Ox."""
    s[st.TRIGGERED] = 0
    blind = s[st.BLIND]
    if s[st.BOSS_OFF] or blind < nm.BL_HOOK:
        return False
    if blind == nm.BL_PSYCHIC:
        s[st.TRIGGERED] = n_cards < 5
        return n_cards < 5
    if blind == nm.BL_EYE:
        seen = (s[st.EYE_SEEN] >> hand) & 1
        s[st.EYE_SEEN] |= 1 << hand
        s[st.TRIGGERED] = seen
        return seen == 1
    if blind == nm.BL_MOUTH:
        if s[st.MOUTH_HAND] >= 0 and s[st.MOUTH_HAND] != hand:
            s[st.TRIGGERED] = 1
            return True
        s[st.MOUTH_HAND] = hand
    elif blind == nm.BL_ARM:
        if s[st.LEVEL + hand] > 1:
            s[st.TRIGGERED] = 1
            s[st.LEVEL + hand] -= 1
    elif blind == nm.BL_OX and hand == s[st.MOST_PLAYED]:
        s[st.TRIGGERED] = 1
        s[st.MONEY] = 0
    return False


@kernel
def flint_halves(s: Any) -> Any:
    """Return whether The Flint halves base chips and mult, and mark the boss as triggered."""
    if s[st.BLIND] == nm.BL_FLINT and not s[st.BOSS_OFF]:
        s[st.TRIGGERED] = 1
        return True
    return False
