"""A run as observed from another process: its newest values, its curves so far, and its expected end.

Only files are read, so observing cannot affect the run.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from ludus.reports import reading
from ludus.runs.directory import RunDirectory, list_runs
from ludus.runs.mirror.state import MirrorState
from ludus.tracking.following import Columns, Follower, MetricSeries, is_number

_SPEED_ROWS = 30  # rows used to estimate the time left
_LOOK_SECONDS = 5.0  # between two reads of files that change rarely


class Watched:
    """`look()` reads the new data; all other members are as of the last `look()`."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.info: dict[str, Any] = {}
        self.status = "?"
        self.newest: dict[str, float] = {}
        """The newest value of every metric."""
        self.checkpoints: list[reading.CheckpointFile] = []
        self.mirror: MirrorState | None = None
        self.config = reading.read_config(run)
        self._total = reading.total_of(self.config)
        self._follower = Follower(run.metrics_path)
        self._columns = Columns(clock="time/seconds")
        self._seen: dict[str, MetricSeries] = {}
        self._damaged = 0
        self._looked = -_LOOK_SECONDS
        self._row_seen = time.time()

    def refresh(self) -> None:
        """Read what the run has written since the last call."""
        self.info = reading.read_info(self.run)
        self.status = reading.status_of(self.run, self.info)
        rows = self._follower.rows()
        first = next(rows, None)
        if self._follower.rewound:  # resumed from a checkpoint: the rows after it are invalid
            self._columns, self.newest, self._damaged = Columns(clock="time/seconds"), {}, 0
        for row in () if first is None else itertools.chain([first], rows):
            self._columns.take(row)
            if is_number(row.get("step")):
                self.newest |= {
                    name: value
                    for name, value in row.items()
                    if is_number(value) and (name in self._columns or name == "step")
                }
        self._damaged += self._follower.damaged
        if first is not None or self._follower.rewound:
            self._seen = {}
            self._row_seen = _modified(self.run)
        if time.monotonic() - self._looked >= _LOOK_SECONDS or self.status != "running":
            self._looked = time.monotonic()
            self.checkpoints = reading.list_checkpoints(self.run)
            self.mirror = MirrorState.load(self.run.path)

    @property
    def is_over(self) -> bool:
        """True if no process trains it."""
        return self.status != "running"

    @property
    def is_self_play(self) -> bool:
        """True for a self-play run, which shows games, opponents and ratings."""
        return self.config.get("language") is not None or any(
            name.startswith("league/") for name in self.newest
        )

    @property
    def name(self) -> str:
        return reading.readable(self.run.name)

    @property
    def env(self) -> str:
        return str(self.info.get("env_id", ""))

    @property
    def algorithm(self) -> str:
        return str(self.info.get("algorithm", ""))

    @property
    def progress(self) -> str:
        """The progress towards the total, in its own unit: `3 / 150 updates`."""
        if not self.newest:
            return "no row yet"
        done = reading.progress_at(self.newest)
        if self._total is None:
            return f"step {done.steps:,}"
        steps = "" if self._total.unit == "steps" else f"   step {done.steps:,}"
        return f"{self._total.measure(done):,.0f} / {self._total.in_words()}{steps}"

    @property
    def fraction(self) -> float:
        """The completed fraction of the run, from 0 to 1."""
        if self.status in ("finished", "stopped"):
            return 1.0
        return (
            0.0
            if self._total is None or not self.newest
            else self._total.fraction(reading.progress_at(self.newest))
        )

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end of training, from the last rows; None if unknown."""
        if self.is_over or self._total is None:
            return None
        clock = self.series("time/seconds")
        if len(clock) < 2:
            return None
        back = max(0, len(clock) - _SPEED_ROWS)
        first = self.newest | {"step": clock.steps[back], "time/seconds": clock.values[back]}
        for name in ("updates", "episodes"):
            counted = self.series(name)
            if len(counted):
                first[name] = np.interp(clock.steps[back], counted.steps, counted.values)
        done = self.fraction - self._total.fraction(reading.progress_at(first))
        if done <= 0:
            return None
        left = (1 - self.fraction) * (clock.values[-1] - clock.values[back]) / done
        return float(max(0.0, left - (time.time() - self._row_seen)))

    @property
    def since_row(self) -> float:
        """Return the seconds since the run wrote its last row."""
        return max(0.0, time.time() - self._row_seen)

    def series(self, metric: str) -> MetricSeries:
        """Return the curve of a metric; empty if it has none."""
        if metric not in self._seen:
            self._seen[metric] = self._columns.one(metric)
        return self._seen[metric]

    def course(self, metric: str, points: int) -> list[float]:
        """Return the curve in at most `points` values, each the mean of an interval."""
        values = self.series(metric).values
        if len(values) <= points:
            return [float(value) for value in values]
        starts = np.linspace(0, len(values), points, endpoint=False).astype(int)
        means = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
        return [float(value) for value in means]

    def number(self, metric: str) -> float | None:
        """Return the newest value of a metric."""
        value = self.newest.get(metric)
        return None if value is None else float(value)

    @property
    def damaged(self) -> int:
        """The number of skipped rows of the metrics."""
        return self._damaged + self._columns.stray

    @property
    def notices(self) -> list[str]:
        """Problems of the run's files, or of its mirror."""
        lines = [reading.damaged_rows(self.damaged, "metrics.jsonl")]
        if self.mirror is not None and self.mirror.is_behind:
            lines.append(f"mirror: {self.mirror.condition} ({self.mirror.at})")
        return [reading.readable(line) for line in lines if line]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as data for `--json`."""
        return {
            "run": str(self.run.path),
            "status": self.status,
            "fraction": self.fraction,
            "seconds_left": self.seconds_left,
            "metrics": self.newest,
            "checkpoints": [checkpoint.name for checkpoint in self.checkpoints],
            "damaged_rows": self.damaged,
            "mirror": None if self.mirror is None else self.mirror.summary(),
        }


def choose_run(root: str) -> RunDirectory | None:
    """Return the newest run that is being trained, otherwise the newest; None if there are no runs."""
    runs = list_runs(root)
    training = (run for run in runs if reading.status_of(run, reading.read_info(run)) == "running")
    return next(training, runs[0] if runs else None)


def _modified(run: RunDirectory) -> float:
    try:
        return run.metrics_path.stat().st_mtime
    except OSError:
        return time.time()
