"""Trains the unfinished runs of a comparison, several at a time, until all are finished or a signal stops it."""

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

_POLL_SECONDS = 0.25


class ComparisonListener(Protocol):
    """Receives the events of a running comparison."""

    def begin(self, comparison: Comparison, done: Sequence[tuple[Task, RunResult]], jobs: int) -> None: ...

    def started(self, task: Task, watch: RunWatch) -> None: ...

    def polled(self) -> None: ...

    def ended(self, task: Task, result: RunResult) -> None: ...

    def stopping(self) -> None: ...

    def close(self) -> None: ...


def run_comparison(comparison: Comparison, listener: ComparisonListener, jobs: int | None = None) -> int:
    """Train every unfinished run; return 0, or the exit code of the signal that stopped it.

    A failed run is reported to the listener, and the others continue. The first Ctrl-C lets the running ones save and
    stop, the second ends everything at once.
    """
    with RunLock(comparison.path), StopSignals() as signals:
        tasks = comparison.tasks()
        found = [(task, comparison.result_of(task)) for task in tasks]
        done = [(task, result) for task, result in found if result.ended]
        waiting = deque(task for task, result in found if not result.ended)
        jobs, threads = share_cores(len(waiting), jobs)
        training: dict[str, tuple[Task, Job, RunWatch]] = {}
        reported = False
        listener.begin(comparison, done, jobs)
        try:
            with Pool() as pool:
                while training or (waiting and signals.received is None):
                    while waiting and len(training) < jobs and signals.received is None:
                        task = waiting.popleft()
                        job = comparison.job(task, threads)
                        watch = RunWatch(job.run, task.experiment.config.total_timesteps)
                        pool.start(job)
                        training[job.name] = (task, job, watch)
                        listener.started(task, watch)
                    for ended in pool.wait(_POLL_SECONDS):
                        task, job, _ = training.pop(ended.job.name)
                        _write_cause(ended)
                        listener.ended(task, comparison.result_of(task))
                    if signals.received is not None and not reported:
                        reported = True
                        listener.stopping()
                        for _, job, _ in training.values():
                            pool.stop(job)
                    for _, _, watch in training.values():
                        watch.poll()
                    listener.polled()
        finally:
            listener.close()
        return signals.exit_code


def _write_cause(ended: Ended) -> None:
    """Record in its session that a process was killed, which it could not record itself."""
    if ended.code >= 0 or -ended.code in (signal.SIGINT, signal.SIGTERM):
        return
    name = signal.Signals(-ended.code).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    try:
        session = strict_json.loads(ended.job.session.read_text("utf-8"))
    except (OSError, ValueError):
        session = {"pid": 0, "seconds": 0.0, "core_seconds": 0.0, "peak_memory": 0}
    session["error"] = f"its process was killed by {name}{hint}"
    atomic.write_atomic(ended.job.session, strict_json.dumps(session) + "\n")
