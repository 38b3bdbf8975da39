"""A run as somebody watches it from another process: its newest values, its curves so far, and when it will end.

Only files are read, so that watching, leaving or being killed does nothing to the run.
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

_SPEED_ROWS = 30  # over which the time left is reckoned
_LOOK_SECONDS = 5.0  # between two looks at what changes rarely


class Watched:
    """`look()` reads what is new; everything else tells what was seen at the last look."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.info: dict[str, Any] = {}
        self.status = "?"
        self.newest: dict[str, float] = {}
        """Every metric with its newest value."""
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

    def look(self) -> None:
        """Read what the run has written since the last look."""
        self.info = reading.read_info(self.run)
        self.status = reading.status_of(self.run, self.info)
        rows = self._follower.rows()
        first = next(rows, None)
        if self._follower.rewound:  # resumed from a checkpoint: the rows after it are void
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
        """Nobody trains it."""
        return self.status != "running"

    @property
    def plays_itself(self) -> bool:
        """It is a self-play run: games, opponents and ratings are what there is to see."""
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
        """How far it is of what it aims at, in the total's own unit: `3 / 150 updates`."""
        if not self.newest:
            return "no row yet"
        done = reading.progress_at(self.newest)
        if self._total is None:
            return f"step {done.steps:,}"
        steps = "" if self._total.unit == "steps" else f"   step {done.steps:,}"
        return f"{self._total.measure(done):,.0f} / {self._total}{steps}"

    @property
    def fraction(self) -> float:
        """How much of the run is done, from 0 to 1."""
        if self.status in ("finished", "stopped"):
            return 1.0
        return (
            0.0
            if self._total is None or not self.newest
            else self._total.fraction(reading.progress_at(self.newest))
        )

    @property
    def seconds_left(self) -> float | None:
        """Until the end of training, as fast as the last rows came; None where they do not tell."""
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
        """Seconds since the run wrote its last row."""
        return max(0.0, time.time() - self._row_seen)

    def series(self, metric: str) -> MetricSeries:
        """The course of a metric; empty where it has none."""
        if metric not in self._seen:
            self._seen[metric] = self._columns.one(metric)
        return self._seen[metric]

    def course(self, metric: str, points: int) -> list[float]:
        """The course in at most so many values, each the mean of a stretch: no terminal shows more."""
        values = self.series(metric).values
        if len(values) <= points:
            return [float(value) for value in values]
        starts = np.linspace(0, len(values), points, endpoint=False).astype(int)
        means = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
        return [float(value) for value in means]

    def number(self, metric: str) -> float | None:
        """The newest value of a metric."""
        value = self.newest.get(metric)
        return None if value is None else float(value)

    @property
    def damaged(self) -> int:
        """Rows of the metrics that were left out."""
        return self._damaged + self._columns.stray

    @property
    def notices(self) -> list[str]:
        """What is wrong with the run's files, or with their copy elsewhere."""
        lines = [reading.damaged_rows(self.damaged, "metrics.jsonl")]
        if self.mirror is not None and self.mirror.is_behind:
            lines.append(f"mirror: {self.mirror.condition} ({self.mirror.at})")
        return [reading.readable(line) for line in lines if line]

    def snapshot(self) -> dict[str, Any]:
        """For `--json`."""
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
    """The newest run that is being trained, else the newest; None where there is none."""
    runs = list_runs(root)
    training = (run for run in runs if reading.status_of(run, reading.read_info(run)) == "running")
    return next(training, runs[0] if runs else None)


def _modified(run: RunDirectory) -> float:
    try:
        return run.metrics_path.stat().st_mtime
    except OSError:
        return time.time()
