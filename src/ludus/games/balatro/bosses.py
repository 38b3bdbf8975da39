"""Boss blinds: how large a blind is, what each boss does, and what happens when it is disabled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import DEBUFF, FORCED, HIDDEN, PLAYED_ANTE, is_face, is_suit
from ludus.games.balatro.chance import GIVEN_BOSS, below, given, position
from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.drawing import change_hand_size, draw
from ludus.games.balatro.facts import ANTE_BASE, BLIND_MULT, BLIND_SUIT, BOSS_MIN_ANTE, SHOWDOWN
from ludus.games.balatro.jokers import change_discards, set_debuffed, swap_jokers
from ludus.games.balatro.lineup import count_joker

WIN_ANTE = 8


@kernel
def ante_chips(ante: Any, stake: Any) -> Any:
    """The chips that an ante asks for; past ante 8 the game's own formula."""
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
    """The chips that beat a blind."""
    target = ante_chips(s[st.ANTE], s[st.STAKE]) * BLIND_MULT[blind]
    return target * 2 if s[st.DECK] == nm.B_PLASMA else target


@kernel
def progress(chips: Any, target: Any) -> Any:
    """How much of a blind is beaten, 0 to 1; a target past all numbers (ante 39 and later) is never nearer."""
    if chips >= target:
        return 1.0
    return 0.0 if np.isinf(target) else max(0.0, chips / max(1.0, target))


@kernel
def choose_boss(s: Any, q: Any) -> None:
    """A boss for the ante, among those allowed there that were met least often."""
    boss = given(q, GIVEN_BOSS)
    if boss <= 0:
        ante = max(1, s[st.ANTE])
        finale = ante % WIN_ANTE == 0 and s[st.ANTE] >= 2
        fewest = 1 << 30
        count = 0
        for b in range(nm.BL_HOOK, nm.BL_FINAL_BELL + 1):
            if _may_come(b, ante, finale):
                if s[st.BOSS_USED + b] < fewest:
                    fewest = s[st.BOSS_USED + b]
                    count = 0
                if s[st.BOSS_USED + b] == fewest:
                    count += 1
        wanted = below(s, count)
        for b in range(nm.BL_HOOK, nm.BL_FINAL_BELL + 1):
            if _may_come(b, ante, finale) and s[st.BOSS_USED + b] == fewest:
                if wanted == 0:
                    boss = b
                    break
                wanted -= 1
    s[st.BOSS_USED + boss] += 1
    s[st.BOSS] = boss


@kernel
def _may_come(boss: Any, ante: Any, finale: Any) -> Any:
    if finale:
        return SHOWDOWN[boss] == 1
    return SHOWDOWN[boss] == 0 and BOSS_MIN_ANTE[boss] <= ante


@kernel
def boss_debuffs(s: Any, card: Any, smeared: Any, all_faces: Any) -> Any:
    """Whether the blind being played debuffs a card."""
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
    """Whether the blind being played debuffs any cards at all."""
    blind = s[st.BLIND]
    return (
        not s[st.BOSS_OFF]
        and blind != 0
        and (BLIND_SUIT[blind] >= 0 or blind in (nm.BL_PLANT, nm.BL_PILLAR, nm.BL_FINAL_LEAF))
    )


@entry
def refresh_debuffs(s: Any) -> None:
    """Debuffs exactly the cards that the blind debuffs; to be called when the blind or any card changed."""
    if not s[st.DEBUFFING] and not _debuffs_cards(s):
        return
    s[st.DEBUFFING] = _debuffs_cards(s)
    smeared = count_joker(s, nm.J_SMEARED) > 0
    all_faces = count_joker(s, nm.J_PAREIDOLIA) > 0
    for place in range(s[st.CARD_TOP]):
        card = s[st.CARD + place]
        if card != 0:
            if boss_debuffs(s, card & ~DEBUFF, smeared, all_faces):
                s[st.CARD + place] = card | DEBUFF
            else:
                s[st.CARD + place] = card & ~DEBUFF


