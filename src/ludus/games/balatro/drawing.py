"""Drawing cards into the hand, and which of them come face down."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import HIDDEN, IDENTITY, from_draw_pile, is_face, sort_hand
from ludus.games.balatro.chance import GIVEN_DRAW, below, given, happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import count_joker, luck


@kernel
def _comes_face_down(s: Any, q: Any, card: Any) -> Any:
    blind = s[st.BLIND]
    if s[st.BOSS_OFF] or blind == 0:
        return False
    if blind == nm.BL_HOUSE:
        return s[st.HANDS_THIS_ROUND] == 0 and s[st.DISCARDS_USED] == 0
    if blind == nm.BL_FISH:
        return s[st.PREPPED] == 1
    if blind == nm.BL_MARK:
        return is_face(card, count_joker(s, nm.J_PAREIDOLIA) > 0, True)
    if blind == nm.BL_WHEEL:
        return happens(s, q, luck(s), 7)
    return False


@kernel
def _given_card(s: Any, q: Any) -> Any:
    """Where the next given card lies in the draw pile; -1 without one. Those that lie elsewhere are passed over."""
    identity = given(q, GIVEN_DRAW)
    while identity >= 0:
        for i in range(s[st.N_DRAW]):
            if (s[st.CARD + s[st.DRAW_PILE + i]] & IDENTITY) == identity:
                return i
        identity = given(q, GIVEN_DRAW)
    return -1


@kernel
def draw(s: Any, q: Any, wanted: Any) -> None:
    """Draws up to `wanted` cards from the draw pile into the hand and sorts it."""
    for _ in range(min(wanted, s[st.N_DRAW], st.MAX_HAND - s[st.N_HAND])):
        at = _given_card(s, q)
        if at < 0:
            at = below(s, s[st.N_DRAW])
        place = from_draw_pile(s, at)
        if _comes_face_down(s, q, s[st.CARD + place]):
            s[st.CARD + place] |= HIDDEN
        s[st.HAND + s[st.N_HAND]] = place
        s[st.N_HAND] += 1
    sort_hand(s)


@kernel
def hand_limit(s: Any) -> Any:
    return max(0, s[st.HAND_SIZE] + s[st.ROUND_HAND_SIZE])


@kernel
def draw_up(s: Any, q: Any) -> None:
    """Draws as many cards as the round asks for."""
    wanted = hand_limit(s) - s[st.N_HAND]
    if (
        s[st.BLIND] == nm.BL_SERPENT
        and not s[st.BOSS_OFF]
        and (s[st.HANDS_THIS_ROUND] > 0 or s[st.DISCARDS_USED] > 0)
    ):
        wanted = 3
    draw(s, q, wanted)


@kernel
def change_hand_size(s: Any, q: Any, by: Any) -> None:
    """A larger hand draws its new cards at once while a hand is being selected."""
    s[st.HAND_SIZE] += by
    selecting = s[st.PHASE] == nm.SELECTING_HAND or (
        s[st.PHASE] == nm.TARGETING and s[st.WAITING_BACK] == nm.SELECTING_HAND
    )
    if by > 0 and selecting and s[st.N_HAND] > 0:
        draw(s, q, by)
