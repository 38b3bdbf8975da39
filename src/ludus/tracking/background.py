"""Runs a tracker in its own thread, behind a queue. Training continues when the tracker is late, fails or hangs.

A failure is reported once. No row is lost: `metrics.jsonl` has every row. `RunFiles` finds new
checkpoints and videos of the run.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ludus.errors import UserError
from ludus.plain_files import read_plain
from ludus.tracking.tracker import FileTracker, RowValue

_log = logging.getLogger("ludus.tracking")

_LOOK_SECONDS = 2.0  # between two scans for new files
_SETTLED_SECONDS = 1.0  # a checkpoint is marked best a moment after it was saved
_LARGEST_JSON = 1 << 20
_VIDEOS = (".mp4", ".gif", ".webm")


class Background:
    """Opens, feeds and closes a tracker in a thread. To the run it is a tracker whose calls return at once.

    `name` is its name in warnings, `advice` says how to add missed rows later. At most `room` rows wait for it.
    A call that takes longer than `patience` seconds is reported; at the end of the run the tracker gets
    `last_patience` seconds to write out what is pending.
    """

    def __init__(
        self,
        name: str,
        open_tracker: Callable[[], FileTracker],
        files: RunFiles | None = None,
        *,
        advice: str = "",
        room: int = 5_000,
        patience: float = 60.0,
        last_patience: float = 30.0,
    ) -> None:
        self._name = name
        self._advice = advice
        self._open = open_tracker
        self._files = files
        self._room = room
        self._patience, self._last_patience = patience, last_patience
        self._waiting: deque[tuple[Mapping[str, RowValue], int]] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._over = False
        self._reported = False
        self._busy_since: float | None = time.monotonic()  # None while it waits for a row
        self._thread = threading.Thread(target=self._work, name=f"ludus-{name}", daemon=True)
        self._thread.start()

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Queue a row for the thread; returns at once."""
        with self._changed:
            if self._over:
                return
            if len(self._waiting) >= self._room:
                self._waiting.popleft()
                self._report(f"cannot keep up: {self._room:,} rows are waiting, and the oldest are dropped")
            self._waiting.append((row, step))
            self._changed.notify()
            if self._busy > self._patience:
                self._report(f"has not answered for {self._busy:.0f} s")

    def close(self) -> None:
        """Wait for the thread to write pending rows, at most `last_patience` seconds."""
        with self._changed:
            self._ending = True
            self._changed.notify()
            hangs = self._busy > self._patience
        self._thread.join(0.0 if hangs else self._last_patience)
        if self._thread.is_alive():
            self._report(f"did not end within {self._last_patience:.0f} s and is abandoned")

    @property
    def _busy(self) -> float:
        """Seconds since the tracker's current call began."""
        return 0.0 if self._busy_since is None else time.monotonic() - self._busy_since

    def _work(self) -> None:
        try:
            tracker = self._open()
            looked = 0.0
            while (taken := self._next()) is not None:
                row, step = taken
                tracker.row(row, step)
                if time.monotonic() - looked > _LOOK_SECONDS:
                    self._show_files(tracker)
                    looked = time.monotonic()
            self._show_files(tracker, last=True)
            tracker.close()
        except UserError as error:
            self._report(f"does not follow this run: {error.what}. {error.fix}".strip())
        except Exception as error:  # a tracker is an outside service; the row is in the file already
            self._report(f"failed and is dropped for the rest of the run: {type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._over = True
                self._waiting.clear()

    def _next(self) -> tuple[Mapping[str, RowValue], int] | None:
        """Wait for the next row and return it; None when the run has ended."""
        with self._changed:
            while not self._waiting:
                self._busy_since = None
                if self._ending:
                    self._busy_since = time.monotonic()
                    return None
                self._changed.wait()
            self._busy_since = time.monotonic()
            return self._waiting.popleft()

    def _show_files(self, tracker: FileTracker, *, last: bool = False) -> None:
        for file in self._files.news(last=last) if self._files is not None else ():
            if file.kind == "video":
                tracker.video(file.path, file.step)
            else:
                tracker.checkpoint(file.path, file.step, best=file.best)

    def _report(self, what: str) -> None:
        with self._changed:
            first, self._reported = not self._reported, True
        if first:
            rest = f" {self._advice}" if self._advice else ""
            _log.warning("%s %s. Training continues, metrics.jsonl has every row.%s", self._name, what, rest)


@dataclass(frozen=True)
class RunFile:
    """A checkpoint's directory, or a video."""

    kind: Literal["checkpoint", "video"]
    path: Path
    step: int
    best: bool = False
    """For a checkpoint: it is the best so far."""


class RunFiles:
    """Finds new files in the run directory `run`; with `known`, files that exist already do not count as new."""

    def __init__(self, run: Path, *, known: bool = False) -> None:
        self._run = run
        self._reported: set[tuple[str, int]] = set()
        if known:
            self.news(last=True)

    def news(self, *, last: bool = False) -> list[RunFile]:
        """Return files that appeared since the last call, oldest step first; `last` includes those just written."""
        best = self._best()
        found = []
        for path in [*self._entries("checkpoints"), *self._entries("videos")]:
            step = _step_of(path)
            kind: Literal["checkpoint", "video"] = "video" if path.suffix else "checkpoint"
            marker = path if kind == "video" else path / "MANIFEST.json"
            try:
                written = marker.stat().st_mtime_ns
            except OSError:
                continue  # removed meanwhile
            if (str(path), written) in self._reported or not (last or _is_settled(written)):
                continue
            self._reported.add((str(path), written))
            found.append(RunFile(kind, path, step, best=kind == "checkpoint" and step == best))
        return sorted(found, key=lambda file: file.step)

    def _entries(self, folder: str) -> list[Path]:
        suffixes = _VIDEOS if folder == "videos" else ("",)
        try:
            names = os.listdir(self._run / folder)
        except OSError:
            return []
        paths = [self._run / folder / name for name in names if name[:1].isdigit()]
        return [path for path in paths if path.suffix in suffixes and not path.is_symlink()]

    def _best(self) -> int | None:
        try:
            text = read_plain(self._run / "checkpoints" / "best.json", _LARGEST_JSON)
            return int(json.loads(text)["checkpoint"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def _step_of(path: Path) -> int:
    digits = path.stem.split(".")[0].split("-")[0].split("_")[0]
    return int(digits) if digits.isdecimal() else 0


def _is_settled(written_ns: int) -> bool:
    return time.time() - written_ns / 1e9 >= _SETTLED_SECONDS
