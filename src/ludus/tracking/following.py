"""Reads a JSON Lines file as it grows: from where the last read ended, whole lines only.

A resumed run cuts its files back to its checkpoint. A reader notices by the bytes before its position, and starts over.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np

from ludus.tracking.jsonl import LONGEST_LINE
from ludus.types import Array

_CHUNK = 4 << 20
_TAIL = 48
_LARGEST = sys.float_info.max
_MAX_NAMES, _LONGEST_NAME = 4_000, 500
_MAX_POINTS = 8_000_000
_FEW_POINTS = 1_000  # of one name: this many are always kept


@dataclass(frozen=True)
class Position:
    """A position in a file, after a whole line; `tail`, the last bytes before it, detects a changed file."""

    offset: int = 0
    tail: str = ""


START = Position()


class Follower:
    """Reads the rows of `path` in any number of calls; after each, `position` is where the next begins."""

    def __init__(self, path: Path | str, since: Position = START) -> None:
        self.path = Path(path)
        self.position = since
        self.rewound = False
        """The last read started at the beginning, because the file is not the one that was read before."""
        self.damaged = 0
        """Number of invalid lines that the last read skipped."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows since the last read; consume the iterator to its end.

        A missing file has no rows; invalid lines are skipped and counted.
        """
        self.rewound, self.damaged = False, 0
        try:
            file = _open_plain(self.path)
        except (FileNotFoundError, NotADirectoryError):
            self.rewound = self.position != START
            self.position = START
            return
        with file:
            if not _is_here(file, self.position):
                self.rewound, self.position = True, START
            file.seek(self.position.offset)
            rest, dropped = b"", 0
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for number, line in enumerate(lines):
                    row = None if dropped and number == 0 else _parse(line)
                    if row is not None:
                        yield row
                    elif line.strip() or (dropped and number == 0):
                        self.damaged += 1
                if lines:
                    offset = self.position.offset + dropped + sum(len(line) + 1 for line in lines)
                    self.position = Position(offset, lines[-1][-_TAIL:].decode("latin-1"))
                    dropped = 0
                if len(rest) > LONGEST_LINE or dropped:  # no row is this long
                    dropped += len(rest)
                    rest = b""


def last_row(path: Path | str) -> dict[str, Any] | None:
    """Return the newest whole row of `path` without reading the rest; None if the file has no row."""
    try:
        with _open_plain(Path(path)) as file:
            end, size = file.seek(0, os.SEEK_END), 8192
            while True:
                start = max(0, end - size)
                file.seek(start)
                lines = file.read(end - start).split(b"\n")
                # the first may lack its beginning, the last is empty or torn
                for line in reversed(lines[1 if start else 0 : -1]):
                    row = _parse(line)
                    if row is not None:
                        return row
                if start == 0 or size > LONGEST_LINE:
                    return None
                size *= 8
    except OSError:
        return None


@dataclass(frozen=True)
class MetricSeries:
    """One metric over time: env steps, values, and seconds of training, each of the same length."""

    steps: Array
    values: Array
    seconds: Array

    def __len__(self) -> int:
        return len(self.steps)

    def thinned(self, max_points: int | None) -> MetricSeries:
        """Return at most `max_points` points: the lowest and the highest of every interval, which keeps the peaks."""
        if max_points is None or len(self) <= max_points:
            return self
        keep = thin(self.values, max_points)
        return MetricSeries(self.steps[keep], self.values[keep], self.seconds[keep])


@dataclass
class Columns:
    """The numbers of rows, one column per name.

    A column with more points than a plot can show keeps the lowest and highest of every interval: memory is
    bounded for any file.
    """

    names: Collection[str] | None = None
    """Names of the columns to read; None reads all."""
    clock: str | None = None
    """The column with the training time, in seconds."""
    rows: int = 0
    stray: int = 0
    """Number of rows left out because they have no step."""
    _steps: dict[str, array[float]] = field(default_factory=dict)
    _values: dict[str, array[float]] = field(default_factory=dict)
    _ticks: array[float] = field(default_factory=lambda: array("d", [0.0]))
    _times: array[float] = field(default_factory=lambda: array("d", [0.0]))
    _points: int = 0

    def take(self, row: Mapping[str, Any]) -> None:
        """Add the numbers of `row`; null (a number that was not finite), text and lists are left out."""
        step = row.get("step")
        if not is_number(step):
            self.stray += 1
            return
        self.rows += 1
        for name, value in row.items():
            if name == "step" or (self.names is not None and name not in self.names):
                continue
            if is_number(value):
                if name not in self._steps and (len(self._steps) >= _MAX_NAMES or len(name) > _LONGEST_NAME):
                    continue
                self._steps.setdefault(name, array("d")).append(step)
                self._values.setdefault(name, array("d")).append(value)
                self._points += 1
        seconds = None if self.clock is None else row.get(self.clock)
        if is_number(seconds):
            self._ticks.append(step)
            self._times.append(seconds)
        if self._points > _MAX_POINTS:
            self._thin_out()

    def __contains__(self, name: str) -> bool:
        """Return True if there is a column of that name. Of too many columns, the first are kept."""
        return name in self._steps

    def series(self, max_points: int | None = None) -> dict[str, MetricSeries]:
        """Return all series so far. The time of rows without one, such as evaluations, is interpolated."""
        return {name: self.one(name).thinned(max_points) for name in self._steps}

    def _thin_out(self) -> None:
        """Keep half of the points of every long column."""
        for name, values in self._values.items():
            if len(values) > _FEW_POINTS:
                keep = thin(np.array(values), len(values) // 2)
                self._steps[name] = _thinned(self._steps[name], keep)
                self._values[name] = _thinned(values, keep)
        if len(self._ticks) > _FEW_POINTS:
            every_second = np.arange(0, len(self._ticks), 2)
            self._ticks = _thinned(self._ticks, every_second)
            self._times = _thinned(self._times, every_second)
        self._points = sum(map(len, self._values.values()))

    def one(self, name: str) -> MetricSeries:
        """Return one column; empty if no column has that name."""
        # copies: an array whose memory is exported cannot grow
        steps = np.array(self._steps.get(name, ()), dtype=float)
        values = np.array(self._values.get(name, ()), dtype=float)
        return MetricSeries(steps, values, np.interp(steps, np.array(self._ticks), np.array(self._times)))


def _thinned(column: array[float], keep: Array) -> array[float]:
    return array("d", np.array(column)[keep])


def thin(values: Array, max_points: int) -> Array:
    """Return at most `max_points` sorted indices: both ends, and the lowest and highest of equal intervals."""
    count = len(values)
    if count <= max_points:
        return np.arange(count)
    if max_points < 4:
        return np.linspace(0, count - 1, max(max_points, 1)).astype(int)
    stretches = (max_points - 2) // 2
    width = -(-(count - 2) // stretches)
    inner = np.asarray(values[1:-1], dtype=float)
    padded = np.concatenate([inner, np.full(stretches * width - len(inner), np.nan)]).reshape(
        stretches, width
    )
    used = ~np.isnan(padded).all(axis=1)
    starts = 1 + np.arange(stretches)[used] * width
    low = starts + np.nanargmin(padded[used], axis=1)
    high = starts + np.nanargmax(padded[used], axis=1)
    return np.unique(np.concatenate([[0], low, high, [count - 1]]))


def is_number(value: object) -> TypeGuard[float]:
    """Return True if `value` is a finite number that fits a float."""
    return isinstance(value, int | float) and -_LARGEST <= value <= _LARGEST


def _open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading. Links (to any file) and pipes (which block) count as missing."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(f"{path} is a link") from None
        raise
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileNotFoundError(f"{path} is not a plain file")
    return file


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _is_here(file: Any, position: Position) -> bool:
    """Return True if the bytes before `position` are still those that were read."""
    tail = position.tail.encode("latin-1")
    if position.offset == 0:
        return True
    file.seek(max(position.offset - len(tail) - 1, 0))
    found: bytes = file.read(len(tail) + 1)
    return found == tail + b"\n"
