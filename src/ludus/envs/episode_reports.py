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


def gather_reports(episodes: Iterable[EpisodeRecord]) -> EpisodeReports | None:
    """Return the summary of the reports in `episodes`; None without any whose kind is known."""
    gathered: EpisodeReports | None = None
    for episode in episodes:
        if episode.report is None:
            continue
        if gathered is None:
            make = find("episode_reports", str(episode.report.get("kind")))
            if make is None:
                return None
            gathered = make()
        assert gathered is not None
        gathered.add_report(episode.report, episode.reward)
    return gathered
