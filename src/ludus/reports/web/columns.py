"""The numbers of all runs in one SQLite file: each metric a column, cut into blocks, read without touching JSON.

It is a cache of the metrics files and may be deleted at any time. Each row is read once: the store remembers how
far each file was read, and the bytes before every block. A resume truncates the file; then only the blocks after the
cut are read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ludus.posix import lock_file
from ludus.types import Array

BLOCK = 2048
"""Rows in a block."""

CLOCKS = ("step", "updates", "episodes", "time/seconds")
"""Columns that count: kept in double precision, and good for an x axis."""

_FORMAT = 2
_CHUNK = 2 << 20
_TAIL = 64
_MAX_METRICS = 1000
_log = logging.getLogger("ludus.reports")


@dataclass
class Mark:
    """Position up to which a metrics file was read; `tail` are the bytes before it, to recognise the position."""

    offset: int = 0
    tail: str = ""
    damaged: int = 0
    """Lines up to here that are not rows, or have no step."""


@dataclass
class ReadProgress:
    """State of one run in the store."""

    rows: int = 0
    end: Mark = field(default_factory=Mark)
    blocks: list[Mark] = field(default_factory=list)
    """End of each full block."""
    epoch: int = 0
    """Number of times that rows were removed."""
    last: dict[str, float] = field(default_factory=dict)
    """The newest finite value of each metric."""


class ColumnStore:
    """The columns of many runs. Safe to use from several threads; one process at a time has the file."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file `path`; a temporary one for None, or if `path` is not available."""
        self._lock = threading.RLock()
        self._temporary: Path | None = None
        self._guard: int | None = None
        self._names: dict[str, int] = {}
        self._db = self._open(path)

    def runs(self) -> dict[str, ReadProgress]:
        """Return the state of every run in the store."""
        with self._lock:
            found = self._db.execute("SELECT run, taken FROM runs").fetchall()
        return {run: _parse_progress(text) for run, text in found}

    def read_rows(
        self, run: str, file: BinaryIO, progress: ReadProgress, stop: Callable[[], bool] = lambda: False
    ) -> bool:
        """Read the new rows of `file`, the metrics of `run`, and update `progress`. Return True if anything changed.

        Only whole lines are read. `stop` is called between chunks; rows read before it returns True are kept.
        """
        changed = self._go_back(run, file, progress)
        file.seek(progress.end.offset)
        while True:
            chunk = file.read(_CHUNK)
            end = chunk.rfind(b"\n") + 1
            if end == 0:
                if len(chunk) < _CHUNK:
                    break  # a torn line, or nothing
                chunk += file.readline(64 * _CHUNK)
                end = chunk.rfind(b"\n") + 1
                if end == 0:
                    break  # no metrics file has such lines
            self._append(run, chunk[:end], progress)
            file.seek(progress.end.offset)
            changed = True
            if stop():
                break
        return changed

    def column(self, run: str, name: str, first: int = 0) -> Array:
        """The values of one metric in all rows from block `first` on, NaN where a row has none.

        It may be shorter than the run, where the last rows have none, and is empty for an unknown name.
        """
        with self._lock:
            rows = self._db.execute(
                "SELECT block, data FROM blocks WHERE run = ? AND metric = ? AND block >= ? ORDER BY block",
                (run, self._names.get(name), first),
            ).fetchall()
        if not rows:
            return np.empty(0)
        kind = _kind(name)
        parts, expected = [], first
        for block, data in rows:
            if block > expected:
                parts.append(np.full((block - expected) * BLOCK, np.nan, kind))
            parts.append(np.frombuffer(data, kind))
            expected = block + 1
        return np.concatenate(parts)

    def series(self, run: str, name: str, x: str = "step") -> tuple[Array, Array]:
        """Return x and y of the finite points of a metric, as doubles."""
        at, values = self.column(run, x), self.column(run, name)
        count = min(len(at), len(values))
        at, values = at[:count], values[:count]
        if x != "step" and np.isnan(at).any():
            at = _filled(at, self.column(run, "step")[:count])
        known = np.isfinite(at) & np.isfinite(values)
        return at[known].astype(np.float64), values[known].astype(np.float64)

    def newest(
        self, run: str, since: int, progress: ReadProgress, limit: int = 5000
    ) -> dict[str, list[float | None]]:
        """The rows from number `since` on, column by column; None where a row has no value."""
        since = max(since, progress.rows - limit)
        first = since // BLOCK
        rows = progress.rows - first * BLOCK
        found = {}
        for name in list(progress.last):
            values = self.column(run, name, first)[:rows]
            values = np.concatenate([values, np.full(rows - len(values), np.nan)])[since - first * BLOCK :]
            if np.isfinite(values).any():
                found[name] = as_json(values)
        return found

    def forget(self, run: str) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM blocks WHERE run = ?", (run,))
            self._db.execute("DELETE FROM runs WHERE run = ?", (run,))

    def close(self) -> None:
        with self._lock:
            self._db.close()
            if self._guard is not None:
                os.close(self._guard)
                self._guard = None
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def _go_back(self, run: str, file: BinaryIO, progress: ReadProgress) -> bool:
        """Remove rows that the file no longer has. Return True if there were any."""
        if _is_there(file, progress.end):
            return False
        while progress.blocks and not _is_there(file, progress.blocks[-1]):
            progress.blocks.pop()
        progress.rows = len(progress.blocks) * BLOCK
        progress.end = progress.blocks[-1] if progress.blocks else Mark()
        progress.epoch += 1
        with self._lock, self._db:
            self._db.execute("DELETE FROM blocks WHERE run = ? AND block >= ?", (run, len(progress.blocks)))
            progress.last = {}
            for name in list(self._names):
                values = self.column(run, name)
                values = values[np.isfinite(values)]
                if len(values):
                    progress.last[name] = float(values[-1])
            self._save(run, progress)
        return True

    def _append(self, run: str, data: bytes, progress: ReadProgress) -> None:
        """Store whole lines, block by block."""
        start = 0
        with self._lock, self._db:
            while start < len(data):
                room = BLOCK - progress.rows % BLOCK
                end = _after_lines(data, start, room)
                rows, damaged = _parse(data[start:end])
                damaged += int(np.isnan(_numbers([row.get("step") for row in rows])).sum())
                offset = progress.end.offset + end - start
                tail = data[max(0, end - _TAIL) : end].decode("latin-1")
                progress.end = Mark(offset, tail, progress.end.damaged + damaged)
                if rows:
                    self._write_block(run, rows, progress)
                start = end
            self._save(run, progress)

    def _write_block(self, run: str, rows: list[dict[str, Any]], progress: ReadProgress) -> None:
        block, filled = divmod(progress.rows, BLOCK)
        names: dict[str, Any] = {}
        for row in rows:
            names.update(row)  # only the keys count
        for name in names:
            if name not in progress.last and len(progress.last) >= _MAX_METRICS:
                continue
            values = _numbers([row.get(name) for row in rows])
            finite = values[np.isfinite(values)]
            if len(finite):
                progress.last[name] = float(finite[-1])
            elif name not in progress.last:
                continue
            self._extend(run, name, block, filled, values)
        progress.rows += len(rows)
        if progress.rows % BLOCK == 0:
            progress.blocks.append(progress.end)

    def _extend(self, run: str, name: str, block: int, filled: int, values: Array) -> None:
        kind = _kind(name)
        number = self._number(name)
        key = (run, number, block)
        standing = np.empty(0, kind)
        if filled:
            found = self._db.execute(
                "SELECT data FROM blocks WHERE run = ? AND metric = ? AND block = ?", key
            ).fetchone()
            standing = np.frombuffer(found[0], kind) if found else standing
        gap = np.full(filled - len(standing), np.nan, kind)
        with np.errstate(over="ignore"):
            data = np.concatenate([standing, gap, values.astype(kind)]).tobytes()
        self._db.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", (*key, data))

    def _number(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = len(self._names) + 1
            self._db.execute("INSERT INTO metrics VALUES (?, ?)", (self._names[name], name))
        return self._names[name]

    def _save(self, run: str, progress: ReadProgress) -> None:
        self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", (run, json.dumps(asdict(progress))))

    def _open(self, path: Path | None) -> sqlite3.Connection:
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._guard = _claim(path.with_suffix(".lock"))
                try:
                    return self._connect(path)
                except sqlite3.DatabaseError:  # damaged, or of another version: it is only a cache
                    path.unlink(missing_ok=True)
                    return self._connect(path)
            except BlockingIOError:
                _log.info("another dashboard shows these runs: this one reads them for itself")
            except (OSError, sqlite3.Error) as error:
                _log.info("the index is kept in a temporary file (%s)", error)
        self._temporary = Path(tempfile.mkdtemp(prefix="ludus-ui-"))
        return self._connect(self._temporary / "index.sqlite")

    def _connect(self, path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA cache_size = -16384")
            if db.execute("PRAGMA user_version").fetchone()[0] not in (0, _FORMAT):
                raise sqlite3.DatabaseError("another version's")
            with db:
                db.execute("CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, taken TEXT)")
                db.execute("CREATE TABLE IF NOT EXISTS metrics (number INTEGER PRIMARY KEY, name TEXT)")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS blocks (run TEXT, metric INTEGER, block INTEGER, data BLOB,"
                    " PRIMARY KEY (run, metric, block))"
                )
                db.execute(f"PRAGMA user_version = {_FORMAT}")
            self._names = {name: number for number, name in db.execute("SELECT number, name FROM metrics")}
        except BaseException:
            db.close()
            raise
        return db


def cache_path(root: Path) -> Path:
    """Return the path of the index of the runs folder `root`, in the user's cache folder."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.blake2b(os.fsencode(root.resolve()), digest_size=10).hexdigest()
    return base / "ludus" / "ui" / f"{name}.sqlite"


def bucketed(x: Array, y: Array, count: int) -> dict[str, list[float | None]]:
    """At most `count` points: the mean of equal stretches, with the lowest and highest of each as `lo` and `hi`.

    So the line is calm, and no peak is lost. A series that is short enough comes as it is, without `lo` and `hi`.
    """
    if len(x) <= count:
        return {"x": as_json(x), "y": as_json(y)}
    edges = np.linspace(0, len(x), count + 1).astype(int)
    starts, sizes = edges[:-1], np.diff(edges)
    return {
        "x": as_json(np.add.reduceat(x, starts) / sizes),
        "y": as_json(np.add.reduceat(y, starts) / sizes),
        "lo": as_json(np.minimum.reduceat(y, starts)),
        "hi": as_json(np.maximum.reduceat(y, starts)),
    }


def as_json(values: Array) -> list[float | None]:
    """Return values for JSON: seven digits, more than a screen shows, and None for values that are not finite."""
    values = np.asarray(values, dtype=np.float64)
    known = np.isfinite(values)
    magnitude = np.zeros_like(values)
    large = known & (values != 0)
    magnitude[large] = np.floor(np.log10(np.abs(values[large])))
    scale = 10.0 ** np.clip(6 - magnitude, -300, 300)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(values * scale) / scale
    # counts are whole numbers, whatever their size
    rounded = np.where((values == np.round(values)) | ~np.isfinite(rounded), values, rounded)
    found: list[float | None] = rounded.tolist()
    return (
        [value if ok else None for value, ok in zip(found, known, strict=True)] if not known.all() else found
    )


def _kind(name: str) -> type[np.floating[Any]]:
    return np.float64 if name in CLOCKS else np.float32


def _numbers(values: list[Any]) -> Array:
    """Return values as doubles; NaN for those that are not numbers."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    with contextlib.suppress(OverflowError):
        return float(value) if isinstance(value, int | float) else float("nan")
    return float("nan")


def _parse(lines: bytes) -> tuple[list[dict[str, Any]], int]:
    """Parse whole lines. Return the rows, and how many lines are not rows.

    Lines are parsed all at once, because that is twice as fast; one by one if a line is damaged.
    """
    with contextlib.suppress(ValueError, RecursionError):
        rows = json.loads(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
        if len(rows) == lines.count(b"\n") and set(map(type, rows)) <= {dict}:
            return rows, 0
    rows, damaged = [], 0
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        row = None
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
        if isinstance(row, dict):
            rows.append(row)
        else:
            damaged += 1
    return rows, damaged


def _after_lines(data: bytes, start: int, count: int) -> int:
    """Return the offset after `count` lines from `start` on, or the end."""
    for _ in range(count):
        found = data.find(b"\n", start)
        if found < 0:
            return len(data)
        start = found + 1
        if start == len(data):
            break
    return start


def _is_there(file: BinaryIO, mark: Mark) -> bool:
    tail = mark.tail.encode("latin-1")
    file.seek(mark.offset - len(tail))
    return file.read(len(tail)) == tail


def _filled(values: Array, steps: Array) -> Array:
    """Interpolate the time of rows without one, such as evaluations, between the rows around them."""
    known = np.isfinite(values) & np.isfinite(steps)
    if not known.any():
        return values
    return np.where(np.isfinite(values), values, np.interp(steps, steps[known], values[known]))


def _parse_progress(text: str) -> ReadProgress:
    found = json.loads(text)
    marks = [Mark(**mark) for mark in found["blocks"]]
    return ReadProgress(found["rows"], Mark(**found["end"]), marks, found["epoch"], found["last"])


def _claim(path: Path) -> int:
    """Hold a lock file for as long as the process lives; OSError if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(descriptor, wait=False)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
