"""Observes a training from outside, by the rows that its process appends to `metrics.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ludus.config.when import When
from ludus.types import Progress

_EVALUATION = "eval/mean_reward"


class RunWatch:
    """The state of a run from its rows so far. `poll` reads the new ones."""

    def __init__(self, run: Path, total: When) -> None:
        self._path = run / "metrics.jsonl"
        self._total = total
        self._offset = 0
        self.newest: dict[str, Any] = {}

    @property
    def steps(self) -> int:
        return int(self.newest.get("step", 0))

    @property
    def fraction(self) -> float:
        """The completed fraction of its total, from 0 to 1."""
        row = self.newest
        seconds = float(row.get("time/seconds") or 0.0)
        return self._total.fraction(
            Progress(self.steps, int(row.get("updates", 0)), int(row.get("episodes", 0)), seconds)
        )

    def poll(self) -> list[dict[str, Any]]:
        """Return the rows written since the last call. A file that was truncated by a resume is read from the start."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = []
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # damaged: the reader of the run reports it
            rows.append(row)
            self.newest = {**self.newest, **row}
        return rows

    def number(self, metric: str = _EVALUATION) -> float | None:
        """Return the newest value of a metric."""
        value = self.newest.get(metric)
        return float(value) if isinstance(value, int | float) else None
