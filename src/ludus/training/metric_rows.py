"""The metric rows of a session: running means and episode windows, written to `metrics.jsonl` at every log point."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from ludus.runs.atomic import write_atomic
from ludus.runs.directory import RunDirectory
from ludus.tracking.machine import MachineLoad
from ludus.tracking.tracker import MetricsLog
from ludus.training.statistics import EpisodeWindow, GameWindow, MeanMetrics
from ludus.training.storage import Storage
from ludus.types import EpisodeRecord, Metrics, Progress


class MetricRows:
    """Collects what happened since the last row and writes the next one. All of it survives a checkpoint."""

    def __init__(self, directory: RunDirectory, log: MetricsLog, storage: Storage, device: str) -> None:
        self._directory = directory
        self._log = log
        self._storage = storage
        self._window = EpisodeWindow()
        self._games = GameWindow()
        self._means = MeanMetrics()
        self._load = MachineLoad(device)
        self._last_step = 0
        self._last_time = time.monotonic()

    @property
    def pending(self) -> bool:
        """Whether an update was added that no row contains yet."""
        return self._means.waiting

    def start_clock(self, steps: int) -> None:
        """Measure `time/fps` of the next row from here."""
        self._last_step, self._last_time = steps, time.monotonic()

    def add_episodes(self, steps: int, episodes: Sequence[EpisodeRecord]) -> None:
        """Add the episodes that had ended after `steps` env steps."""
        self._window.extend(episodes)
        self._games.extend(episodes)
        for episode in episodes:
            self._log.episode(steps, episode)

    def add_update(self, metrics: Metrics) -> None:
        """Add the metrics of one update to the means of the next row."""
        self._means.add(metrics)

    def write(self, progress: Progress, metrics: Metrics) -> dict[str, Any]:
        """Write `metrics` as one row; a row that the disk refuses is written together with the next one."""
        row = self._log.take(progress.steps, progress.updates, progress.episodes, metrics)
        with self._storage.tolerating(
            "metrics.jsonl", "metrics.jsonl could not be written; its rows wait and go with the next one"
        ):
            self._log.flush()
        return dict(row)

    def take(self, progress: Progress) -> Metrics:
        """Return the metrics of the updates and episodes since the last row, and start the next one."""
        now = time.monotonic()
        fps = (progress.steps - self._last_step) / max(now - self._last_time, 1e-9)
        self._last_step, self._last_time = progress.steps, now
        return (
            self._means.take()
            | self._window.metrics()
            | self._game_metrics()
            | {"time/fps": round(fps, 1), "time/seconds": round(progress.seconds, 3)}
            | self._load.sample()
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "window": self._window.state_dict(),
            "games": self._games.state_dict(),
            "means": self._means.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._window.load_state_dict(state["window"])
        self._games.load_state_dict(state.get("games", []))
        self._means.load_state_dict(state["means"])

    def _game_metrics(self) -> Metrics:
        """Return the numbers of the last games' reports; the whole summary goes to `games.json`."""
        reports = self._games.reports()
        if reports is None:
            return {}
        summary = {"kind": reports.kind, **reports.get_summary()}
        with self._storage.tolerating(
            "games.json", "games.json could not be written, and is tried again with the next row"
        ):
            write_atomic(self._directory.games_path, json.dumps(summary, indent=1))
        return {f"{reports.kind}/{name}": value for name, value in reports.metrics().items()}
