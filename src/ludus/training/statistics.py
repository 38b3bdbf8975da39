"""Running figures between two metric rows; all of them survive a checkpoint to the last bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

import numpy as np

from ludus.envs.episode_reports import EpisodeReports, gather_reports
from ludus.types import EpisodeRecord, Metrics

WINDOW = 100
GAMES = 1000


class EpisodeWindow:
    """The last 100 finished episodes."""

    def __init__(self) -> None:
        self._episodes: deque[EpisodeRecord] = deque(maxlen=WINDOW)

    def extend(self, episodes: Iterable[EpisodeRecord]) -> None:
        self._episodes.extend(episodes)

    def metrics(self) -> Metrics:
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

    def state_dict(self) -> list[list[Any]]:
        return [[e.reward, e.length, e.success] for e in self._episodes]

    def load_state_dict(self, state: list[list[Any]]) -> None:
        self._episodes = deque((EpisodeRecord(*fields) for fields in state), maxlen=WINDOW)


class GameWindow:
    """The last 1,000 episodes with a report of the game."""

    def __init__(self) -> None:
        self._episodes: deque[EpisodeRecord] = deque(maxlen=GAMES)

    def extend(self, episodes: Iterable[EpisodeRecord]) -> None:
        self._episodes.extend(episode for episode in episodes if episode.report is not None)

    def reports(self) -> EpisodeReports | None:
        """Return the summary of their reports; None without one."""
        return gather_reports(self._episodes)

    def state_dict(self) -> list[list[Any]]:
        return [list(astuple(episode)) for episode in self._episodes]

    def load_state_dict(self, state: list[list[Any]]) -> None:
        self._episodes = deque((EpisodeRecord(*fields) for fields in state), maxlen=GAMES)


class MeanMetrics:
    """The mean of each metric over the updates since the last row; NaN values are left out."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    @property
    def waiting(self) -> bool:
        """Whether anything was added that no row tells yet."""
        return bool(self._sums)

    def add(self, metrics: Metrics) -> None:
        for name, value in metrics.items():
            if value == value:
                entry = self._sums.setdefault(name, [0.0, 0])
                entry[0] += value
                entry[1] += 1

    def take(self) -> Metrics:
        """The means so far; starts over."""
        means = {name: total / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        return means

    def state_dict(self) -> dict[str, list[float]]:
        return self._sums

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        self._sums = {name: list(entry) for name, entry in state.items()}
