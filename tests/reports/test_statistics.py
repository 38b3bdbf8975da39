"""The statistics of a comparison, against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import UserError
from ludus.reports.statistics import (
    band,
    compute_moving_average,
    estimate,
    first_reaching,
    interquartile_mean,
    normalized,
    probability_of_improvement,
    resampled,
)


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end() -> None:
    assert interquartile_mean(np.array([1.0, 2, 3, 4, 5, 6, 7, 100])) == (3 + 4 + 5 + 6) / 4
    assert interquartile_mean(np.array([100.0, 0, 4, 2])) == 3.0  # sorted: 0 2 4 100
    assert interquartile_mean(np.array([1.0, 2, 9])) == 4.0  # a quarter of three is less than one


def test_resampling_keeps_every_task_to_its_own_scores() -> None:
    drawn = resampled([np.array([1.0, 2]), np.array([10.0, 20, 30])], resamples=500)
    assert drawn.shape == (500, 5)
    assert set(np.unique(drawn[:, :2])) == {1, 2}
    assert set(np.unique(drawn[:, 2:])) == {10, 20, 30}


def test_interval_of_two_scores_matches_hand_computation() -> None:
    # two scores 0 and 1: the resampled means are 0, ½, 1 with probabilities ¼, ½, ¼, so 2.5 % and 97.5 % are 0 and 1
    found = estimate([np.array([0.0, 1.0])])
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
    # equal scores have an interval of length 0
    same = estimate([np.full(5, 3.0), np.full(5, 5.0)])
    assert (same.value, same.low, same.high) == (4.0, 4.0, 4.0)


def test_an_interval_is_the_same_every_time_and_narrows_with_more_seeds() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=5), rng.normal(size=200)
    assert estimate([few]) == estimate([few])
    assert estimate([many]).high - estimate([many]).low < estimate([few]).high - estimate([few]).low


def test_interval_of_the_mean_matches_theory() -> None:
    scores = np.random.default_rng(1).normal(10.0, 2.0, size=400)
    found = estimate([scores], np.mean, resamples=4000)
    half = 1.96 * scores.std() / np.sqrt(400)
    assert found.value == pytest.approx(scores.mean())
    assert found.high - found.low == pytest.approx(2 * half, rel=0.06)


def test_the_probability_of_improvement_counts_pairs_and_halves_ties() -> None:
    x, y = [np.array([3.0, 5.0])], [np.array([1.0, 3.0, 4.0])]
    # 3 beats 1, ties 3, loses to 4; 5 beats all three: (1 + ½ + 0 + 3) / 6
    assert probability_of_improvement(x, y).value == pytest.approx(4.5 / 6)
    assert probability_of_improvement(y, x).value == pytest.approx(1.5 / 6)
    certain = probability_of_improvement([np.array([2.0, 3.0])], [np.array([0.0, 1.0])])
    assert (certain.value, certain.low, certain.high) == (1.0, 1.0, 1.0)


def test_the_probability_of_improvement_averages_over_tasks() -> None:
    x = [np.array([1.0]), np.array([0.0, 0.0])]
    y = [np.array([0.0]), np.array([0.0, 1.0])]
    assert probability_of_improvement(x, y).value == pytest.approx((1.0 + 0.25) / 2)


def test_band_contains_the_curve_and_is_closed_for_equal_seeds() -> None:
    middle, low, high = band(np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]]))
    assert middle.tolist() == [2.0, 5.0]
    assert (low[1], high[1]) == (5.0, 5.0)
    assert low[0] < 2.0 < high[0]


def test_a_threshold_is_reached_between_two_points() -> None:
    steps, values = np.array([0.0, 100, 200, 300]), np.array([0.0, 10, 30, 20])
    assert first_reaching(steps, values, 20.0) == 150.0
    assert first_reaching(steps, values, 0.0) == 0.0
    assert first_reaching(steps, values, 31.0) is None


def test_scores_are_put_on_a_scale_from_0_to_1() -> None:
    assert normalized(-100.0, -200.0, 0.0) == 0.5
    assert normalized(3.0, 3.0, 3.0) == 1.0


def test_moving_average_has_the_same_length() -> None:
    assert compute_moving_average([1, 2, 3, 4, 5], window=2).tolist() == [1.0, 1.5, 2.5, 3.5, 4.5]
    assert compute_moving_average([4, 2], window=10).tolist() == [4.0, 3.0]
    assert compute_moving_average([], window=3).tolist() == []
    with pytest.raises(UserError, match="at least 1"):
        compute_moving_average([1.0], window=0)
