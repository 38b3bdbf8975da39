"""Drawing cards into the hand, and boss effects that draw them face down."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.cards import (
    HIDDEN,
    IDENTITY,
    from_draw_pile,
    is_face,
    random_from_draw_pile,
    sort_hand,
)
from ludus.games.balatro.chance import GIVEN_DRAW, given, happens, shuffle_up_to, uniform
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.lineup import count_joker, luck


@kernel
def _comes_face_down(s: Any, queue: Any, card: Any) -> Any:
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
        return happens(s, queue, streams.WHEEL, luck(s), 7)
    return False


@kernel
def _given_card(s: Any, queue: Any) -> Any:
    """Return the position of the next given card in the draw pile; -1 if there is none. Others are skipped."""
    identity = given(queue, GIVEN_DRAW)
    if identity >= 0:
        shuffle_up_to(s, 0)
    while identity >= 0:
        for i in range(s[st.N_DRAW]):
            if (s[st.CARD + s[st.DRAW_PILE + i]] & IDENTITY) == identity:
                return i
        identity = given(queue, GIVEN_DRAW)
    return -1


@kernel
def draw(s: Any, queue: Any, wanted: Any) -> None:
    """Draw up to `wanted` cards from the draw pile into the hand and sort it."""
    count = min(wanted, s[st.N_DRAW], st.MAX_HAND - s[st.N_HAND])
    if not s[st.FAST_RANDOM]:
        shuffle_up_to(s, s[st.N_DRAW] - count)  # one call for all cards is faster than one for each
    for _ in range(count):
        at = _given_card(s, queue)
        if at >= 0:
            slot = from_draw_pile(s, at)
        elif s[st.FAST_RANDOM]:  # a copy of a game whose player must not know the order draws any card
            slot = random_from_draw_pile(s, np.int64(uniform(s, streams.NR) * s[st.N_DRAW]))
        else:
            slot = from_draw_pile(s, s[st.N_DRAW] - 1)
        if _comes_face_down(s, queue, s[st.CARD + slot]):
            s[st.CARD + slot] |= HIDDEN
        s[st.HAND + s[st.N_HAND]] = slot
        s[st.N_HAND] += 1
    sort_hand(s)


@kernel
def hand_limit(s: Any) -> Any:
    return max(0, s[st.HAND_SIZE] + s[st.ROUND_HAND_SIZE])


@kernel
def draw_up(s: Any, queue: Any) -> None:
    """Draw cards up to the hand size, or the three cards of The Serpent."""
    wanted = hand_limit(s) - s[st.N_HAND]
    if (
        s[st.BLIND] == nm.BL_SERPENT
        and not s[st.BOSS_OFF]
        and (s[st.HANDS_THIS_ROUND] > 0 or s[st.DISCARDS_USED] > 0)
    ):
        wanted = 3
    draw(s, queue, wanted)


@kernel
def change_hand_size(s: Any, queue: Any, by: Any) -> None:
    """Change the hand size. While a hand is being selected, a larger hand draws its new cards at once."""
    s[st.HAND_SIZE] += by
    selecting = s[st.PHASE] == nm.SELECTING_HAND or (
        s[st.PHASE] == nm.TARGETING and s[st.WAITING_BACK] == nm.SELECTING_HAND
    )
    if by > 0 and selecting and s[st.N_HAND] > 0:
        draw(s, queue, by)
