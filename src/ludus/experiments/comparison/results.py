"""Results of a comparison as plain data: results.json and results.csv, and separately costs.json.

Everything that depends on the clock or the machine is in costs.json. So two comparisons with equal learning results
have identical results files.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ludus.config.loading import plain_config
from ludus.experiments.comparison.reading import SCORE
from ludus.experiments.experiment import Curve, ExperimentResult, RunResult
from ludus.reports import statistics
from ludus.runs import atomic, strict_json
from ludus.runs.directory import versions
from ludus.runs.limits import usable_cores
from ludus.types import Array

FORMAT = 1
SHARES = (50, 75, 90)
_POINTS = 200


def write_results(path: Path, results: Sequence[ExperimentResult]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the three files into `path`; return results and costs as written."""
    found, costs = describe(results, path), describe_costs(results)
    atomic.write_atomic(path / "results.json", strict_json.dumps(found, indent=1) + "\n")
    atomic.write_atomic(path / "results.csv", _table(found))
    atomic.write_atomic(path / "costs.json", strict_json.dumps(costs, indent=1) + "\n")
    return found, costs


def describe(results: Sequence[ExperimentResult], path: Path) -> dict[str, Any]:
    """Return all results except costs."""
    scales = _scales(results)
    return {
        "format": FORMAT,
        "score": SCORE,
        "envs": {
            env: {"low": low, "high": high, **{f"{share}%": _threshold(scale, share) for share in SHARES}}
            for env, scale in scales.items()
            for low, high in [scale]
        },
        "experiments": [_experiment(result, path, scales) for result in results],
        "overall": _overall(results, scales) if len(scales) > 1 else [],
        "probability_of_improvement": _improvements(results),
    }


def describe_costs(results: Sequence[ExperimentResult]) -> dict[str, Any]:
    """Return the costs: seconds, processor time, memory, and the machine."""
    scales = _scales(results)
    return {
        "format": FORMAT,
        "machine": {"cores": usable_cores(), "versions": versions()},
        "experiments": [
            {
                "name": result.name,
                "env": result.env,
                "seconds": result.training_time,
                "fps": result.fps,
                "core_seconds": result.core_seconds,
                "peak_memory": result.peak_memory,
                "seconds_to": _reaching(result, scales, clock=True),
                "curve_seconds": _seconds(result),
                "runs": [
                    {
                        "seed": run.seed,
                        "seconds": run.seconds,
                        "fps": run.steps / run.seconds if run.seconds else None,
                        "core_seconds": run.core_seconds,
                        "peak_memory": run.peak_memory,
                    }
                    for run in result.runs
                ],
            }
            for result in results
        ],
        "core_seconds": sum(result.core_seconds for result in results),
        "seconds": sum(result.training_time for result in results),
    }


def curves_of(result: ExperimentResult, training: bool = False) -> tuple[Array, Array, Array] | None:
    """Return a common grid of steps, the scores of all counted runs at them (runs x points), and the mean seconds.

    A run that ended earlier keeps its last score. None if there is no curve.
    """
    curves = [curve for run in result.runs if run.counts and (curve := _of(run, training)) is not None]
    if not curves:
        return None
    grid = np.unique(np.concatenate([curve.steps for curve in curves]))
    if len(grid) > _POINTS:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, _POINTS).astype(int))]
    scores = np.stack([np.interp(grid, curve.steps, curve.scores) for curve in curves])
    seconds = np.mean([np.interp(grid, curve.steps, curve.seconds) for curve in curves], axis=0)
    return grid, scores, seconds


def _of(run: RunResult, training: bool) -> Curve | None:
    """Return the curve of evaluations, or of training rewards if asked or if the config never evaluates."""
    return run.training if training or run.evaluation is None else run.evaluation


def _experiment(
    result: ExperimentResult, path: Path, scales: dict[str, tuple[float, float]]
) -> dict[str, Any]:
    scores = _scores(result)
    config = plain_config(result.config)
    for key in ("seed", "run_dir", "save_dir", "threads"):
        del config[key]
    return {
        "name": result.name,
        "algorithm": result.algorithm,
        "engine": result.config.engine,
        "env": result.env,
        "runs": [_run(run, path) for run in result.runs],
        "ended": len(scores),
        "iqm": None if result.iqm is None else result.iqm.plain(),
        "mean": statistics.estimate([scores], np.mean).plain() if len(scores) else None,
        "median": float(np.median(scores)) if len(scores) else None,
        "std": float(scores.std()) if len(scores) else None,
        "min": float(scores.min()) if len(scores) else None,
        "max": float(scores.max()) if len(scores) else None,
        "best": result.best_reward,
        "steps_to": _reaching(result, scales),
        "curve": _band(result),
        "training_curve": _band(result, training=True),
        "config": config,
    }


