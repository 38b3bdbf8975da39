"""Index of the runs for the dashboard: one entry per run, updated by a thread while a page is open.

A file is only read again if it has changed. The table of runs needs run.json and the newest values. The numbers of all
rows are stored in a `ColumnStore`, newest runs first; a run that a page asks for is read before all others.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ludus.reports.reading import status_of
from ludus.reports.redaction import hide_in, hide_in_text
from ludus.reports.web.columns import ColumnStore, ReadProgress, bucketed, cache_path
from ludus.reports.web.entry import EVALUATION, REWARD, RunEntry, is_number
from ludus.reports.web.security import RunsFolder
from ludus.runs import strict_json
from ludus.runs.directory import RunDirectory, walk_runs
from ludus.runs.mirror.state import FILENAME, FOLDER, MirrorState

MAX_JSON = 4 << 20

_WATCH_SECONDS = 0.5  # between two updates of watched runs
_QUEUE_SECONDS = 0.3  # time limit for reading queued runs, before watched runs have their turn
_REQUEST_SECONDS = 1.5  # time limit for reading new rows within a request
_OPEN_SECONDS = 20.0  # time after a request for which a page counts as open
_SPARK_POINTS = 40
_TOTAL = re.compile(rb"^total_timesteps: *(.{1,80})$", re.MULTILINE)
_SELF_PLAY = re.compile(rb"^language:(?! *(?:null|~) *$)", re.MULTILINE)
_log = logging.getLogger("ludus.reports")


class RunIndex:
    """The runs below `root`. `start` begins to follow them; every request calls `note_request` first."""

    def __init__(
        self, root: Path | str, cache: Path | str | None = "user", *, scan_every: float = 2.0
    ) -> None:
        """`cache`: the file for the numbers; "user" is a file in the user's cache folder, None a temporary file.

        `scan_every`: seconds between two scans of all runs while a page is open.
        """
        self._scan_every = scan_every
        self.folder = RunsFolder(Path(root))
        path = cache_path(self.folder.root) if cache == "user" else cache
        self.store = ColumnStore(None if path is None else Path(path))
        self.entries: dict[str, RunEntry] = {}
        self.removed: dict[str, int] = {}
        """Removed runs, with the version of the index at which they were removed."""
        self.version = 0
        self.waiting = 0
        """Number of runs whose rows are not all read yet."""
        self._queue: list[RunEntry] = []
        self._known = self.store.runs()
        self._watched: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._scanned = threading.Event()
        self._last_request = self._last_scan = float("-inf")
        self._thread = threading.Thread(target=self._follow, name="ludus-ui-index", daemon=True)

    def start(self) -> None:
        self._last_request = time.monotonic()
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the streams and the thread to end."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        self.begin_stop()
        if self._thread.is_alive():
            self._thread.join(10)
        self.store.close()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def note_request(self) -> None:
        """Note that a page is open. If the data is old, wait for a new scan first (10 seconds at most)."""
        idle = time.monotonic() - self._last_scan > 2 * self._scan_every
        self._last_request = time.monotonic()
        if idle:
            self._scanned.clear()
            self._wake.set()
        self._scanned.wait(3.0 if idle else 10.0)

    def watch(self, runs: list[str]) -> None:
        """Update these runs more often, until `unwatch` is called with the same runs."""
        with self._lock:
            self._watched.update(runs)
        self._wake.set()

    def unwatch(self, runs: list[str]) -> None:
        with self._lock:
            self._watched.subtract(runs)
            self._watched += Counter()  # drops runs that nobody watches

    def get(self, run: str) -> RunEntry | None:
        return self.entries.get(run)

    def changed_since(self, version: int) -> tuple[list[RunEntry], list[str]]:
        """Return the runs that changed after `version`, and the ids of removed ones."""
        changed = [entry for entry in list(self.entries.values()) if entry.version > version]
        return changed, [run for run, when in list(self.removed.items()) if when > version]

    def refresh(self, entry: RunEntry) -> None:
        """Update one run now. If it has many new rows, read as many as there is time for."""
        changed = self._read_files(entry)
        changed |= self._read_rows(entry, time.monotonic() + _REQUEST_SECONDS)
        if changed:
            self._mark_changed(entry)

    def series(
        self,
        entry: RunEntry,
        metric: str,
        x: str,
        points: int,
        between: tuple[float, float] | None = None,
    ) -> dict[str, list[float | None]]:
        """Return one metric over `x`, thinned to `points`; `between` limits it to a part of the axis."""
        at, values = self.store.series(entry.id, metric, x)
        if between is not None:
            # one more point on each side, so that the line reaches the edges of the chart
            inside = np.flatnonzero((at >= between[0]) & (at <= between[1]))
            if len(inside):
                cut = slice(max(inside[0] - 1, 0), inside[-1] + 2)
                at, values = at[cut], values[cut]
        return bucketed(at, values, points)

    def _follow(self) -> None:
        """Thread: check watched runs often and all runs now and then, but only while a page is open."""
        while not self._stopping.is_set():
            now = time.monotonic()
            if now - self._last_request < _OPEN_SECONDS or self._watched:
                # less often while many rows are to be read
                if now - self._last_scan >= self._scan_every * (5 if self._queue else 1):
                    with _logged_errors():
                        self._scan()
                    self._scanned.set()
                for entry in [self.entries[run] for run in list(self._watched) if run in self.entries]:
                    with _logged_errors(entry):
                        self.refresh(entry)
            self._read_queued()
            self._wake.wait(0 if self._queue else _WATCH_SECONDS)
            self._wake.clear()

    def _scan(self) -> None:
        """Update the table's data of every run; runs with new metric rows get into the queue."""
        started = time.monotonic()
        entries = {}
        for run in walk_runs(self.folder.root):
            entry = self._entry(run)
            entries[entry.id] = entry
            with _logged_errors(entry):
                if self._read_files(entry):
                    self._mark_changed(entry)
            self.entries[entry.id] = entry
            if self._stopping.is_set():
                return
        for removed in self.entries.keys() - entries.keys():
            del self.entries[removed]
            self.version += 1
            self.removed[removed] = self.version
            self.store.forget(removed)
        for removed in self._known:  # removed while no dashboard ran
            self.store.forget(removed)
        self._known = {}
        self._queue = [entry for entry in entries.values() if self._has_new_rows(entry)]
        # the last entry is read first: running runs, then the newest
        self._queue.sort(key=lambda entry: (entry.status == "running", _created(entry)))
        self.waiting = len(self._queue)
        # after a slow scan, wait longer until the next one
        self._last_scan = time.monotonic() + 4 * (time.monotonic() - started)

    def _read_queued(self) -> None:
        """Read metrics of the runs in the queue for a short time: watched runs must not wait for them."""
        deadline = time.monotonic() + _QUEUE_SECONDS
        while self._queue and time.monotonic() < deadline and not self._stopping.is_set():
            entry = self._queue[-1]
            with _logged_errors(entry):
                if self._read_rows(entry, deadline):
                    self._mark_changed(entry)
                if self._has_new_rows(entry):
                    continue  # there was no time for all rows
            self._queue.pop()
            self.waiting = len(self._queue)

    def _entry(self, run: RunDirectory) -> RunEntry:
        parts = run.path.relative_to(self.folder.root).parts
        key = hashlib.blake2b(os.fsencode("/".join(parts)), digest_size=8).hexdigest()
        entry = self.entries.get(key)
        if entry is None:
            entry = RunEntry(key, parts, run.path, read_progress=self._known.pop(key, ReadProgress()))
            if entry.read_progress.rows:
                self._draw_spark(entry)
        return entry

    def _mark_changed(self, entry: RunEntry) -> None:
        with self._lock:
            self.version += 1
            entry.version = self.version

    def _read_files(self, entry: RunEntry) -> bool:
        """Read run.json, the total and the best score if their files changed. Return True if anything changed."""
        changed = False
        if self._has_changed(entry, "run.json"):
            changed = True
            try:
                text = self.folder.read(*entry.parts, "run.json", limit=MAX_JSON).decode()
                entry.info = hide_in(strict_json.loads_sealed(text))
            except (OSError, ValueError, RecursionError):
                entry.info = {"status": "damaged"}
        if self._has_changed(entry, "config.yaml"):
            try:
                config = self.folder.read(*entry.parts, "config.yaml", limit=MAX_JSON)
            except OSError:
                config = b""
            # only two keys are needed: parsing the YAML of a thousand runs would take too long
            line = _TOTAL.search(config)
            entry.total = "" if line is None else line[1].decode("utf-8", "replace").strip("\"' ")
            entry.self_play = _SELF_PLAY.search(config) is not None
        if self._has_changed(entry, "checkpoints", "best.json"):
            changed = True
            try:
                best = strict_json.loads_sealed(
                    self.folder.read(*entry.parts, "checkpoints", "best.json", limit=MAX_JSON).decode()
                )
                entry.best = float(best["value"]) if is_number(best["value"]) else None
            except (OSError, ValueError, KeyError, TypeError):
                entry.best = None
        if self._has_changed(entry, FOLDER, FILENAME):
            before, entry.mirror = entry.mirror, self._read_mirror(entry)
            changed |= entry.mirror != before
        status = status_of(RunDirectory(entry.path), entry.info)
        changed |= status != entry.status
        entry.status = status
        return changed

    def _read_mirror(self, entry: RunEntry) -> dict[str, Any] | None:
        try:
            data = self.folder.read(*entry.parts, FOLDER, FILENAME, limit=MAX_JSON)
            state = MirrorState.parse(data.decode())
        except (OSError, ValueError):
            return None
        shown = {
            name: hide_in_text(word[:300]) if isinstance(word, str) else word
            for name, word in state.summary().items()
        }
        return shown | {"behind": state.is_behind}

    def _has_changed(self, entry: RunEntry, *parts: str) -> bool:
        """Return True if a file changed since the last call."""
        now = _stamp(entry.path.joinpath(*parts))
        name = parts[-1]
        if entry.seen.get(name) == now:
            return False
        entry.seen[name] = now
        return True

    def _has_new_rows(self, entry: RunEntry) -> bool:
        now = _stamp(entry.path / "metrics.jsonl")
        return now != entry.seen.get("metrics.jsonl", ()) and now[:1] != (entry.read_progress.end.offset,)

    def _read_rows(self, entry: RunEntry, deadline: float) -> bool:
        """Update the store with the run's metrics. Return True if anything changed."""

        def must_stop() -> bool:
            return time.monotonic() > deadline or self._stopping.is_set()

        with entry.busy:
            now = _stamp(entry.path / "metrics.jsonl")
            if now == entry.seen.get("metrics.jsonl"):
                return False
            try:
                with self.folder.open(*entry.parts, "metrics.jsonl") as file:
                    changed = self.store.read_rows(entry.id, file, entry.read_progress, must_stop)
            except OSError:
                changed = entry.read_progress.rows > 0
                if changed:
                    entry.read_progress = ReadProgress(epoch=entry.read_progress.epoch + 1)
                    self.store.forget(entry.id)
            if not must_stop():
                entry.seen["metrics.jsonl"] = now
            grown = entry.read_progress.rows - entry.spark_rows
            if changed and not 0 < grown < entry.read_progress.rows // 100:
                self._draw_spark(entry)
            return changed

    def _draw_spark(self, entry: RunEntry) -> None:
        """Update the small curve of the table: the reward, scaled from 0 to 100."""
        metric = next((name for name in (REWARD, EVALUATION) if name in entry.read_progress.last), None)
        if metric is None:
            entry.spark = []
            return
        x, y = self.store.series(entry.id, metric)
        values = np.array(bucketed(x, y, _SPARK_POINTS)["y"], dtype=np.float64)
        entry.spark_rows = entry.read_progress.rows
        if len(values) < 2:
            entry.spark = []
            return
        span = np.ptp(values)
        entry.spark = np.full(len(values), 50).tolist()
        if span > 0:
            entry.spark = np.round((values - values.min()) / span * 100).astype(int).tolist()


@contextmanager
def _logged_errors(entry: RunEntry | None = None) -> Iterator[None]:
    """Log any error and continue: a run that cannot be read must not hide the others."""
    try:
        yield
    except Exception:  # files of a run may contain anything, and its file system may fail
        _log.exception("%s could not be read", "the runs folder" if entry is None else entry.path)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _created(entry: RunEntry) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(entry.info["created"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0
