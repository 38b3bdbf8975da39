"""Types that several folders share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]

Observation = Array | dict[str, Array]
"""A batch of observations: one array, or one array per key of a Dict space. First axis: env."""

Metrics = dict[str, float]
"""Metric name (`train/approx_kl`) to value."""


@dataclass
class Progress:
    """Progress of a run. Schedules, intervals and totals read no other clock."""

    steps: int = 0
    updates: int = 0
    episodes: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Progress:
        """Return the progress that `as_dict` saved. Raises if `saved` is invalid (runs are untrusted input)."""
        steps, updates, episodes = (int(saved[name]) for name in ("steps", "updates", "episodes"))
        return cls(steps, updates, episodes, float(saved["seconds"]))


@dataclass(frozen=True)
class EpisodeRecord:
    """One finished episode, as written to `episodes.jsonl`; `report` holds the game's own fields."""

    reward: float
    length: int
    success: bool | None = None
    report: dict[str, Any] | None = None
    capped: bool = False
    """Cut by the step limit of an evaluation, not ended by the env."""