def _run(run: RunResult, path: Path) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "status": run.status,
        "run": run.run.relative_to(path).as_posix(),
        "steps": run.steps,
        "episodes": run.episodes,
        "score": run.score,
        "std": run.std,
        "best": run.best_score,
        "best_step": run.best_step,
        "error": run.error,
    }


def _band(result: ExperimentResult, training: bool = False) -> dict[str, list[float]] | None:
    curves = curves_of(result, training)
    if curves is None:
        return None
    grid, scores, _ = curves
    middle, low, high = statistics.band(scores)
    return {"steps": grid.tolist(), "iqm": middle.tolist(), "low": low.tolist(), "high": high.tolist()}


def _seconds(result: ExperimentResult) -> list[float] | None:
    curves = curves_of(result)
    return None if curves is None else curves[2].tolist()


def _scales(results: Sequence[ExperimentResult]) -> dict[str, tuple[float, float]]:
    """Return by env the lowest and the highest point of all curves: 0 % and 100 % of the best."""
    scales: dict[str, tuple[float, float]] = {}
    for result in results:
        curves = curves_of(result)
        if curves is not None:
            middle, _, _ = statistics.band(curves[1], resamples=1)
            low, high = scales.get(result.env, (np.inf, -np.inf))
            scales[result.env] = (min(low, float(middle.min())), max(high, float(middle.max())))
    return scales


def _threshold(scale: tuple[float, float], share: int) -> float:
    low, high = scale
    return low + share / 100 * (high - low)


def _reaching(
    result: ExperimentResult, scales: dict[str, tuple[float, float]], clock: bool = False
) -> dict[str, float | None]:
    """Return the steps, or seconds, until the experiment's curve reaches each share of its env's range."""
    curves = curves_of(result)
    if curves is None:
        return {f"{share}%": None for share in SHARES}
    grid, scores, seconds = curves
    middle, _, _ = statistics.band(scores, resamples=1)
    at = seconds if clock else grid
    return {
        f"{share}%": statistics.first_reaching(at, middle, _threshold(scales[result.env], share))
        for share in SHARES
    }


def _scores(result: ExperimentResult) -> Array:
    return np.array([run.score for run in result.runs if run.counts], dtype=float)


def _by_env(results: Sequence[ExperimentResult]) -> dict[str, dict[str, Array]]:
    """Return scores by method and env, methods in their order."""
    found: dict[str, dict[str, Array]] = {}
    for result in results:
        if len(scores := _scores(result)):
            found.setdefault(result.name, {})[result.env] = scores
    return found


def _overall(
    results: Sequence[ExperimentResult], scales: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """Return the interquartile mean over several envs, each scaled from its lowest to its highest curve point."""
    rows = []
    for name, by_env in _by_env(results).items():
        on_scale: statistics.Scores = [
            np.array([statistics.normalized(score, *scales[env]) for score in scores])
            for env, scores in by_env.items()
        ]
        rows.append({"name": name, "envs": list(by_env), "iqm": statistics.estimate(on_scale).plain()})
    return rows


def _improvements(results: Sequence[ExperimentResult]) -> list[dict[str, Any]]:
    """Return for every ordered pair of methods the probability that one beats the other, over their common envs."""
    found = _by_env(results)
    rows = []
    for better, of_better in found.items():
        for other, of_other in found.items():
            common = [env for env in of_better if env in of_other]
            if better == other or not common:
                continue
            chance = statistics.probability_of_improvement(
                [of_better[env] for env in common], [of_other[env] for env in common]
            )
            rows.append({"better": better, "than": other, "envs": common, **chance.plain()})
    return rows


def _table(found: dict[str, Any]) -> str:
    """Return the CSV, one line per run."""
    columns = ("seed", "status", "steps", "episodes", "score", "std", "best", "best_step", "run", "error")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["experiment", "algorithm", "engine", "env", *columns])
    for one in found["experiments"]:
        for run in one["runs"]:
            head = (one["name"], one["algorithm"], one["engine"], one["env"])
            writer.writerow([*head, *("" if run[column] is None else run[column] for column in columns)])
    return text.getvalue()
