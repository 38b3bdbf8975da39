"""The metric rows of a session: means over the updates and episodes since the last row, written to `metrics.jsonl`."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from ludus.envs.episode_reports import gather_reports
from ludus.runs.atomic import write_atomic
from ludus.runs.directory import RunDirectory
from ludus.tracking.machine import MachineLoad
from ludus.tracking.tracker import MetricsLog
from ludus.training.failure import Storage
from ludus.types import EpisodeRecord, Metrics, Progress

WINDOW = 100
"""The number of finished episodes that `rollout/` metrics are means of."""
GAMES = 1000
"""The number of finished episodes whose reports are summarised."""


class MetricRows:
    """Collects what happened since the last row and writes the next one. All of it survives a checkpoint."""

    def __init__(self, directory: RunDirectory, log: MetricsLog, storage: Storage, device: str) -> None:
        self._directory = directory
        self._log = log
        self._storage = storage
        self._episodes: deque[EpisodeRecord] = deque(maxlen=WINDOW)
        self._reported: deque[EpisodeRecord] = deque(maxlen=GAMES)
        self._sums: dict[str, list[float]] = {}
        """Sum and count of each metric over the updates since the last row."""
        self._load = MachineLoad(device)
        self._last_step = 0
        self._last_time = time.monotonic()

    @property
    def pending(self) -> bool:
        """Return True if an update was added that no row contains yet."""
        return bool(self._sums)

    def start_clock(self, steps: int) -> None:
        """Measure `time/fps` of the next row from here."""
        self._last_step, self._last_time = steps, time.monotonic()

    def add_episodes(self, steps: int, episodes: Sequence[EpisodeRecord]) -> None:
        """Add the episodes that had ended after `steps` env steps."""
        self._episodes.extend(episodes)
        self._reported.extend(episode for episode in episodes if episode.report is not None)
        for episode in episodes:
            self._log.episode(steps, episode)

    def add_update(self, metrics: Metrics) -> None:
        """Add the metrics of one update to the means of the next row; NaN values are left out."""
        for name, value in metrics.items():
            if value == value:
                entry = self._sums.setdefault(name, [0.0, 0])
                entry[0] += value
                entry[1] += 1

    def take(self, progress: Progress) -> Metrics:
        """Return the metrics of the updates and episodes since the last row, and start the next one."""
        now = time.monotonic()
        fps = (progress.steps - self._last_step) / max(now - self._last_time, 1e-9)
        self._last_step, self._last_time = progress.steps, now
        sums, self._sums = self._sums, {}
        return (
            {name: total / count for name, (total, count) in sums.items()}
            | self._episode_metrics()
            | self._report_metrics()
            | {"time/fps": round(fps, 1), "time/seconds": round(progress.seconds, 3)}
            | self._load.sample()
        )

    def write(self, progress: Progress, metrics: Metrics) -> dict[str, Any]:
        """Write `metrics` as one row; a row that the disk refuses is written together with the next one."""
        row = self._log.take(progress.steps, progress.updates, progress.episodes, metrics)
        with self._storage.tolerating(
            "metrics.jsonl", "metrics.jsonl could not be written; its rows wait and go with the next one"
        ):
            self._log.flush()
        return dict(row)

    def state_dict(self) -> dict[str, Any]:
        return {
            "window": [[e.reward, e.length, e.success] for e in self._episodes],
            "games": [list(astuple(episode)) for episode in self._reported],
            "means": self._sums,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._episodes = deque((EpisodeRecord(*fields) for fields in state["window"]), maxlen=WINDOW)
        self._reported = deque((EpisodeRecord(*fields) for fields in state.get("games", [])), maxlen=GAMES)
        self._sums = {name: list(entry) for name, entry in state["means"].items()}

    def _episode_metrics(self) -> Metrics:
        if not self._episodes:
            return {}
        metrics = {
            "rollout/ep_rew_mean": float(np.mean([e.reward for e in self._episodes])),
            "rollout/ep_len_mean": float(np.mean([e.length for e in self._episodes])),
        }
        known = [e.success for e in self._episodes if e.success is not None]
        if known:
            metrics["rollout/success_rate"] = float(np.mean(known))
        return metrics

    def _report_metrics(self) -> Metrics:
        """Return the numbers of the last games' reports; the whole summary goes to `games.json`.

        With several kinds of reports, those after the first are in its `others`.
        """
        gathered = gather_reports(self._reported)
        if not gathered:
            return {}
        summary, *others = ({"kind": reports.kind, **reports.get_summary()} for reports in gathered)
        if others:
            summary["others"] = others
        with self._storage.tolerating(
            "games.json", "games.json could not be written, and is tried again with the next row"
        ):
            write_atomic(self._directory.games_path, json.dumps(summary, indent=1))
        return {
            f"{reports.kind}/{name}": value
            for reports in gathered
            for name, value in reports.metrics().items()
        }
