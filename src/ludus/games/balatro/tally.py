"""Changes of a hand's chips and mult, each logged on request.

`log` is a float64 array of rows (source, index, what, amount, chips, mult); row 0 holds only the number of entries.
In training it has no rows and nothing is logged.
"""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.state import MONEY, W_CHIPS, W_MULT

FROM_HAND, FROM_CARD, FROM_HELD, FROM_JOKER, FROM_CONSUMABLE, FROM_BLIND, FROM_DECK = range(7)
ADD_CHIPS, ADD_MULT, TIMES_MULT, ADD_MONEY, SET_BOTH = range(5)


@kernel
def note(f: Any, log: Any, source: Any, index: Any, what: Any, amount: Any) -> None:
    """Append the latest change of chips and mult to the log."""
    if len(log) == 0:
        return
    row = int(log[0, 0]) + 1
    if row >= len(log):
        return
    log[0, 0] = row
    log[row, 0] = source
    log[row, 1] = index
    log[row, 2] = what
    log[row, 3] = amount
    log[row, 4] = f[W_CHIPS]
    log[row, 5] = f[W_MULT]


@kernel
def add_chips(f: Any, log: Any, source: Any, index: Any, amount: Any) -> None:
    f[W_CHIPS] += amount
    note(f, log, source, index, ADD_CHIPS, amount)


@kernel
def add_mult(f: Any, log: Any, source: Any, index: Any, amount: Any) -> None:
    f[W_MULT] += amount
    note(f, log, source, index, ADD_MULT, amount)


@kernel
def times_mult(f: Any, log: Any, source: Any, index: Any, factor: Any) -> None:
    f[W_MULT] *= factor
    note(f, log, source, index, TIMES_MULT, factor)


@kernel
def add_money(s: Any, f: Any, log: Any, source: Any, index: Any, amount: Any) -> None:
    s[MONEY] += amount
    note(f, log, source, index, ADD_MONEY, amount)
