"""Statistics for comparing algorithms with few seeds: interquartile means, bootstrap intervals, P(improvement).

The method is that of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(2021), implemented in the library rliable. Scores are one array per task (env), one score per seed. Resampling is
stratified: seeds are resampled within each task, never across tasks. All draws use a fixed seed, so the same scores
give the same intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy import stats

from ludus.errors import UserError, require_types, shortened
from ludus.types import Array

RESAMPLES = 2000
CONFIDENCE = 0.95
_SEED = 20210830

Scores = Sequence[Array]
"""One array per task, one score per seed in it."""


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float

    def plain(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


def interquartile_mean(scores: Array, axis: int | None = None) -> Array:
    """Return the mean of the middle half: a quarter of the scores, rounded down, is cut off at each end."""
    return np.asarray(stats.trim_mean(scores, 0.25, axis=axis))


def resampled(scores: Scores, resamples: int = RESAMPLES, seed: int = _SEED) -> Array:
    """Return `resamples` x all scores: within each task, seeds are drawn with replacement; tasks are concatenated."""
    rng = np.random.default_rng(seed)
    drawn = [np.asarray(task)[rng.integers(0, len(task), (resamples, len(task)))] for task in scores]
    return np.concatenate(drawn, axis=1)


def estimate(
    scores: Scores, statistic: Callable[..., Array] = interquartile_mean, resamples: int = RESAMPLES
) -> Estimate:
    """Return `statistic(all scores, axis=…)` with its percentile interval under the stratified bootstrap."""
    value = float(statistic(np.concatenate([np.asarray(task, dtype=float) for task in scores]), axis=0))
    low, high = _interval(statistic(resampled(scores, resamples), axis=1))
    return Estimate(value, low, high)


def probability_of_improvement(x: Scores, y: Scores, resamples: int = RESAMPLES) -> Estimate:
    """Return the probability that a run of X scores higher than one of Y on a random task; a tie counts as half.

    `x` and `y` have the same tasks in the same order.
    """
    rng = np.random.default_rng(_SEED)
    chances = np.zeros(resamples)
    value = 0.0
    for of_x, of_y in zip(x, y, strict=True):
        of_x, of_y = np.asarray(of_x, dtype=float), np.asarray(of_y, dtype=float)
        wins = (of_x[:, None] > of_y[None, :]) + 0.5 * (of_x[:, None] == of_y[None, :])
        value += float(wins.mean())
        rows = rng.integers(0, len(of_x), (resamples, len(of_x)))
        columns = rng.integers(0, len(of_y), (resamples, len(of_y)))
        chances += wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = _interval(chances / len(x))
    return Estimate(value / len(x), low, high)


def band(curves: Array, resamples: int = RESAMPLES) -> tuple[Array, Array, Array]:
    """Return the interquartile mean over seeds at every point of `curves` (seeds x points), and its interval.

    Whole curves are resampled, because the points of a seed belong together.
    """
    curves = np.asarray(curves, dtype=float)
    rng = np.random.default_rng(_SEED)
    drawn = curves[rng.integers(0, len(curves), (resamples, len(curves)))]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(interquartile_mean(drawn, axis=1), (tail, 1 - tail), axis=0)
    return interquartile_mean(curves, axis=0), low, high


def normalized(score: float, low: float, high: float) -> float:
    """Return `score` on a scale from 0 (`low`) to 1 (`high`); 1 if both are equal."""
    return (score - low) / (high - low) if high > low else 1.0


def first_reaching(steps: Array, values: Array, threshold: float) -> float | None:
    """Return the step at which a curve first reaches `threshold`, with linear interpolation; None if never."""
    reached = np.flatnonzero(np.asarray(values) >= threshold)
    if not len(reached):
        return None
    at = int(reached[0])
    if at == 0:
        return float(steps[0])
    share = (threshold - values[at - 1]) / (values[at] - values[at - 1])
    return float(steps[at - 1] + share * (steps[at] - steps[at - 1]))


def compute_moving_average(values: Sequence[float] | Array, window: int = 100) -> Array:
    """Return the mean of each value and the `window` - 1 before it; the result has the same length.

    At the start, the mean is over the existing values. UserError if `window` is less than 1.
    """
    where = "compute_moving_average"
    require_types(where, window=(window, (Integral,)))
    if window < 1:
        raise UserError(f"window must be at least 1, got {window}", where=where, fix="give a larger window")
    try:
        series = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        series = np.zeros((0, 0))
    if series.ndim != 1:
        raise UserError(f"expected numbers in a row, got {shortened(values)}", where=where, fix="give a list")
    sums = np.cumsum(np.concatenate([[0.0], series]))
    ends = np.arange(1, len(series) + 1)
    starts = np.maximum(ends - window, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def _interval(samples: Array) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, (tail, 1 - tail))
    return float(low), float(high)


def centred_average(values: Array, window: int) -> Array:
    """Return the mean of each value and its neighbours, `window` (odd) in total; fewer towards the ends."""
    series = np.asarray(values, dtype=float)
    sums = np.cumsum(np.concatenate([[0.0], series]))
    at = np.arange(len(series))
    starts, ends = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(series))
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))
