"""Ratings: openskill's own numbers, hand-computed ones, and that strength is found again from results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from openskill.models import PlackettLuce

from ludus.league.ratings import BETA, REFERENCE, Rating, Ratings
from ludus.runs import strict_json


def openskill_says(ratings: list[Rating], ranks: list[float]) -> list[tuple[float, float]]:
    model = PlackettLuce()
    teams = [[model.rating(one.mu, one.sigma)] for one in ratings]
    return [(one.mu, one.sigma) for [one] in model.rate(teams, ranks=ranks)]


def test_win_between_two_new_players_changes_ratings_as_in_weng_and_lin() -> None:
    ratings = Ratings()
    ratings.rate({"a": 1.0, "b": -1.0})
    # by hand, algorithm 4 for two equals: omega = sigma^2 / c * 1/2, delta = gamma * sigma^2 / c^2 * 1/4
    tau = 25 / 300
    variance = (25 / 3) ** 2 + tau**2
    c = math.sqrt(2 * (variance + (25 / 6) ** 2))
    gain = variance / c / 2
    shrink = math.sqrt(1 - math.sqrt(variance) / c * variance / c**2 / 4)
    assert ratings["a"].mu == pytest.approx(25 + gain)
    assert ratings["b"].mu == pytest.approx(25 - gain)
    assert ratings["a"].sigma == pytest.approx(math.sqrt(variance) * shrink)
    assert ratings["a"].mu == pytest.approx(27.63523138347365, abs=2e-3)  # openskill's README, without tau


@pytest.mark.parametrize(
    ("results", "ranks"),
    [
        ((1.0, 0.0), [0, 1]),
        ((-0.4, 0.7), [1, 0]),
        ((0.5, 0.5), [0, 0]),
        ((0.2, 0.1, 0.9), [1, 2, 0]),
        ((1.0, 0.0, 1.0, -1.0), [0, 2, 0, 3]),
        ((0.25, 0.75, 0.5), [2, 0, 1]),  # fractions: openskill would cut such ranks to whole numbers
    ],
)
def test_any_number_of_players_and_draws_are_rated_as_openskill_does(
    results: tuple[float, ...], ranks: list[float]
) -> None:
    before = [Rating(20 + 3 * i, 8 - i) for i in range(len(results))]
    ratings = Ratings()
    for name, rating in zip("abcd", before, strict=False):
        ratings[name] = rating
    ratings.rate(dict(zip("abcd", results, strict=False)))
    after = [(ratings[name].mu, ratings[name].sigma) for name in "abcd"[: len(results)]]
    assert after == openskill_says(before, ranks)


def test_a_draw_brings_unequal_players_nearer_and_leaves_equals_where_they_are() -> None:
    ratings = Ratings()
    ratings["strong"], ratings["weak"] = Rating(30, 4), Rating(20, 4)
    ratings.rate({"strong": 0.0, "weak": 0.0})
    assert 20 < ratings["weak"].mu < ratings["strong"].mu < 30
    ratings.rate({"new": 0.0, "newer": 0.0})
    assert ratings["new"].mu == ratings["newer"].mu == pytest.approx(25)


def test_version_inherits_mean_and_doubled_deviation_up_to_that_of_a_new_player() -> None:
    assert Rating(31.5, 2.0).inherited() == Rating(31.5, 4.0)
    assert Rating(31.5, 5.0).inherited() == Rating(31.5, 25 / 3)


def test_a_game_alone_is_one_against_a_reference_that_never_moves() -> None:
    ratings = Ratings()
    ratings.rate_alone("a", 1.0, reference=0.5)
    assert (ratings["a"].mu, ratings["a"].sigma) == openskill_says([Rating(), REFERENCE], [0, 1])[0]
    ratings.rate_alone("b", 0.2, reference=0.5)
    assert ratings["b"].mu < 25
    assert set(ratings) == {"a", "b"} and Rating(25.0, 0.0) == REFERENCE
    for _ in range(300):
        ratings.rate_alone("always", 1.0, 0.5)
        ratings.rate_alone("never", 0.0, 0.5)
    assert ratings["always"].mu > ratings["a"].mu > 25 > ratings["b"].mu > ratings["never"].mu


def test_nobody_is_rated_by_a_game_of_one() -> None:
    with pytest.raises(ValueError, match="fewer than two"):
        Ratings().rate({"a": 1.0})


def test_quality_and_win_probability_are_those_computed_by_hand() -> None:
    ratings = Ratings()
    ratings["a"], ratings["b"] = Rating(27.0, 3.0), Rating(25.0, 4.0)
    # 2 beta^2 = 34.7222, with 3^2 and 4^2 it is 59.7222: sqrt(0.581395) * exp(-4 / 119.4444) = 0.762493 * 0.967066
    assert ratings.quality("a", "b") == pytest.approx(0.737381, abs=1e-6)
    spread = 2 * BETA**2 + 9 + 16
    by_hand = 0.5 * (1 + math.erf(2 / math.sqrt(spread) / math.sqrt(2)))
    assert ratings.win_probability("a", "b") == pytest.approx(by_hand)
    assert ratings.win_probability("b", "a") == pytest.approx(1 - by_hand)


def test_players_of_known_strength_end_in_order() -> None:
    rng = np.random.default_rng(3)
    strength = {"a": 0.0, "b": 0.7, "c": 1.4, "d": 2.1, "e": 2.8}
    ratings = Ratings()
    for _ in range(1500):
        one, two = rng.choice(list(strength), 2, replace=False)
        chance = 1 / (1 + math.exp(strength[two] - strength[one]))
        drawn = rng.random() < 0.2
        result = 0.0 if drawn else 1.0 if rng.random() < chance else -1.0
        ratings.rate({one: result, two: -result})
    assert sorted(strength, key=lambda name: ratings[name].mu) == list("abcde")
    assert all(ratings[name].sigma < 2 for name in strength)


def test_ratings_come_back_from_json_to_the_bit() -> None:
    ratings, again = Ratings(), Ratings()
    for result in (1.0, 0.0, -1.0):
        ratings.rate({"a": result, "b": 0.0, "c": 0.5})
    again.load_state_dict(strict_json.loads(strict_json.dumps(ratings.state_dict())))
    ratings.rate({"a": 1.0, "c": 0.0})
    again.rate({"a": 1.0, "c": 0.0})
    assert again.state_dict() == ratings.state_dict()
