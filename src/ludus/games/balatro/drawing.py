"""Drawing cards into the hand, and which of them come face down."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.cards import HIDDEN, IDENTITY, from_draw_pile, is_face, sort_hand
from ludus.games.balatro.chance import GIVEN_DRAW, below, given, happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import count_joker, luck
from ludus.games.balatro.names import (
    BL_FISH,
    BL_HOUSE,
    BL_MARK,
    BL_SERPENT,
    BL_WHEEL,
    J_PAREIDOLIA,
    SELECTING_HAND,
    TARGETING,
)
from ludus.games.balatro.state import (
    BLIND,
    BOSS_OFF,
    CARD,
    DISCARDS_USED,
    DRAW_PILE,
    HAND,
    HAND_SIZE,
    HANDS_THIS_ROUND,
    MAX_HAND,
    N_DRAW,
    N_HAND,
    PHASE,
    PREPPED,
    ROUND_HAND_SIZE,
    WAITING_BACK,
)


@kernel
def _comes_face_down(s: Any, q: Any, card: Any) -> Any:
    blind = s[BLIND]
    if s[BOSS_OFF] or blind == 0:
        return False
    if blind == BL_HOUSE:
        return s[HANDS_THIS_ROUND] == 0 and s[DISCARDS_USED] == 0
    if blind == BL_FISH:
        return s[PREPPED] == 1
    if blind == BL_MARK:
        return is_face(card, count_joker(s, J_PAREIDOLIA) > 0, True)
    if blind == BL_WHEEL:
        return happens(s, q, luck(s), 7)
    return False


@kernel
def _given_card(s: Any, q: Any) -> Any:
    """Where the next given card lies in the draw pile; -1 without one. Those that lie elsewhere are passed over."""
    identity = given(q, GIVEN_DRAW)
    while identity >= 0:
        for i in range(s[N_DRAW]):
            if (s[CARD + s[DRAW_PILE + i]] & IDENTITY) == identity:
                return i
        identity = given(q, GIVEN_DRAW)
    return -1


@kernel
def draw(s: Any, q: Any, wanted: Any) -> None:
    """Draws up to `wanted` cards from the draw pile into the hand and sorts it."""
    for _ in range(min(wanted, s[N_DRAW], MAX_HAND - s[N_HAND])):
        at = _given_card(s, q)
        if at < 0:
            at = below(s, s[N_DRAW])
        place = from_draw_pile(s, at)
        if _comes_face_down(s, q, s[CARD + place]):
            s[CARD + place] |= HIDDEN
        s[HAND + s[N_HAND]] = place
        s[N_HAND] += 1
    sort_hand(s)


@kernel
def hand_limit(s: Any) -> Any:
    return max(0, s[HAND_SIZE] + s[ROUND_HAND_SIZE])


@kernel
def draw_up(s: Any, q: Any) -> None:
    """Draws as many cards as the round asks for."""
    wanted = hand_limit(s) - s[N_HAND]
    if s[BLIND] == BL_SERPENT and not s[BOSS_OFF] and (s[HANDS_THIS_ROUND] > 0 or s[DISCARDS_USED] > 0):
        wanted = 3
    draw(s, q, wanted)


@kernel
def change_hand_size(s: Any, q: Any, by: Any) -> None:
    """A larger hand draws its new cards at once while a hand is being selected."""
    s[HAND_SIZE] += by
    selecting = s[PHASE] == SELECTING_HAND or (s[PHASE] == TARGETING and s[WAITING_BACK] == SELECTING_HAND)
    if by > 0 and selecting and s[N_HAND] > 0:
        draw(s, q, by)