@entry
def begin_blind(s: Any, f: Any, q: Any) -> None:
    """Puts the blind on deck into play, with what its boss does before any card is drawn."""
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
def shuffle_jokers(s: Any, f: Any, q: Any) -> None:
    """Amber Acorn mixes the jokers once all of them had their turn in the order they stood in, even if disabled."""
    if s[st.BLIND] == nm.BL_FINAL_ACORN:
        for i in range(s[st.N_JOKERS] - 1, 0, -1):
            swap_jokers(s, f, i, position(s, q, i + 1))


@kernel
def _show_and_revive_jokers(s: Any, q: Any) -> None:
    for i in range(s[st.N_JOKERS]):
        s[st.J_STICKERS + i] &= ~st.FACE_DOWN
        if not (s[st.J_STICKERS + i] & st.PERISHABLE and s[st.J_PERISH + i] == 0):
            set_debuffed(s, q, i, False)


@kernel
def disable_boss(s: Any, f: Any, q: Any) -> None:
    """Chicot, Luchador, Verdant Leaf: the boss does nothing more, and gives back what it took."""
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
        change_hand_size(s, q, 1)
        if s[st.PHASE] == nm.SELECTING_HAND:
            draw(s, q, 1)  # the game draws for the larger hand and once more for the boss
    elif blind in (nm.BL_FINAL_HEART, nm.BL_FINAL_ACORN):
        _show_and_revive_jokers(s, q)
    refresh_debuffs(s)


@kernel
def end_blind(s: Any, q: Any) -> None:
    """The blind is beaten: what it did to hand and jokers ends."""
    if s[st.BLIND] == nm.BL_MANACLE and not s[st.BOSS_OFF]:
        s[st.HAND_SIZE] += 1
    _show_and_revive_jokers(s, q)
    s[st.BLIND] = 0
    s[st.BOSS_OFF] = 0


@kernel
def after_draw(s: Any, q: Any) -> None:
    """What bosses do once the hand has been drawn."""
    if not s[st.BOSS_OFF]:
        if s[st.BLIND] == nm.BL_FINAL_BELL and s[st.N_HAND] > 0:
            forced = False
            for i in range(s[st.N_HAND]):
                forced = forced or (s[st.CARD + s[st.HAND + i]] & FORCED) != 0
            if not forced:
                s[st.CARD + s[st.HAND + position(s, q, s[st.N_HAND])]] |= FORCED
        elif s[st.BLIND] == nm.BL_FINAL_HEART and s[st.PREPPED] and s[st.N_JOKERS] > 0:
            _debuff_one_joker(s, q)
    s[st.PREPPED] = 0


@kernel
def _debuff_one_joker(s: Any, q: Any) -> None:
    """Crimson Heart takes a joker that it did not take for the hand before."""
    n = s[st.N_JOKERS]
    free = 0
    for i in range(n):
        if not s[st.J_STICKERS + i] & st.DEBUFFED or n < 2:
            free += 1
    wanted = position(s, q, free) if free > 0 else 0
    chosen = -1
    for i in range(n):
        if not s[st.J_STICKERS + i] & st.DEBUFFED or n < 2:
            if wanted == 0 and chosen < 0:
                chosen = i
            wanted -= 1
    for i in range(n):
        if not (s[st.J_STICKERS + i] & st.PERISHABLE and s[st.J_PERISH + i] == 0):
            set_debuffed(s, q, i, False)
    if chosen >= 0:
        set_debuffed(s, q, chosen, True)


@kernel
def boss_forbids(s: Any, hand: Any, n_cards: Any) -> Any:
    """Whether the boss lets this hand score nothing; The Arm and The Ox take their toll here."""
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
    """Whether The Flint halves base chips and mult; it counts as triggered."""
    if s[st.BLIND] == nm.BL_FLINT and not s[st.BOSS_OFF]:
        s[st.TRIGGERED] = 1
        return True
    return False
