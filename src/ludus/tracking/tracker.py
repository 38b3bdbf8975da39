"""The run's metrics: every row goes to `metrics.jsonl` first, then to the trackers that follow it.

The JSONL files are what resume, reports and comparisons read. A tracker only follows: one that fails is
dropped with a warning and training continues; it can be filled again from the file. Those that write elsewhere
than into the run's own small files do so in a thread, see background.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ludus.errors import CheckpointError
from ludus.tracking.jsonl import Extent, JsonlWriter, truncate
from ludus.types import EpisodeRecord

_log = logging.getLogger("ludus.tracking")

RowValue = float | int | str | None
"""A value of a row; None stands for a non-finite number in rows read back from a file."""

CLOCK = ("step", "updates", "episodes")
"""The keys of a metrics row that say when it was taken; every other key is a metric."""


class Tracker(Protocol):
    """Follows the metrics rows of one run."""

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Take one row of `metrics.jsonl`, taken at env step `step`."""

    def close(self) -> None:
        """Write out what is pending; no row follows."""


class FileTracker(Tracker, Protocol):
    """Tracker that also shows checkpoints and videos of a run. Their files may be removed before it reads them."""

    def checkpoint(self, path: Path, step: int, *, best: bool) -> None:
        """Take the checkpoint in directory `path`."""

    def video(self, path: Path, step: int) -> None:
        """Take the video at `path`."""


class MetricsLog:
    """Owns `metrics.jsonl` and `episodes.jsonl`, and hands every metrics row on to the followers."""

    def __init__(
        self, metrics_path: str | Path, episodes_path: str | Path, followers: Sequence[Tracker] = ()
    ) -> None:
        self._metrics = JsonlWriter(metrics_path)
        self._episodes = JsonlWriter(episodes_path)
        self._followers = list(followers)
        self._untold: list[dict[str, RowValue]] = []

    def record(
        self, step: int, updates: int, episodes: int, metrics: Mapping[str, float]
    ) -> dict[str, RowValue]:
        """`take` one row and `flush`."""
        row = self.take(step, updates, episodes, metrics)
        self.flush()
        return row

    def take(
        self, step: int, updates: int, episodes: int, metrics: Mapping[str, float]
    ) -> dict[str, RowValue]:
        """Take one row: `step`, `updates`, `episodes`, then the metrics by name. Returns that row.

        Wall-clock values belong under `time/` names only, so that runs can be compared without them.
        """
        row: dict[str, RowValue] = {"step": step, "updates": updates, "episodes": episodes}
        for name in sorted(metrics):
            value = metrics[name]
            row[name] = value.item() if isinstance(value, np.generic) else value
        self._metrics.write(row)
        self._untold.append(row)
        return row

    def flush(self) -> None:
        """Write the rows taken since the last call, then pass them to the followers. An OSError loses no row."""
        # episodes first: a reader never sees a row before its episodes
        self._episodes.flush()
        self._metrics.flush()
        rows, self._untold = self._untold, []
        for row in rows:
            for follower in tuple(self._followers):
                self._guarded(follower, follower.row, row, row["step"])

    def episode(self, step: int, record: EpisodeRecord, **extra: Any) -> None:
        """Write one finished episode: `step`, `reward`, `length`, `success` where known, then `extra`."""
        row: dict[str, Any] = {"step": step, "reward": record.reward, "length": record.length}
        if record.success is not None:
            row["success"] = record.success
        if record.report is not None:
            plain = {k: v for k, v in record.report.items() if isinstance(v, int | float | str)}
            row = {**row, **{name: value for name, value in plain.items() if name not in row}}
        self._episodes.write(row | extra)

    def require_in_place(self) -> None:
        """Check that both files are where they were opened, as `JsonlWriter.require_in_place` does."""
        for writer in (self._metrics, self._episodes):
            writer.require_in_place()

    def extents(self) -> dict[str, Extent]:
        """Sync both files and return what each holds by file name, for a checkpoint to keep."""
        for writer in (self._metrics, self._episodes):
            writer.sync()
        return {writer.path.name: writer.extent for writer in (self._metrics, self._episodes)}

    def rewind(self, saved: Mapping[str, Extent], *, whatever_they_hold: bool = False) -> None:
        """Truncate both files to the extents that the checkpoint saved.

        Raises CheckpointError when a file or its extent is missing, or the file does not begin with it;
        `whatever_they_hold` continues after the rows that are there.
        """
        self._metrics = _rewound(self._metrics, saved, whatever_they_hold)
        self._episodes = _rewound(self._episodes, saved, whatever_they_hold)

    def close(self) -> None:
        """Sync and close the files, then close the followers, also where the first raises OSError."""
        try:
            self.flush()
        finally:
            with ExitStack() as stack:
                for follower in reversed(self._followers):
                    stack.callback(self._guarded, follower, follower.close)
                self._followers = []
                stack.callback(self._episodes.close)
                stack.callback(self._metrics.close)

    def _guarded(self, follower: Tracker, method: Callable[..., None], *arguments: object) -> None:
        try:
            method(*arguments)
        except Exception as error:  # a tracker is an outside service; the row is in the file already
            with suppress(ValueError):  # closed with the run
                self._followers.remove(follower)
            _log.warning(
                "%s failed and is dropped for the rest of the run (metrics.jsonl has every row): %s: %s",
                type(follower).__name__,
                type(error).__name__,
                error,
            )


def _rewound(writer: JsonlWriter, saved: Mapping[str, Extent], whatever_it_holds: bool) -> JsonlWriter:
    name = writer.path.name
    if name not in saved:
        raise CheckpointError(
            f"the checkpoint does not say how long {name} was",
            where=str(writer.path),
            fix="resume from another checkpoint",
        )
    writer.close()
    truncate(writer.path, saved[name], whatever_it_holds=whatever_it_holds)
    return JsonlWriter(writer.path)
