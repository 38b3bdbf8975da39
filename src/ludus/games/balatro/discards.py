"""Discarding cards, by the player or by The Hook, and what jokers and seals make of it."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.cards import (
    DEBUFF,
    FORCED,
    HIDDEN,
    destroy_card,
    enhancement_of,
    is_face,
    is_suit,
    rank_shown,
    seal_of,
)
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.joker_hands import cards_destroyed
from ludus.games.balatro.jokers import remove_joker
from ludus.games.balatro.lineup import note_acting
from ludus.games.balatro.names import (
    J_BURNT,
    J_CASTLE,
    J_FACELESS,
    J_GREEN_JOKER,
    J_HIT_THE_ROAD,
    J_MAIL,
    J_RAMEN,
    J_TRADING,
    J_YORICK,
    M_GLASS,
    PURPLE_SEAL,
)
from ludus.games.balatro.pools import create_tarot
from ludus.games.balatro.scoring import name_hand
from ludus.games.balatro.state import (
    CARD,
    CASTLE_SUIT,
    DEBUFFED,
    DISCARDS_USED,
    HAND,
    J_COUNT,
    J_STICKERS,
    J_VALUE,
    JOKER,
    LEVEL,
    MAIL_RANK,
    MONEY,
    N_HAND,
    N_JOKERS,
    N_PLAY,
    PLAY,
    W_ACTING,
    W_ALL_FACES,
    W_CARDS,
    W_SMEARED,
)


@kernel
def _burn(s: Any, n: Any) -> None:
    """Burnt Joker: the first discard of a round raises the level of the hand it would have been."""
    times = 0
    for i in range(s[N_JOKERS]):
        at = s[W_ACTING + i]
        if at >= 0 and s[JOKER + at] == J_BURNT:
            times += 1
    if times > 0:
        hand, _, _ = name_hand(s, s[W_CARDS : W_CARDS + 5], n)
        s[LEVEL + hand] += times


@kernel
def _jokers_on_discard(s: Any, f: Any, q: Any, card: Any, last: Any, n: Any, faces: Any) -> Any:
    """Every joker, left to right, sees one card go; whether it is destroyed instead."""
    debuffed = (card & DEBUFF) != 0
    destroyed = False
    for i in range(s[N_JOKERS]):
        at = s[W_ACTING + i]
        joker = s[JOKER + at] if at >= 0 else 0
        if joker == J_MAIL:
            if not debuffed and rank_shown(card) == s[MAIL_RANK]:
                s[MONEY] += 5
        elif joker == J_FACELESS:
            if last and faces >= 3:
                s[MONEY] += 5
        elif at == i:
            if joker == J_RAMEN:
                f[J_VALUE + i] -= 0.01
            elif joker == J_YORICK:
                s[J_COUNT + i] -= 1
                if s[J_COUNT + i] <= 0:
                    s[J_COUNT + i] = 23
                    f[J_VALUE + i] += 1.0
            elif joker == J_TRADING:
                if s[DISCARDS_USED] == 0 and n == 1:
                    s[MONEY] += 3
                    destroyed = True
            elif joker == J_CASTLE:
                if is_suit(card, s[CASTLE_SUIT], s[W_SMEARED], False):
                    f[J_VALUE + i] += 3.0
            elif joker == J_HIT_THE_ROAD:
                if not debuffed and rank_shown(card) == 11:
                    f[J_VALUE + i] += 0.5
            elif joker == J_GREEN_JOKER and last:
                f[J_VALUE + i] = max(0.0, f[J_VALUE + i] - 1.0)
    return destroyed


@kernel
def _remove_eaten(s: Any, f: Any, q: Any) -> None:
    """Ramen that is worth nothing any more leaves, once the whole discard is over."""
    for i in range(s[N_JOKERS] - 1, -1, -1):
        if s[JOKER + i] == J_RAMEN and f[J_VALUE + i] <= 1.0 and not s[J_STICKERS + i] & DEBUFFED:
            remove_joker(s, f, q, i)


assert N_PLAY == PLAY + 5, "take_from_hand writes there"


@kernel
def take_from_hand(s: Any, bits: Any) -> None:
    """Moves the cards at these positions of the hand, five at most, to PLAY, in their order.

    Every card is written to both rows, and the row that it is not for is written over: which cards are taken cannot be
    foreseen, and a processor that guesses wrong loses more. After five cards that is N_PLAY, which comes last.
    """
    taken, kept = 0, 0
    for i in range(s[N_HAND]):
        place = s[HAND + i]
        takes = (bits >> i) & 1
        s[CARD + place] &= ~((HIDDEN | FORCED) * takes)
        s[PLAY + taken] = place
        s[HAND + kept] = place
        taken += takes
        kept += 1 - takes
    s[N_PLAY] = taken
    s[N_HAND] = kept


@kernel
def discard_cards(s: Any, f: Any, q: Any, bits: Any, by_hook: Any) -> None:
    """Discards the cards at these positions of the hand. PLAY is left empty: keep it before, if it is needed."""
    take_from_hand(s, bits)
    note_acting(s)
    n = s[N_PLAY]
    all_faces = s[W_ALL_FACES]
    faces = 0
    for k in range(n):
        s[W_CARDS + k] = s[CARD + s[PLAY + k]]
        if is_face(s[W_CARDS + k], all_faces, False):
            faces += 1
    if not by_hook and s[DISCARDS_USED] == 0:
        _burn(s, n)
    lost_faces, lost_glass = 0, 0
    for k in range(n):
        card = s[W_CARDS + k]
        if seal_of(card) == PURPLE_SEAL and not card & DEBUFF:
            create_tarot(s, q)
        if _jokers_on_discard(s, f, q, card, k == n - 1, n, faces):
            if is_face(card, all_faces, False):
                lost_faces += 1
            if enhancement_of(card) == M_GLASS:
                lost_glass += 1
            destroy_card(
                s, s[PLAY + k]
            )  # only a single card is ever destroyed, so the others keep their place
    s[N_PLAY] = 0
    _remove_eaten(s, f, q)
    if lost_faces + lost_glass > 0:
        cards_destroyed(s, f, lost_faces, lost_glass)
