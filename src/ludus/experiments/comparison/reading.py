"""Reads the files of runs into the results of an experiment. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.experiments.experiment import Curve, ExperimentResult, RunResult
from ludus.reports.statistics import estimate
from ludus.runs import strict_json
from ludus.runs.directory import RunDirectory
from ludus.tracking.jsonl import read_jsonl

SCORE = "eval/mean_reward"
SPREAD = "eval/std_reward"
TRAINING = "rollout/ep_rew_mean"


def read_run(path: Path, seed: int, sessions: Sequence[Path]) -> RunResult:
    """Return the result of the run at `path`; its status is `waiting` if it has not begun.

    `sessions` are the files of its processes, see `job.JobCosts`. A run whose process was killed counts as interrupted,
    one whose last process ended with an error as failed.
    """
    costs = [session for file in sessions if (session := _read_session(file)) is not None]
    core_seconds = sum(float(cost["core_seconds"]) for cost in costs)
    peak_memory = max((int(cost["peak_memory"]) for cost in costs), default=0)
    error = costs[-1]["error"] if costs else None
    try:
        info = RunDirectory(path).info()
        rows = list(read_jsonl(path / "metrics.jsonl"))
    except (UserError, OSError):  # no run there, or killed while it was being created
        info, rows = {}, []
    status = str(info.get("status", "failed" if error else "waiting"))
    if status not in ("finished", "stopped"):
        status = "failed" if error else "interrupted" if status == "running" else status
    evaluation, training = _curve(rows, SCORE), _curve(rows, TRAINING)
    scores = evaluation if evaluation is not None else training
    best = None if scores is None else int(np.argmax(scores.scores))
    return RunResult(
        seed=seed,
        status=status,
        run=path,
        steps=int(rows[-1]["step"]) if rows else 0,
        episodes=int(rows[-1]["episodes"]) if rows else 0,
        score=None if scores is None else float(scores.scores[-1]),
        std=_last(rows, SPREAD),
        best_score=None if scores is None or best is None else float(scores.scores[best]),
        best_step=None if scores is None or best is None else int(scores.steps[best]),
        seconds=_last(rows, "time/seconds") or 0.0,
        core_seconds=core_seconds,
        peak_memory=peak_memory,
        error=None if status in ("finished", "stopped") else error,
        evaluation=evaluation,
        training=training,
    )


def summarize(
    name: str, algorithm: str, env: str, config: TrainerConfig, runs: Sequence[RunResult]
) -> ExperimentResult:
    """Combine the runs of one experiment."""
    scores = np.array([run.score for run in runs if run.counts], dtype=float)
    one = [run for run in runs if run.counts]
    spread = one[0].std if len(one) == 1 else float(scores.std()) if len(one) else None
    return ExperimentResult(
        name=name,
        algorithm=algorithm,
        env=env,
        config=config,
        runs=tuple(runs),
        mean_reward=float(scores.mean()) if len(scores) else None,
        std_reward=spread,
        best_reward=max((run.best_score for run in one if run.best_score is not None), default=None),
        iqm=estimate([scores]) if len(scores) else None,
    )


def _curve(rows: Sequence[dict[str, Any]], metric: str) -> Curve | None:
    """Return the points of `metric`. Rows of evaluations have no time: it is interpolated from their neighbours."""
    points = [(row["step"], row[metric]) for row in rows if row.get(metric) is not None]
    if not points:
        return None
    clock = [(row["step"], row["time/seconds"]) for row in rows if row.get("time/seconds") is not None]
    steps, scores = (np.array(part, dtype=float) for part in zip(*points, strict=True))
    if not clock:
        return Curve(steps, scores, np.zeros_like(steps))
    at, seconds = (np.array(part, dtype=float) for part in zip((0, 0.0), *clock, strict=True))
    return Curve(steps, scores, np.interp(steps, at, seconds))


def _last(rows: Sequence[dict[str, Any]], metric: str) -> float | None:
    return next((float(row[metric]) for row in reversed(rows) if row.get(metric) is not None), None)


def _read_session(path: Path) -> dict[str, Any] | None:
    try:
        session = strict_json.loads(path.read_text("utf-8"))
        return session if {"core_seconds", "peak_memory", "error"} <= session.keys() else None
    except (OSError, ValueError, AttributeError):
        return None  # unreadable costs are ignored
