"""A run in the dashboard's index, and its row in the table."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.reports.reading import progress_at, total_of
from ludus.reports.web.columns import ReadProgress

REWARD, EVALUATION, SPEED = "rollout/ep_rew_mean", "eval/mean_reward", "time/fps"


@dataclass
class RunEntry:
    """One run in the index."""

    id: str
    """Made from its path; what the browser knows it by."""
    parts: tuple[str, ...]
    """The path below the runs folder."""
    path: Path
    info: dict[str, Any] = field(default_factory=dict)
    status: str = "?"
    total: str = ""
    """`total_timesteps` as the config has it."""
    self_play: bool = False
    """A language run, which has a league and games."""
    best: float | None = None
    mirror: dict[str, Any] | None = None
    """State of the run's mirror, if it has one."""
    read_progress: ReadProgress = field(default_factory=ReadProgress)
    spark: list[int] = field(default_factory=list)
    version: int = 0
    """When it last changed, in the index's own count."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    seen: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each file, its size and time when it was last read."""
    spark_rows: int = -1

    def summary(self) -> dict[str, Any]:
        """The run in one row of the table, as plain data."""
        info, last = self.info, self.read_progress.last
        evaluation = info.get("evaluation")
        evaluated = evaluation.get("mean_reward") if isinstance(evaluation, dict) else None
        steps: list[float] = [
            v for v in (last.get("step"), info.get("steps")) if v is not None and is_number(v)
        ]
        tags = info.get("tags")
        return {
            "id": self.id,
            "name": self.path.name,
            "folder": "/".join(self.parts[:-1]),
            "title": _text(info.get("name"), self.path.name),
            "env": _text(info.get("env_id"), self.path.parent.parent.name),
            "algorithm": _text(info.get("algorithm"), self.path.parent.name),
            "status": self.status,
            "steps": max(steps, default=None),
            "progress": self._progress(),
            "total": self.total,
            "reward": last.get(REWARD),
            "eval": last.get(EVALUATION, evaluated if is_number(evaluated) else None),
            "best": self.best,
            "fps": last.get(SPEED),
            "seconds": last.get("time/seconds"),
            "seed": info.get("seed") if isinstance(info.get("seed"), int) else None,
            "created": info.get("created") if isinstance(info.get("created"), str) else None,
            "tags": [str(tag)[:80] for tag in tags[:20]] if isinstance(tags, list) else [],
            "spark": self.spark,
            "rows": self.read_progress.rows,
            "damaged": self.read_progress.end.damaged,
            "mirror": self.mirror,
            "epoch": self.read_progress.epoch,
        }

    def _progress(self) -> float | None:
        try:
            total = total_of({"total_timesteps": self.total})
        except OverflowError:
            return None
        if total is None or "step" not in self.read_progress.last:
            return None
        return total.fraction(progress_at(self.read_progress.last))


def is_number(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == value
        and abs(value) < 1e300
    )


def _text(value: object, otherwise: str) -> str:
    return value[:300] if isinstance(value, str) else otherwise
