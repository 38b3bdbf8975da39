"""The league: who is rated by which games, who makes room, and that everything comes back from JSON."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ludus.config.language import LeagueConfig
from ludus.league.league import League, mean_rewards
from ludus.league.ratings import Rating, Ratings
from ludus.league.records import MatchRecord
from ludus.runs import strict_json


def match(players: tuple[str, ...], rewards: tuple[float, ...], *, cut_off: bool = False) -> MatchRecord:
    return MatchRecord(
        match=0,
        game="TicTacToe-v0",
        seed=0,
        players=players,
        rewards=rewards,
        reason="",
        invalid=(False,) * len(players),
        cut_off=cut_off,
        length=5,
        moves=[],
    )


def league(**settings: object) -> League:
    made = League(LeagueConfig(**settings))
    made.add("me", "learner", version=0)
    made.add("random", "bot")
    return made


def test_reward_of_a_seat_goes_to_its_player() -> None:
    both = league()
    both.record(match(("random", "me"), (-1.0, 1.0)))
    both.record(match(("me", "random"), (1.0, -1.0)))
    both.record(match(("me", "random"), (-1.0, 1.0)))
    both.record(match(("random", "me"), (0.0, 0.0)))
    pair = both.pair("me", "random")
    assert (pair.wins, pair.draws, pair.losses) == (2, 1, 1)
    pair = both.pair("random", "me")
    assert (pair.wins, pair.draws, pair.losses) == (1, 1, 2)
    by_hand = Ratings()
    for mine in (1.0, 1.0, -1.0, 0.0):
        by_hand.rate({"me": mine, "random": -mine})
    assert both.ratings["me"] == by_hand["me"] and both.ratings["random"] == by_hand["random"]


def test_a_game_against_itself_counts_and_rates_nobody() -> None:
    alone = league()
    alone.record(match(("me", "me"), (1.0, -1.0)))
    assert alone.ratings["me"] == Rating()
    assert alone.members["me"].games == 1
    assert alone.pair("me", "me").games == 0


def test_a_game_that_was_cut_off_is_counted_and_says_nothing_about_anybody() -> None:
    cut = league()
    cut.record(match(("me", "random"), (0.0, 0.0), cut_off=True))
    assert (cut.members["me"].games, cut.members["me"].cut_off) == (1, 1)
    assert cut.ratings["me"] == cut.ratings["random"] == Rating()
    assert cut.pair("me", "random").games == 0


def test_one_on_several_seats_counts_once_with_its_mean_reward() -> None:
    assert mean_rewards(("a", "b", "a"), (1.0, 0.25, -0.5)) == {"a": 0.25, "b": 0.25}
    assert mean_rewards(("b", "a", "b", "b"), (0.1, 0.1, 0.1, 0.1)) == {
        "b": 0.1,
        "a": 0.1,
    }  # a draw, to the bit
    three = league()
    three.record(match(("random", "me", "random"), (-1.0, 1.0, 0.0)))
    by_hand = Ratings()
    by_hand.rate({"me": 1.0, "random": -0.5})
    assert three.ratings["me"] == by_hand["me"] and three.ratings["random"] == by_hand["random"]
    assert three.pair("me", "random").wins == 1


def test_every_pair_at_a_larger_table_is_counted() -> None:
    table = league()
    table.add("minimax", "bot")
    table.record(match(("random", "minimax", "me"), (-1.0, 1.0, 0.0)))
    assert table.pair("me", "random").wins == 1
    assert table.pair("me", "minimax").losses == 1
    assert table.pair("minimax", "random").wins == 1
    assert table.ratings["minimax"].mu > table.ratings["me"].mu > table.ratings["random"].mu


def test_a_single_player_game_is_rated_against_the_reference() -> None:
    solo = league(reference=0.8)
    solo.record(match(("me",), (0.9,)))
    solo.record(match(("random",), (0.7,)))
    assert solo.ratings["me"].mu > 25 > solo.ratings["random"].mu
    assert set(solo.members) == {"me", "random"}


def test_version_inherits_its_learners_rating_with_doubled_deviation() -> None:
    growing = league()
    growing.ratings["me"] = Rating(33.0, 1.5)
    version, gone = growing.freeze("me", 10)
    assert (version.name, version.kind, version.version, version.parent) == ("me@10", "version", 10, "me")
    assert growing.ratings["me@10"] == Rating(33.0, 3.0)
    assert growing.ratings["me"] == Rating(33.0, 1.5)
    assert gone == []


def test_the_weakest_version_makes_room_never_the_newest_or_an_anchor() -> None:
    full = league(versions=3)
    full.freeze("me", 0, anchor=True)
    for version in (10, 20):
        full.freeze("me", version)
    for version, mu in ((0, 5.0), (10, 30.0), (20, 20.0)):
        full.ratings[f"me@{version}"] = Rating(mu, 1.0)
    full.record(match(("me", "me@20"), (1.0, -1.0)))
    full.ratings["me"] = Rating(10.0, 1.0)  # the newest will be the weakest but one
    _, gone = full.freeze("me", 30)
    assert [one.name for one in gone] == ["me@20"]
    assert [one.name for one in full.versions("me")] == ["me@30", "me@10", "me@0"]
    assert full.pair("me", "me@20").games == 0  # nothing of it is left
    assert "me@20" not in full.state_dict()["ratings"]


def test_room_is_made_among_ones_own_versions_only() -> None:
    two = league(versions=1)
    two.add("you", "learner", version=0)
    two.freeze("you", 5)
    two.freeze("me", 5)
    _, gone = two.freeze("me", 10)
    assert [one.name for one in gone] == ["me@5"]
    assert [one.name for one in two.versions("you")] == ["you@5"]


def test_candidates_are_versions_other_learners_and_the_list_and_not_the_evaluations_bots() -> None:
    mixed = league(opponents="random", train=[{"minimax": 2.0}], mirror_share=0)
    mixed.add("minimax", "bot")
    mixed.add("you", "learner", version=0)
    mixed.freeze("me", 1)
    assert mixed.probabilities("me", "TicTacToe-v0") == {"minimax": 0.5, "you": 0.25, "me@1": 0.25}


def test_who_cannot_play_a_game_is_not_met_there() -> None:
    mixed = league(opponents="fixed", train=["random", "minimax"], mirror_share=0)
    mixed.add("minimax", "bot", plays=["TicTacToe-v0"])
    assert mixed.probabilities("me", "TicTacToe-v0") == {"random": 0.5, "minimax": 0.5}
    assert mixed.probabilities("me", "Chess-v0") == {"random": 1.0}


def test_the_win_rate_that_sets_priorities_is_smoothed_and_forgets() -> None:
    played = league(opponents="prioritised", train=["random"], mirror_share=0)
    assert played.pair("me", "random").win_rate == 0.5
    played.record(match(("me", "random"), (1.0, -1.0)))
    assert played.pair("me", "random").win_rate == pytest.approx(2 / 3)
    played.record(match(("random", "me"), (0.0, 0.0)))
    # points 0.99 * 1 + 0.5, games 0.99 * 1 + 1
    assert played.pair("me", "random").win_rate == pytest.approx((1.49 + 1) / (1.99 + 2))
    assert played.pair("random", "me").win_rate == pytest.approx(1 - (1.49 + 1) / (1.99 + 2))
    for _ in range(1000):
        played.record(match(("me", "random"), (-1.0, 1.0)))
    for _ in range(300):
        played.record(match(("me", "random"), (1.0, -1.0)))
    assert played.pair("me", "random").win_rate > 0.9  # what it is now, not the 300 of 1300


def test_prioritised_uses_the_results_seen() -> None:
    played = league(opponents="prioritised", train=["random", "minimax"], mirror_share=0)
    played.add("minimax", "bot")
    played.record(match(("me", "random"), (1.0, -1.0)))  # win rate 2/3, weight 1/9
    played.record(match(("minimax", "me"), (1.0, -1.0)))  # win rate 1/3, weight 4/9
    assert played.probabilities("me", "TicTacToe-v0") == pytest.approx({"random": 0.2, "minimax": 0.8})


def test_choices_are_counted_and_repeat_from_the_same_generator() -> None:
    one, two = (league(opponents="fixed", train=["random"], mirror_share=0.25) for _ in range(2))
    rngs = np.random.default_rng(5), np.random.default_rng(5)
    drawn = [
        [made.choose_opponent("me", "TicTacToe-v0", rng) for _ in range(200)]
        for made, rng in zip((one, two), rngs, strict=True)
    ]
    assert drawn[0] == drawn[1]
    rows = {row.name: row.frequency for row in one.table()}
    assert rows["me"] == drawn[0].count("me") / 200 and rows["random"] == drawn[0].count("random") / 200
    assert 0.1 < rows["me"] < 0.4


def test_the_table_is_sorted_and_adds_up() -> None:
    made = league(train=["random"])
    made.add("minimax", "bot")
    made.record(match(("minimax", "random"), (1.0, -1.0)))
    made.record(match(("me", "minimax"), (-1.0, 1.0)))
    made.record(match(("me", "random"), (0.0, 0.0)))
    rows = made.table()
    assert [row.name for row in rows] == ["minimax", "me", "random"]
    assert {row.name: (row.games, row.wins, row.draws, row.losses) for row in rows} == {
        "minimax": (2, 2, 0, 0),
        "me": (2, 0, 1, 1),
        "random": (2, 0, 1, 1),
    }
    assert made.metrics()["league/rating/me"] == made.ratings["me"].mu
    assert made.metrics()["league/win_rate/me/minimax"] == pytest.approx(1 / 3)


def test_a_version_without_a_game_is_last_and_one_that_was_drawn_has_its_rating_in_the_metrics() -> None:
    made = League(LeagueConfig(opponents="lagged", mirror_share=0.0))
    made.add("me", "learner", version=0)
    made.add("random", "bot")
    made.record(match(("random", "me"), (1, -1)))
    made.freeze("me", 1)
    made.members["me"].version = 2
    assert made.choose_opponent("me", "TicTacToe-v0", np.random.default_rng(0)) == "me@1"
    made.freeze("me", 2)
    made.record(match(("me", "random"), (-1, 1)))
    assert made.ratings["me@2"].mu > made.ratings["me"].mu  # inherited before the learner lost once more
    assert [row.name for row in made.table()] == ["random", "me", "me@1", "me@2"]
    metrics = made.metrics()
    assert metrics["league/rating/me@1"] == made.ratings["me@1"].mu and "league/sigma/me@1" in metrics
    assert "league/rating/me@2" not in metrics  # it was not met yet


def test_league_restored_from_json_continues_to_the_same_end() -> None:
    settings = {"opponents": "prioritised", "train": ["random", {"minimax": 2.0}], "versions": 2}
    first = league(**settings)
    first.add("minimax", "bot", plays=["TicTacToe-v0"])
    rng = np.random.default_rng(11)

    def go_on(made: League, rng: np.random.Generator, start: int) -> None:
        for step in range(start, start + 40):
            other = made.choose_opponent("me", "TicTacToe-v0", rng)
            result = float(rng.integers(-1, 2))
            made.record(match(("me", other), (result, -result)))
            if step % 10 == 0:
                made.freeze("me", step)

    go_on(first, rng, 1)
    state = strict_json.loads(strict_json.dumps(first.state_dict()))
    again = League(LeagueConfig(**settings))
    again.load_state_dict(state)
    rng_again = np.random.default_rng(0)
    rng_again.bit_generator.state = rng.bit_generator.state
    go_on(first, rng, 41)
    go_on(again, rng_again, 41)
    assert again.state_dict() == first.state_dict()
    assert [dataclasses.astuple(row) for row in again.table()] == [
        dataclasses.astuple(row) for row in first.table()
    ]


def test_a_resumed_league_takes_weights_and_list_from_the_config_of_today() -> None:
    before = league(train=["random"])
    after = League(LeagueConfig(opponents="fixed", train=[{"minimax": 4.0}], mirror_share=0))
    after.load_state_dict(before.state_dict())
    after.add("minimax", "bot")
    assert after.probabilities("me", "TicTacToe-v0") == {"minimax": 1.0}


def test_new_opponents_in_the_config_join_a_resumed_league() -> None:
    before = league()
    before.record(match(("me", "random"), (1.0, -1.0)))
    after = league(train=["greedy"])
    after.add("greedy", "bot")
    after.freeze("me", 7)
    after.load_state_dict(before.state_dict())
    assert list(after.members) == ["me", "random", "greedy"]
    after.record(match(("me", "greedy"), (1.0, -1.0)))
    assert after.pair("me", "greedy").wins == 1


def test_a_version_frozen_during_a_collapse_is_no_opponent() -> None:
    league = League(LeagueConfig(opponents="random", mirror_share=0.0))
    league.add("learner", "learner", version=0)
    for version in (1, 2):
        league.freeze("learner", version)
    league.members["learner@2"].spoilt = True
    assert league.probabilities("learner", "TicTacToe-v0") == {"learner@1": 1.0}
