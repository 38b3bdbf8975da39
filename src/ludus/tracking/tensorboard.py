"""TensorBoard event files, written with TensorBoard's own record writer (torch is not needed).

A resumed run writes a new event file that begins by telling readers to forget what the interrupted run wrote
after the checkpoint, so the curves show every step once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ludus.tracking.tracker import CLOCK, RowValue

_FLUSH_SECONDS = 10.0


class TensorBoardTracker:
    """Writes each numeric metric of a row as a scalar into a new event file under `directory`.

    `resumed_at` is the env step of the checkpoint a run continues from: older event files in `directory`
    count up to and including that step, no further.
    """

    def __init__(self, directory: str | Path, resumed_at: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        self._event, self._summary = Event, Summary
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # readers take the files in the order of their names: the count keeps two within a second in order
        count = sum(1 for _ in directory.glob("events.out.tfevents.*"))
        path = directory / f"events.out.tfevents.{int(time.time()):010d}.{count:04d}"
        self._writer = RecordWriter(path.open("xb"))
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if resumed_at is not None:
            restart = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=resumed_at + 1, session_log=restart))
        self._flush()

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Write the row's metrics at `step`; text and missing values are left out."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name not in CLOCK and isinstance(value, int | float)
        ]
        if values:
            self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _write(self, event: object) -> None:
        self._writer.write(event.SerializeToString())  # type: ignore[attr-defined]

    def _flush(self) -> None:
        self._writer.flush()
        self._flushed = time.monotonic()
