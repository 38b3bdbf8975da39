"""Enumeration of random outcomes that a recording does not contain, to try until the engine matches the recording."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st

ALL_FAIL = [(chance.GIVEN_PROC, 0)] * 12
_RANKS, _SUITS, _KNOWN_HANDS, _MISPRINTS = range(2, 15), range(4), range(9), range(24)


def hidden_targets(s: Any) -> Iterator[dict[int, int]]:
    """Yield every combination of hidden targets of the held jokers, as cells and values; {} first, for no change."""
    yield {}
    cells: dict[int, range] = {}
    for i in range(int(s[st.N_JOKERS])):
        joker = int(s[st.JOKER + i])
        if joker == n.J_TODO_LIST:
            cells[st.J_COUNT + i] = _KNOWN_HANDS
        elif joker == n.J_MAIL:
            cells[st.MAIL_RANK] = _RANKS
        elif joker == n.J_ANCIENT:
            cells[st.ANCIENT_SUIT] = _SUITS
        elif joker == n.J_CASTLE:
            cells[st.CASTLE_SUIT] = _SUITS
        elif joker == n.J_IDOL:
            cells |= {st.IDOL_RANK: _RANKS, st.IDOL_SUIT: _SUITS}
    for values in product(*cells.values()) if cells else ():
        yield dict(zip(cells, values, strict=True))


def outcomes(procs: int, numbers: int) -> Iterator[list[tuple[int, int]]]:
    """Yield every combination of `procs` chance effects that happen or not and `numbers` numbers of Misprint."""
    drawn = [*product(_MISPRINTS, repeat=min(numbers, 2))]
    for happened in product((0, 1), repeat=min(procs, 9)):
        for mults in drawn:
            yield [
                *((chance.GIVEN_PROC, happens) for happens in happened),
                *((chance.GIVEN_NUMBER, mult) for mult in mults),
            ]
