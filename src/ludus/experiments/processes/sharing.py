"""How many trainings the machine takes at a time."""

from __future__ import annotations

from ludus.runs.limits import usable_cores


def share_cores(runs: int, jobs: int | None) -> tuple[int, int]:
    """How many runs at a time, and how many threads for each of them."""
    cores = usable_cores()
    jobs = max(1, min(runs, jobs or cores))
    return jobs, max(1, cores // jobs)
