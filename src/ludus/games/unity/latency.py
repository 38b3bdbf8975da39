"""Latency metrics of simulators."""

from __future__ import annotations

from collections import deque

import numpy as np

from ludus.types import Metrics

_KEPT = 100_000


class Latency:
    """Round trips since the last `take`, in seconds; `inside` is the time that the simulator measured itself."""

    def __init__(self) -> None:
        self._round_trips: deque[float] = deque(maxlen=_KEPT)
        self._inside: deque[float] = deque(maxlen=_KEPT)

    def add(self, round_trip: float, inside: float | None = None) -> None:
        self._round_trips.append(round_trip)
        if inside is not None:
            self._inside.append(inside)

    def take(self) -> Metrics:
        """Return `time/sim_ms` with percentiles, and `time/sim_inside_ms` if simulators report it, and clear both."""
        if not self._round_trips:
            return {}
        trips = np.array(self._round_trips) * 1e3
        metrics = {"time/sim_ms": float(trips.mean())}
        for percentile in (50, 95, 99):
            metrics[f"time/sim_ms_p{percentile}"] = float(np.percentile(trips, percentile))
        if self._inside:
            metrics["time/sim_inside_ms"] = float(np.mean(self._inside) * 1e3)
        self._round_trips.clear()
        self._inside.clear()
        return metrics
