"""The summary of episode reports: numbers for metrics.jsonl, lines for `ludus eval`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ludus.envs.episode_reports import EpisodeReports


class GridWalkReports(EpisodeReports):
    kind = "gridwalk"

    def __init__(self) -> None:
        self.detours: list[int] = []
        self.reached: list[bool] = []

    def add_report(self, report: Mapping[str, Any], reward: float) -> None:
        self.detours.append(report["detour"])
        self.reached.append(report["reached"])

    def get_summary(self) -> dict[str, Any]:
        return {"episodes": len(self.detours), **self.metrics()}

    def metrics(self) -> dict[str, float]:
        return {"detour": float(np.mean(self.detours)), "reached": float(np.mean(self.reached))}

    def lines(self) -> list[tuple[str, str]]:
        return [("detour", f"{np.mean(self.detours):.2f} steps on average")]
