"""Division of the cores between trainings."""

from __future__ import annotations

from ludus.runs.limits import usable_cores


def share_cores(runs: int, jobs: int | None) -> tuple[int, int]:
    """Return how many runs to train at a time, and the number of threads for each."""
    cores = usable_cores()
    jobs = max(1, min(runs, jobs or cores))
    return jobs, max(1, cores // jobs)
