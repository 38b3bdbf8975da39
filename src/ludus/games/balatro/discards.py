"""Discarding cards, by the player or by The Hook, and what jokers and seals make of it."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.joker_hands import cards_destroyed
from ludus.games.balatro.jokers import remove_joker
from ludus.games.balatro.lineup import note_acting
from ludus.games.balatro.pools import create_tarot
from ludus.games.balatro.scoring import name_hand


@kernel
def _burn(s: Any, n: Any) -> None:
    """Burnt Joker: the first discard of a round raises the level of the hand it would have been."""
    times = 0
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        if at >= 0 and s[st.JOKER + at] == nm.J_BURNT:
            times += 1
    if times > 0:
        hand, _, _ = name_hand(s, s[st.W_CARDS : st.W_CARDS + 5], n)
        s[st.LEVEL + hand] += times


@kernel
def _jokers_on_discard(s: Any, f: Any, q: Any, card: Any, last: Any, n: Any, faces: Any) -> Any:
    """Every joker, left to right, sees one card go; whether it is destroyed instead."""
    debuffed = (card & cards.DEBUFF) != 0
    destroyed = False
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        joker = s[st.JOKER + at] if at >= 0 else 0
        if joker == nm.J_MAIL:
            if not debuffed and cards.rank_shown(card) == s[st.MAIL_RANK]:
                s[st.MONEY] += 5
        elif joker == nm.J_FACELESS:
            if last and faces >= 3:
                s[st.MONEY] += 5
        elif at == i:
            if joker == nm.J_RAMEN:
                f[st.J_VALUE + i] -= 0.01
            elif joker == nm.J_YORICK:
                s[st.J_COUNT + i] -= 1
                if s[st.J_COUNT + i] <= 0:
                    s[st.J_COUNT + i] = 23
                    f[st.J_VALUE + i] += 1.0
            elif joker == nm.J_TRADING:
                if s[st.DISCARDS_USED] == 0 and n == 1:
                    s[st.MONEY] += 3
                    destroyed = True
            elif joker == nm.J_CASTLE:
                if cards.is_suit(card, s[st.CASTLE_SUIT], s[st.W_SMEARED], False):
                    f[st.J_VALUE + i] += 3.0
            elif joker == nm.J_HIT_THE_ROAD:
                if not debuffed and cards.rank_shown(card) == 11:
                    f[st.J_VALUE + i] += 0.5
            elif joker == nm.J_GREEN_JOKER and last:
                f[st.J_VALUE + i] = max(0.0, f[st.J_VALUE + i] - 1.0)
    return destroyed


@kernel
def _remove_eaten(s: Any, f: Any, q: Any) -> None:
    """Ramen that is worth nothing any more leaves, once the whole discard is over."""
    for i in range(s[st.N_JOKERS] - 1, -1, -1):
        if (
            s[st.JOKER + i] == nm.J_RAMEN
            and f[st.J_VALUE + i] <= 1.0
            and not s[st.J_STICKERS + i] & st.DEBUFFED
        ):
            remove_joker(s, f, q, i)


assert st.N_PLAY == st.PLAY + 5, "take_from_hand writes there"


@kernel
def take_from_hand(s: Any, bits: Any) -> None:
    """Moves the cards at these positions of the hand, five at most, to PLAY, in their order.

    Every card is written to both rows, and the row that it is not for is written over: which cards are taken cannot be
    foreseen, and a processor that guesses wrong loses more. After five cards that is N_PLAY, which comes last.
    """
    taken, kept = 0, 0
    for i in range(s[st.N_HAND]):
        place = s[st.HAND + i]
        takes = (bits >> i) & 1
        s[st.CARD + place] &= ~((cards.HIDDEN | cards.FORCED) * takes)
        s[st.PLAY + taken] = place
        s[st.HAND + kept] = place
        taken += takes
        kept += 1 - takes
    s[st.N_PLAY] = taken
    s[st.N_HAND] = kept


@kernel
def discard_cards(s: Any, f: Any, q: Any, bits: Any, by_hook: Any) -> None:
    """Discards the cards at these positions of the hand. PLAY is left empty: keep it before, if it is needed."""
    take_from_hand(s, bits)
    note_acting(s)
    n = s[st.N_PLAY]
    all_faces = s[st.W_ALL_FACES]
    faces = 0
    for k in range(n):
        s[st.W_CARDS + k] = s[st.CARD + s[st.PLAY + k]]
        if cards.is_face(s[st.W_CARDS + k], all_faces, False):
            faces += 1
    if not by_hook and s[st.DISCARDS_USED] == 0:
        _burn(s, n)
    lost_faces, lost_glass = 0, 0
    for k in range(n):
        card = s[st.W_CARDS + k]
        if cards.seal_of(card) == nm.PURPLE_SEAL and not card & cards.DEBUFF:
            create_tarot(s, q)
        if _jokers_on_discard(s, f, q, card, k == n - 1, n, faces):
            if cards.is_face(card, all_faces, False):
                lost_faces += 1
            if cards.enhancement_of(card) == nm.M_GLASS:
                lost_glass += 1
            cards.destroy_card(
                s, s[st.PLAY + k]
            )  # only a single card is ever destroyed, so the others keep their place
    s[st.N_PLAY] = 0
    _remove_eaten(s, f, q)
    if lost_faces + lost_glass > 0:
        cards_destroyed(s, f, lost_faces, lost_glass)
