"""The guard against collapse, limit by limit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from language_setup import match, turn

from ludus.config.language import GuardConfig
from ludus.language.algorithms.guard import CollapseGuard, Verdict, distinct_share, diversity_metrics

OFF: dict[str, Any] = {
    "entropy": None,
    "invalid_rate": None,
    "diversity": None,
    "kl": None,
    "anchor_drop": None,
}


def guard(patience: int = 1, **limits: Any) -> CollapseGuard:
    return CollapseGuard(GuardConfig(**(OFF | limits), patience=patience))


@pytest.mark.parametrize(
    ("limit", "metric", "healthy", "collapsed"),
    [
        ({"entropy": 0.1}, "games/entropy", 0.1, 0.09),
        ({"invalid_rate": 0.5}, "games/ended_invalid", 0.5, 0.51),
        ({"diversity": 0.2}, "games/action_diversity", 0.2, 0.19),
        ({"diversity": 0.2}, "games/state_diversity", 0.2, 0.19),
        ({"kl": 3.0}, "train/kl_start", 3.0, 3.1),
    ],
)
def test_every_limit_holds_up_to_itself(
    limit: dict[str, float], metric: str, healthy: float, collapsed: float
) -> None:
    watching = guard(**limit)
    assert watching.watch({metric: healthy}) == Verdict("healthy")
    verdict = watching.watch({metric: collapsed})
    assert verdict.state == "collapsed" and metric in verdict.reason
    assert guard().watch({metric: collapsed}).state == "healthy"


def test_a_limit_must_be_passed_several_times_in_a_row() -> None:
    watching = guard(patience=3, entropy=0.1)
    states = [watching.watch({"games/entropy": e}).state for e in (0.2, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0)]
    assert states == [
        "healthy",
        "suspicious",
        "suspicious",
        "healthy",
        "suspicious",
        "suspicious",
        "collapsed",
    ]


def test_what_was_never_well_has_not_collapsed() -> None:
    watching = guard(patience=1, invalid_rate=0.5)
    states = [watching.watch({"games/ended_invalid": rate}).state for rate in (0.9, 0.8, 0.4, 0.6)]
    assert states == ["healthy", "healthy", "healthy", "collapsed"]


def test_what_was_not_measured_changes_nothing() -> None:
    watching = guard(patience=2, kl=1.0)
    watching.watch({"train/kl_start": 0.0})
    assert watching.watch({"train/kl_start": 2.0}).state == "suspicious"
    assert watching.watch({}).state == "suspicious"
    assert watching.watch({"train/kl_start": math.nan}).state == "suspicious"
    assert watching.watch({"train/kl_start": 2.0}).state == "collapsed"


def test_a_score_may_fall_so_far_below_its_best() -> None:
    watching = guard(anchor_drop=0.3)
    scores = (0.5, 0.9, 0.61, 0.59)
    states = [watching.watch({"eval/score/TicTacToe-v0/random": score}).state for score in scores]
    assert states == ["healthy", "healthy", "healthy", "collapsed"]
    # the other opponent has a best of its own
    assert (
        guard(anchor_drop=0.3).watch({"eval/score/A/random": 0.9, "eval/score/A/minimax": 0.1}).state
        == "healthy"
    )


def test_signs_are_counted_apart() -> None:
    watching = guard(patience=2, entropy=0.1, kl=1.0)
    watching.watch({"games/entropy": 1.0})
    assert watching.watch({"games/entropy": 0.0, "train/kl_start": 0.5}).state == "suspicious"
    assert watching.watch({"games/entropy": 0.5, "train/kl_start": 5.0}).state == "suspicious"
    verdict = watching.watch({"games/entropy": 0.0, "train/kl_start": 5.0})
    assert verdict.state == "collapsed"
    assert verdict.reason == "games/entropy 0 is below 0.1; train/kl_start 5 is above 1"


def test_collapse_guard_reports_the_first_bad_update() -> None:
    watching = guard(patience=2, anchor_drop=0.2)
    measured = {0: 0.9, 3: 0.9, 6: 0.5, 9: 0.5}  # evaluations are rarer than updates
    verdicts = []
    for update in range(10):
        verdicts.append(watching.watch({"eval/score": measured[update]} if update in measured else {}))
    assert verdicts[-1].state == "collapsed"
    assert watching.bad_for == 9 - 3
    again = guard(patience=2, anchor_drop=0.2)
    again.load_state_dict(watching.state_dict())
    assert again.bad_for == 6
    watching.rolled_back()
    assert watching.bad_for == 0


def test_going_back_clears_the_signs_and_is_counted() -> None:
    watching = CollapseGuard(GuardConfig(**(OFF | {"entropy": 0.1}), patience=1, rollbacks=1))
    watching.watch({"games/entropy": 1.0})
    assert watching.watch({"games/entropy": 0.0}).state == "collapsed"
    assert watching.rolled_back()
    assert watching.watch({}).state == "healthy"
    assert not watching.rolled_back()


def test_collapse_guard_is_restored_from_a_checkpoint() -> None:
    one = guard(patience=2, anchor_drop=0.2)
    one.watch({"eval/score": 0.9})
    one.watch({"eval/score": 0.5})
    one.rolled_back()
    one.watch({"eval/score": 0.5})
    other = guard(patience=2, anchor_drop=0.2)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other.rollbacks == 1
    assert one.watch({"eval/score": 0.6}) == other.watch({"eval/score": 0.6})
    assert other.watch({"eval/score": 0.8}).state == "healthy"


def test_distinct_n_grams() -> None:
    # ab bc, ab bb: three of four are distinct
    assert distinct_share(["abc", "abb"], 2) == 3 / 4
    assert distinct_share(["abc", "abb"], 1) == 3 / 6
    assert distinct_share(["a", "a", "b"], 2) == 2 / 3
    assert math.isnan(distinct_share([], 2)) and math.isnan(distinct_share([""], 2))


def test_repeated_games_have_little_diversity() -> None:
    def game(number: int, actions: list[str]) -> Any:
        turns = [
            turn(match=number, seat=i % 2, index=i, action=action, observation=f"board {actions[:i]}")
            for i, action in enumerate(actions)
        ]
        return match(turns, (0.0, 0.0))

    same = [game(i, ["[0]", "[1]", "[2]"]) for i in range(4)]
    found = diversity_metrics(same)
    # 2 of 8 pairs of actions; of each match a pair of states of seat 0 and one state of seat 1
    assert found == {
        "games/action_diversity": 0.25,
        "games/state_diversity": 0.25,
        "games/ended_invalid": 0.0,
    }
    other = diversity_metrics([game(0, ["[0]", "[1]", "[2]"]), game(1, ["[4]", "[1]", "[3]"])])
    assert other["games/action_diversity"] == 1.0 and other["games/state_diversity"] == 1.0
    assert diversity_metrics([]) == {}


def test_games_that_a_model_ended_by_an_invalid_move_are_counted() -> None:
    own = match([turn(seat=0)], (-1.0, 0.0), invalid=(True, False))
    bots = match([turn(seat=0, match=1)], (0.0, -1.0), invalid=(False, True))
    assert diversity_metrics([own, bots])["games/ended_invalid"] == 0.5
