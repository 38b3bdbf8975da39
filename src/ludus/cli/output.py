"""Output of a command: text for people on the console, one JSON object as the last line of stdout for scripts."""

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
    """Output of one command. With `json`, stdout contains only the JSON object; the rest goes to stderr.

    A `listing` has the same content in JSON as in its table, so `json` leaves the table out.
    """

    def __init__(
        self, json: bool = False, *, quiet: bool = False, verbose: bool = False, listing: bool = False
    ) -> None:
        from ludus.tracking.progress import PlainConsole

        self.json = json
        self.verbosity: Verbosity = "quiet" if quiet else "verbose" if verbose else "normal"
        self._mute = quiet or (listing and json)
        self.console = PlainConsole(stderr=json)
        setup_logging(_LOG_LEVELS[self.verbosity])

    @property
    def interactive(self) -> bool:
        """Return True if a user at a terminal can answer a question."""
        return not (self.json or self._mute) and sys.stdin.isatty() and sys.stdout.isatty()

    def display(self) -> ProgressDisplay:
        """The progress display of a training."""
        from ludus.tracking.progress import ProgressDisplay

        return ProgressDisplay(self.console, self.verbosity)

    def print(self, *parts: RenderableType) -> None:
        """Text or a table for people; nothing when quiet."""
        if not self._mute:
            plain = [_shown(part) if isinstance(part, str) else _without_markup(part) for part in parts]
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
            print(_shown(short))


def _shown(text: str) -> str:
    return printable(text, keep="\n\t")


def _without_markup(part: RenderableType) -> RenderableType:
    """A table with its strings as text: a string would be read for markup."""
    from rich.table import Table
    from rich.text import Text

    if isinstance(part, Table):
        for column in part.columns:
            column._cells = [Text(_shown(cell)) if isinstance(cell, str) else cell for cell in column._cells]
    return part


def emit_json(data: Mapping[str, Any]) -> None:
    """One line of strict JSON on stdout; numbers that JSON does not know become null."""
    try:
        text = json.dumps(_finite(data), allow_nan=False, default=str)
    except RecursionError:  # an untrusted file may be nested as deeply as the parser allows
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
