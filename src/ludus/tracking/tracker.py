"""The run's metrics: every row goes to `metrics.jsonl` first, then to the trackers that follow it.

The JSONL files are what resume, reports and comparisons read. A tracker only follows: one that fails is
dropped with a warning and training goes on; it can be filled again from the file. Those that write elsewhere
than into the run's own small files do so in a thread, see background.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ludus.errors import CheckpointError
from ludus.tracking.jsonl import JsonlWriter, truncate
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
    """A tracker that also shows the checkpoints and videos of a run. Either may be gone by the time it looks."""

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

    def record(
        self, step: int, updates: int, episodes: int, metrics: Mapping[str, float]
    ) -> dict[str, RowValue]:
        """Write one row: `step`, `updates`, `episodes`, then the metrics by name. Returns that row.

        Wall-clock values belong under `time/` names only, so that runs can be compared without them.
        """
        row: dict[str, RowValue] = {"step": step, "updates": updates, "episodes": episodes}
        for name in sorted(metrics):
            value = metrics[name]
            row[name] = value.item() if isinstance(value, np.generic) else value
        self._metrics.write(row)
        # flushed together, so that a reader never sees a row before the episodes it speaks of
        self._episodes.flush()
        self._metrics.flush()
        for follower in tuple(self._followers):
            self._guarded(follower, follower.row, row, step)
        return row

    def episode(self, step: int, record: EpisodeRecord, **extra: Any) -> None:
        """Write one finished episode: `step`, `reward`, `length`, `success` where known, then `extra`."""
        row: dict[str, Any] = {"step": step, "reward": record.reward, "length": record.length}
        if record.success is not None:
            row["success"] = record.success
        if record.report is not None:
            row |= {
                name: value for name, value in record.report.items() if isinstance(value, int | float | str)
            }
        self._episodes.write(row | extra)

    def offsets(self) -> dict[str, int]:
        """Sync both files and return their sizes by file name, for a checkpoint to keep."""
        sizes = {}
        for writer in (self._metrics, self._episodes):
            writer.sync()
            sizes[writer.path.name] = writer.offset
        return sizes

    def rewind(self, offsets: Mapping[str, int]) -> None:
        """Cut both files back to `offsets`, as returned by `offsets()` when the checkpoint was saved.

        Raises CheckpointError when a file or its offset is missing, or the file is shorter than that.
        """
        self._metrics = _rewound(self._metrics, offsets)
        self._episodes = _rewound(self._episodes, offsets)

    def close(self) -> None:
        """Sync and close the files, then close the followers."""
        self._metrics.close()
        self._episodes.close()
        for follower in tuple(self._followers):
            self._guarded(follower, follower.close)
        self._followers.clear()

    def _guarded(self, follower: Tracker, method: Callable[..., None], *arguments: object) -> None:
        try:
            method(*arguments)
        except Exception as error:  # a tracker is someone else's service; the truth is already in the file
            self._followers.remove(follower)
            _log.warning(
                "%s failed and is dropped for the rest of the run (metrics.jsonl has every row): %s: %s",
                type(follower).__name__,
                type(error).__name__,
                error,
            )


def _rewound(writer: JsonlWriter, offsets: Mapping[str, int]) -> JsonlWriter:
    name = writer.path.name
    if name not in offsets:
        raise CheckpointError(
            f"the checkpoint does not say how long {name} was",
            where=str(writer.path),
            fix="resume from another checkpoint",
        )
    writer.close()
    truncate(writer.path, offsets[name])
    return JsonlWriter(writer.path)
