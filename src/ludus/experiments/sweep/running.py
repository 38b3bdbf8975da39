"""Runs the trials of a sweep: several at a time, each pruned when its evaluations fall behind those of the others."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from typing import Protocol

from ludus.config.when import When
from ludus.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, UserError
from ludus.experiments.comparison.reading import SCORE, read_run
from ludus.experiments.processes.job import Job
from ludus.experiments.processes.pool import Ended, Pool
from ludus.experiments.processes.sharing import share_cores
from ludus.experiments.processes.watch import RunWatch
from ludus.experiments.sweep.study import Sweep, SweepTrial
from ludus.runs.signals import StopSignals
from ludus.types import Progress

_POLL_SECONDS = 0.1
_ASK_SECONDS = 1.0


@dataclass
class SweepWork:
    """A running trial. `evaluations` are those reported so far; `pruned`: it was stopped because of them."""

    trial: SweepTrial
    job: Job
    watch: RunWatch
    evaluations: dict[int, float] = field(default_factory=dict)
    pruned: bool = False


class SweepListener(Protocol):
    """Receives the events of a running sweep."""

    def begin(self, sweep: Sweep, total: int, jobs: int) -> None: ...

    def started(self, work: SweepWork) -> None: ...

    def ended(self, work: SweepWork, state: str, value: float | None, error: str | None) -> None: ...

    def waiting(self, others: int) -> None: ...

    def stopping(self) -> None: ...

    def close(self) -> None: ...


def run_sweep(sweep: Sweep, total: int, listener: SweepListener, jobs: int | None = None) -> int:
    """Run trials until the sweep has `total` and all have ended; return 0, or the exit code of a signal.

    Trials that a stop or a kill left unfinished are resumed from their newest exact checkpoint: by the next call, or by
    another process that works on the same sweep. Such a process waits until the last of them has ended.
    """
    jobs, threads = share_cores(total, jobs)
    working: dict[str, SweepWork] = {}
    more, ask_at, reported = True, 0.0, False
    with StopSignals() as signals:
        listener.begin(sweep, total, jobs)
        try:
            with Pool() as pool:
                while working or (more and signals.received is None):
                    free = more and len(working) < jobs and signals.received is None
                    if free and time.monotonic() >= ask_at:
                        work = _next_work(sweep, total, threads)
                        if work is not None:
                            pool.start(work.job)
                            working[work.job.name] = work
                            listener.started(work)
                            continue  # until all are busy
                        others = len(sweep.trials("RUNNING")) - len(working)
                        more, ask_at = others > 0, time.monotonic() + _ASK_SECONDS
                        listener.waiting(others)
                    for ended in pool.wait(_POLL_SECONDS):
                        _finish_trial(sweep, working.pop(ended.job.name), ended, listener)
                    for work in working.values():
                        if _falls_behind(work, sweep.config.evaluation.every):
                            pool.stop(work.job, signal.SIGTERM)
                    if signals.received is not None and not reported:
                        reported = True
                        listener.stopping()
                        for work in working.values():
                            pool.stop(work.job)
        finally:
            for work in working.values():
                sweep.release(work.trial)
            listener.close()
        return signals.exit_code


def _next_work(sweep: Sweep, total: int, threads: int) -> SweepWork | None:
    trial = sweep.next_trial(total)
    if trial is None:
        return None
    job = sweep.job(trial, threads)
    return SweepWork(trial, job, RunWatch(job.run, sweep.config.total_timesteps), dict(trial.reported))


def _falls_behind(work: SweepWork, every: When | None) -> bool:
    """Report the new evaluations of a trial; return True once, when it should be pruned."""
    for row in work.watch.poll():
        if row.get(SCORE) is None or every is None:
            continue
        progress = Progress(int(row["step"]), int(row["updates"]), int(row["episodes"]), _seconds(work.watch))
        number = every.count(progress)  # the same for every trial, regardless of the size of its updates
        if number not in work.evaluations:
            work.evaluations[number] = float(row[SCORE])
            work.trial.handle.report(float(row[SCORE]), number)
            if not work.pruned and work.watch.fraction < 1.0 and work.trial.handle.should_prune():
                work.pruned = True
                return True
    return False


def _seconds(watch: RunWatch) -> float:
    return watch.number("time/seconds") or 0.0


def _finish_trial(sweep: Sweep, work: SweepWork, ended: Ended, listener: SweepListener) -> None:
    _falls_behind(work, sweep.config.evaluation.every)  # rows written since the last poll
    result = read_run(work.job.run, 0, [work.job.session])
    state, value, error = "COMPLETE", result.score, None
    if work.pruned and not result.ended:
        state = "PRUNED"
    elif ended.code in (EXIT_INTERRUPTED, EXIT_TERMINATED, -signal.SIGINT, -signal.SIGTERM):
        sweep.release(work.trial)
        listener.ended(work, "RUNNING", None, None)
        return
    elif not result.ended or value is None:
        state, error = "FAIL", result.error or f"its process ended with code {ended.code}"
    sweep.finish(work.trial, value, state, error)
    listener.ended(work, state, value, error)


def check_evaluations(every: When | None) -> None:
    """Raise UserError if a config never evaluates: a sweep compares evaluations."""
    if every is None:
        raise UserError(
            "a sweep compares evaluations, and the config has none",
            where="evaluation",
            fix="set evaluation.every",
        )
