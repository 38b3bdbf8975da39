"""How a command speaks: text for people on the console, one JSON object as the last line of stdout for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ludus.errors import UserError, printable
from ludus.tracking.logs import setup_logging

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ludus.tracking.progress import ProgressDisplay, Verbosity

_LOG_LEVELS = {"quiet": "ERROR", "normal": "INFO", "verbose": "DEBUG"}


class Output:
    """What one command prints. With `json`, stdout carries the JSON object only and the rest goes to stderr.

    A `listing` says the same in JSON as in its table, so that the table is left out then.
    """

    def __init__(
        self, json: bool = False, *, quiet: bool = False, verbose: bool = False, listing: bool = False
    ) -> None:
        from rich.console import Console

        self.json = json
        self.verbosity: Verbosity = "quiet" if quiet else "verbose" if verbose else "normal"
        self._mute = quiet or (listing and json)
        self.console = Console(stderr=json, highlight=False)
        setup_logging(_LOG_LEVELS[self.verbosity])

    def display(self) -> ProgressDisplay:
        """The progress display of a training."""
        from ludus.tracking.progress import ProgressDisplay

        return ProgressDisplay(self.console, self.verbosity)

    def print(self, *parts: RenderableType) -> None:
        """Text or a table for people; nothing when quiet."""
        if not self._mute:
            plain = [_shown(part) if isinstance(part, str) else _harmless(part) for part in parts]
            self.console.print(*plain, soft_wrap=all(isinstance(part, str) for part in parts), markup=False)

    def pairs(self, rows: Sequence[tuple[str, str]]) -> None:
        """Labels with their values, one under the other. An empty label continues the one above."""
        from rich.text import Text

        width = max((len(label) for label, _ in rows), default=0)
        for label, value in rows:
            if not self._mute:
                line = Text.assemble("  ", (label.ljust(width), "dim"), "  ", _shown(value))
                self.console.print(line, soft_wrap=True)

    def result(self, data: Mapping[str, Any], short: str | None = None) -> None:
        """The outcome: the JSON object if asked for, else `short` where quiet left nothing to read."""
        if self.json:
            emit_json(data)
        elif self._mute and short is not None:
            print(short)


def _shown(text: str) -> str:
    """`text` with whatever else than lines and tabs would steer a terminal written out: it may come from a stranger."""
    return (
        "".join(char if char in "\n\t" else printable(char) for char in text)
        if not text.isprintable()
        else text
    )


def _harmless(part: RenderableType) -> RenderableType:
    """A text or a table of them as `_shown` has strings, but of the same length: styles are told by position."""
    from rich.table import Table
    from rich.text import Text

    if isinstance(part, Text) and not part.plain.isprintable():
        part = part.copy()
        part.plain = "".join(
            char if char in "\n\t" or char.isprintable() else "\ufffd" for char in part.plain
        )
    elif isinstance(part, Table):
        for column in part.columns:
            # as text: a string would be read for markup
            column._cells = [
                Text(_shown(cell)) if isinstance(cell, str) else _harmless(cell) for cell in column._cells
            ]
    return part


def emit_json(data: Mapping[str, Any]) -> None:
    """One line of strict JSON on stdout; numbers that JSON does not know become null."""
    try:
        text = json.dumps(_finite(data), allow_nan=False, default=str)
    except RecursionError:  # a stranger's file may be nested as deeply as it can just be read
        raise UserError("the result is nested too deeply for JSON", fix="leave out --json") from None
    print(text, file=sys.stdout, flush=True)


def plain_table(*columns: str, right: Sequence[str] = (), wrap: Sequence[str] = ()) -> Table:
    """A table without lines: `right` names columns of numbers, `wrap` those that give way when it is narrow."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column not in wrap,
            overflow="fold",
        )
    return table


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
