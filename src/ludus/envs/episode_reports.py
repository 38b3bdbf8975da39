"""Episode reports: what a game says of an episode beyond its reward, and how reports are summarised.

At the end of an episode an env may put a dict into `info["episode_report"]`. Its `kind` names the class, in
`Plugin.episode_reports`, that summarises reports of that kind for metrics, `ludus eval` and the report page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ludus.plugins import find
from ludus.types import EpisodeRecord, Metrics

REPORT = "episode_report"
"""The key of `info` that holds a report."""


class EpisodeReports(ABC):
    """Gathers the reports of one `kind`."""

    kind: str

    @abstractmethod
    def add_report(self, report: Mapping[str, Any], reward: float) -> None:
        """Add one finished episode."""

    @abstractmethod
    def get_summary(self) -> dict[str, Any]:
        """Return everything about the episodes, as `games.json` and `ludus eval --json` show it."""

    def metrics(self) -> Metrics:
        """Return the numbers for `metrics.jsonl`, without a prefix."""
        return {}

    def lines(self) -> list[tuple[str, str]]:
        """Return label and text of the lines that `ludus eval` prints."""
        return []


def gather_reports(episodes: Iterable[EpisodeRecord]) -> list[EpisodeReports]:
    """Return the summaries of the reports in `episodes`, one for each kind that a plugin knows, first seen first."""
    gathered: dict[str, EpisodeReports | None] = {}
    for episode in episodes:
        if episode.report is None:
            continue
        kind = str(episode.report.get("kind"))
        if kind not in gathered:
            make = find("episode_reports", kind)
            gathered[kind] = None if make is None else make()
        reports = gathered[kind]
        if reports is not None:
            reports.add_report(episode.report, episode.reward)
    return [reports for reports in gathered.values() if reports is not None]
