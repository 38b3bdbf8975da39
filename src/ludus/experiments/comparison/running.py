"""Trains what a comparison still lacks, several runs at a time, until all is done or somebody asks to stop."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ludus.experiments.comparison.plan import Comparison, Task
from ludus.experiments.experiment import RunResult
from ludus.experiments.processes.job import Job
from ludus.experiments.processes.pool import Ended, Pool
from ludus.experiments.processes.sharing import share_cores
from ludus.experiments.processes.watch import RunWatch
from ludus.runs import atomic, strict_json
from ludus.runs.lock import RunLock
from ludus.runs.signals import StopSignals

_LOOK_SECONDS = 0.25


class Audience(Protocol):
    """Whoever wants to know how the comparison goes."""

    def begin(self, comparison: Comparison, done: Sequence[tuple[Task, RunResult]], jobs: int) -> None: ...

    def started(self, task: Task, watch: RunWatch) -> None: ...

    def looked(self) -> None: ...

    def ended(self, task: Task, result: RunResult) -> None: ...

    def stopping(self) -> None: ...

    def close(self) -> None: ...


def run_comparison(comparison: Comparison, audience: Audience, jobs: int | None = None) -> int:
    """Train every run that has not ended yet; returns 0, or the exit code of the signal that stopped it.

    A run that fails is told to the audience, and the rest go on. The first Ctrl-C lets those that are
    training save and stop, the second ends everything at once.
    """
    with RunLock(comparison.path), StopSignals() as signals:
        tasks = comparison.tasks()
        found = [(task, comparison.result_of(task)) for task in tasks]
        done = [(task, result) for task, result in found if result.ended]
        waiting = deque(task for task, result in found if not result.ended)
        jobs, threads = share_cores(len(waiting), jobs)
        training: dict[str, tuple[Task, Job, RunWatch]] = {}
        told = False
        audience.begin(comparison, done, jobs)
        try:
            with Pool() as pool:
                while training or (waiting and signals.received is None):
                    while waiting and len(training) < jobs and signals.received is None:
                        task = waiting.popleft()
                        job = comparison.job(task, threads)
                        watch = RunWatch(job.run, task.experiment.config.total_timesteps)
                        pool.start(job)
                        training[job.name] = (task, job, watch)
                        audience.started(task, watch)
                    for ended in pool.wait(_LOOK_SECONDS):
                        task, job, _ = training.pop(ended.job.name)
                        _write_cause(ended)
                        audience.ended(task, comparison.result_of(task))
                    if signals.received is not None and not told:
                        told = True
                        audience.stopping()
                        for _, job, _ in training.values():
                            pool.stop(job)
                    for _, _, watch in training.values():
                        watch.look()
                    audience.looked()
        finally:
            audience.close()
        return signals.exit_code


def _write_cause(ended: Ended) -> None:
    """Where a process was killed and could not say so itself, say so in its session."""
    if ended.code >= 0 or -ended.code in (signal.SIGINT, signal.SIGTERM):
        return
    name = signal.Signals(-ended.code).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    try:
        session = strict_json.loads(ended.job.session.read_text("utf-8"))
    except (OSError, ValueError):
        session = {"pid": 0, "seconds": 0.0, "core_seconds": 0.0, "peak_memory": 0}
    session["error"] = f"its process was ended by {name}{hint}"
    atomic.write_atomic(ended.job.session, strict_json.dumps(session) + "\n")
