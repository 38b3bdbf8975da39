"""Discarding cards, by the player or by The Hook, and the effects of jokers and seals on it."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.joker_hands import cards_destroyed
from ludus.games.balatro.jokers import remove_joker
from ludus.games.balatro.lineup import note_acting
from ludus.games.balatro.pools import create_tarot
from ludus.games.balatro.scoring import name_hand


@kernel
def _apply_burnt_joker(s: Any, n: Any) -> None:
    """Apply Burnt Joker: the first discard of a round raises the level of the poker hand that it forms."""
    times = 0
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        if at >= 0 and s[st.JOKER + at] == nm.J_BURNT:
            times += 1
    if times > 0:
        hand, _, _ = name_hand(s, s[st.W_CARDS : st.W_CARDS + 5], n)
        s[st.LEVEL + hand] += times


@kernel
def _jokers_on_discard(s: Any, f: Any, queue: Any, card: Any, last: Any, n: Any, faces: Any) -> Any:
    """Apply every joker, left to right, to one discarded card; return whether the card is destroyed."""
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
def _remove_used_up_ramen(s: Any, f: Any, queue: Any) -> None:
    """Remove Ramen once its value is used up, after the whole discard."""
    for i in range(s[st.N_JOKERS] - 1, -1, -1):
        if (
            s[st.JOKER + i] == nm.J_RAMEN
            and f[st.J_VALUE + i] <= 1.0
            and not s[st.J_STICKERS + i] & st.DEBUFFED
        ):
            remove_joker(s, f, queue, i)


assert st.N_PLAY == st.PLAY + 5, "take_from_hand writes to that cell"


@kernel
def take_from_hand(s: Any, bits: Any) -> None:
    """Move the cards at these positions of the hand, at most five, to PLAY, in their order.

    Every card is written to both rows; the next card overwrites it in the row where it does not belong. This avoids a
    branch that the processor cannot predict. After five cards the overwritten cell is N_PLAY, which is set last.
    """
    taken, kept = 0, 0
    for i in range(s[st.N_HAND]):
        slot = s[st.HAND + i]
        takes = (bits >> i) & 1
        s[st.CARD + slot] &= ~((cards.HIDDEN | cards.FORCED) * takes)
        s[st.PLAY + taken] = slot
        s[st.HAND + kept] = slot
        taken += takes
        kept += 1 - takes
    s[st.N_PLAY] = taken
    s[st.N_HAND] = kept


@kernel
def discard_cards(s: Any, f: Any, queue: Any, bits: Any, by_hook: Any) -> None:
    """Discard the cards at these positions of the hand. PLAY is empty afterwards: save it first if it is needed."""
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
        _apply_burnt_joker(s, n)
    lost_faces, lost_glass = 0, 0
    for k in range(n):
        card = s[st.W_CARDS + k]
        if cards.seal_of(card) == nm.PURPLE_SEAL and not card & cards.DEBUFF:
            create_tarot(s, queue, streams.TAROT8BA)
        if _jokers_on_discard(s, f, queue, card, k == n - 1, n, faces):
            if cards.is_face(card, all_faces, False):
                lost_faces += 1
            if cards.enhancement_of(card) == nm.M_GLASS:
                lost_glass += 1
            cards.destroy_card(
                s, s[st.PLAY + k]
            )  # at most one card is destroyed, so the others keep their position
    s[st.N_PLAY] = 0
    _remove_used_up_ramen(s, f, queue)
    if lost_faces + lost_glass > 0:
        cards_destroyed(s, f, lost_faces, lost_glass)
