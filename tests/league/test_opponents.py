"""Whom the learner meets: the chances of every way to choose, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.config.language import LeagueConfig
from ludus.league.opponents import Candidate, draw, probabilities

CANDIDATES = [
    Candidate("me@30", age=1, quality=0.6, win_rate=0.5),
    Candidate("me@20", age=2, quality=0.3, win_rate=0.75),
    Candidate("me@10", age=3, quality=0.1, win_rate=0.9),
    Candidate("random", weight=1.0, listed=True, quality=0.2, win_rate=1.0),
    Candidate("minimax", weight=3.0, listed=True, quality=0.2, win_rate=0.0),
]


def chances(opponents: str, **settings: object) -> dict[str, float]:
    config = LeagueConfig(**{"opponents": opponents, "train": ["random", {"minimax": 3.0}], **settings})
    found = probabilities("me", CANDIDATES, config)
    assert sum(found.values()) == pytest.approx(1)
    return found


def test_mirror_is_always_itself() -> None:
    assert chances("mirror") == {"me": 1.0}


def test_fixed_draws_from_the_list_by_weight() -> None:
    assert chances("fixed", mirror_share=0) == {"random": 0.25, "minimax": 0.75}
    assert chances("fixed", mirror_share=0.2) == pytest.approx({"me": 0.2, "random": 0.2, "minimax": 0.6})


def test_lagged_draws_from_its_versions_of_that_age_alike() -> None:
    assert chances("lagged", lag=(2, 3), mirror_share=0) == {"me@20": 0.5, "me@10": 0.5}
    assert chances("lagged", lag=(1, 1), mirror_share=0.5) == {"me": 0.5, "me@30": 0.5}


def test_lagged_plays_itself_while_no_version_is_old_enough() -> None:
    assert chances("lagged", lag=(7, 9), mirror_share=0) == {"me": 1.0}


def test_random_draws_from_everybody_by_weight() -> None:
    found = chances("random", mirror_share=0)
    assert found == pytest.approx(
        {"me@30": 1 / 7, "me@20": 1 / 7, "me@10": 1 / 7, "random": 1 / 7, "minimax": 3 / 7}
    )


def test_quality_prefers_even_games() -> None:
    # 0.6 + 0.3 + 0.1 + 0.2 + 3 * 0.2 = 1.8
    found = chances("quality", mirror_share=0.5)
    by_hand = {"me": 0.5, "me@30": 0.6 / 3.6, "me@20": 0.3 / 3.6, "me@10": 0.1 / 3.6}
    assert found == pytest.approx(by_hand | {"random": 0.2 / 3.6, "minimax": 0.6 / 3.6})


def test_prioritised_prefers_whom_it_loses_to() -> None:
    # (1 - win rate)^2: 0.25, 0.0625, 0.01, 0 and 3 * 1, in all 3.3225; who is always beaten is never met
    found = chances("prioritised", mirror_share=0)
    by_hand = {"me@30": 0.25, "me@20": 0.0625, "me@10": 0.01, "minimax": 3.0}
    assert found == pytest.approx({name: weight / 3.3225 for name, weight in by_hand.items()})
    linear = chances("prioritised", mirror_share=0, hardness=1.0)  # 0.5, 0.25, 0.1, 3: 3.85
    assert linear["minimax"] == pytest.approx(3 / 3.85)


@pytest.mark.parametrize("opponents", ["fixed", "lagged", "random", "quality", "prioritised"])
def test_alone_in_the_league_it_plays_itself(opponents: str) -> None:
    config = LeagueConfig(opponents=opponents, train=["random"], mirror_share=0)
    assert probabilities("me", [], config) == {"me": 1.0}


def test_drawing_follows_the_chances_and_the_generator() -> None:
    chances = {"a": 0.5, "b": 0.3, "c": 0.2}
    drawn = [draw(chances, np.random.default_rng(1)) for _ in range(3)]
    assert len(set(drawn)) == 1
    rng = np.random.default_rng(7)
    counts = {name: 0 for name in chances}
    for _ in range(4000):
        counts[draw(chances, rng)] += 1
    for name, chance in chances.items():  # within four standard errors
        assert abs(counts[name] / 4000 - chance) < 4 * (chance * (1 - chance) / 4000) ** 0.5


def test_a_foregone_choice_draws_no_random_number() -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    assert draw({"me": 1.0}, rng) == "me"
    assert rng.bit_generator.state == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"opponents": "fixed"}, "needs opponents in train"),
        ({"train": ["random", {"random": 2}]}, "an opponent is listed twice"),
        ({"train": [{"random": 0}]}, "greater than or equal to 0.000001"),
        ({"train": [{}]}, "number above 0"),
        ({"lag": (3, 2)}, "the smaller number comes first"),
        ({"lag": (0, 2)}, "greater than or equal to 1"),
    ],
)
def test_a_league_nobody_could_play_in_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LeagueConfig(**settings)
