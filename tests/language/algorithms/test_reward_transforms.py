"""Reward transforms against cases worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from language_setup import match, turn

from ludus.config.language import RewardsConfig
from ludus.errors import ConfigError, UnknownName
from ludus.language.algorithms.rewards import Transforms, reward_metrics
from ludus.language.turns import Turn


def transforms(**given: Any) -> Transforms:
    return Transforms(RewardsConfig(**({"sampling": []} | given)))


def finals(rewards: tuple[float, ...], final: list[Any], **given: Any) -> list[float]:
    turns = [turn(seat=seat, index=seat) for seat in range(len(rewards))]
    transforms(final=final).finish([match(turns, rewards, **given)])
    return [one.reward for one in turns]


def batch(rewards: list[float], sampling: list[Any], **given: list[Any]) -> list[Turn]:
    turns = [
        turn(match=i, reward=reward, **{name: values[i] for name, values in given.items()})
        for i, reward in enumerate(rewards)
    ]
    transforms(sampling=sampling).batch(turns)
    return turns


def test_without_transforms_every_turn_has_its_seats_result() -> None:
    turns = [turn(seat=0), turn(seat=1, index=1), turn(seat=0, index=2)]
    transforms().finish([match(turns, (1.0, -1.0))])
    assert [one.reward for one in turns] == [1.0, -1.0, 1.0]
    assert turns[0].reward_parts == {"game": 1.0, "final": 1.0}


def test_role_advantage_is_less_what_the_seat_had_before() -> None:
    made = transforms(final=[{"role_advantage": 0.5}])
    found = []
    for result in (1.0, 0.0, -1.0):
        turns = [turn(seat=0), turn(seat=1, index=1)]
        made.finish([match(turns, (result, -result))])
        found.append([one.reward for one in turns])
    # means before each game: nothing, 1, (0.5 * 1 + 0) / 1.5
    assert found == [[1.0, -1.0], [-1.0, 1.0], pytest.approx([-1 - 1 / 3, 1 + 1 / 3])]
    assert turns[0].reward_parts["game"] == -1.0


def test_matches_that_end_together_are_compared_with_the_same_mean() -> None:
    made = transforms(final=[{"role_advantage": 0.5}])
    made.finish([match([turn()], (1.0,))])
    turns = [turn(match=i) for i in range(3)]
    made.finish([match([one], (0.0,)) for one in turns])
    assert [one.reward for one in turns] == [-1.0, -1.0, -1.0]
    # 1, then three times 0, each halving what was before: 0.125 / 1.875
    (later,) = [turn()]
    made.finish([match([later], (0.0,))])
    assert later.reward == pytest.approx(-0.125 / 1.875)


def test_fixed_opponents_do_not_change_role_advantage() -> None:
    made = transforms(final=["role_advantage"], step=["format"])
    for _ in range(2):
        turns = [turn(), turn(seat=1, index=1, player="learner@0")]
        made.finish([match(turns, (1.0, -1.0))], {"learner"})
    assert turns[0].reward_parts == {"game": 1.0, "role_advantage": 0.0, "final": 0.0, "format": 0.1}
    assert turns[1].reward_parts == {"game": -1.0} and turns[1].reward == -1.0
    assert list(made.state_dict()["role_advantage"]) == ["TicTacToe-v0/0"]


def test_role_advantage_is_kept_by_game_and_seat_and_survives_a_checkpoint() -> None:
    made = transforms(final=["role_advantage"], sampling=["certainty"])
    made.finish([match([turn(), turn(seat=1)], (1.0, 0.0))])
    made.finish([match([turn(game="Nim-v0")], (5.0,))])
    first = turn(reward=2.0)
    made.batch([first])
    state = json.loads(json.dumps(made.state_dict()))
    other = transforms(final=["role_advantage"], sampling=["certainty"])
    other.load_state_dict(state)
    for one in (made, other):
        turns = [turn(), turn(seat=1), turn(game="Nim-v0")]
        one.finish([match(turns[:2], (1.0, 1.0))])
        one.finish([match(turns[2:], (1.0,), game="Nim-v0")])
        assert [one_turn.reward for one_turn in turns] == [0.0, 1.0, -4.0]
    assert made.state_dict() == other.state_dict()
    other.load_state_dict({})
    assert other.state_dict() == {}


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ((1.0, -1.0), [2.0, -3.0]),
        ((0.0, 0.0), [0.5, 0.5]),
        ((-5.0, -3.0), [-3.0, 2.0]),
        ((3.0, 3.0, 0.0), [2.0, 2.0, -3.0]),
        ((0.4,), [2.0]),
        ((-0.4,), [-3.0]),
        ((0.0,), [0.5]),
    ],
)
def test_outcomes_are_mapped_by_who_won(rewards: tuple[float, ...], expected: list[float]) -> None:
    assert finals(rewards, [{"outcome": {"win": 2, "draw": 0.5, "loss": -3}}]) == expected


def test_nobody_wins_by_anothers_invalid_move() -> None:
    assert finals((-1.0, 0.0), ["outcome"], invalid=(True, False)) == [-1.0, 0.0]
    assert finals((0.0, 0.0), ["outcome"], invalid=(False, False), cut_off=True) == [0.0, 0.0]


def test_final_transforms_follow_one_another() -> None:
    turns = [turn(), turn(seat=1)]
    transforms(final=["outcome", "role_advantage"]).finish([match(turns, (7.0, 3.0))])
    assert turns[0].reward_parts == {"game": 7.0, "outcome": 1.0, "role_advantage": 1.0, "final": 1.0}


def test_step_transforms_add_to_the_turn_they_concern() -> None:
    turns = [
        turn(completion=(1,) * 6),
        turn(index=1, well_formed=False, invalid=True, completion=(1, 2)),
    ]
    made = transforms(
        step=[
            {"format": {"right": 0.1, "wrong": -0.2}},
            "invalid",
            {"length": {"per_token": -0.01, "free": 4}},
        ]
    )
    made.finish([match(turns, (1.0, -1.0))])
    assert turns[0].reward_parts == pytest.approx(
        {"game": 1, "final": 1, "format": 1.1, "invalid": 1.1, "length": 1.08}
    )
    assert turns[0].reward == pytest.approx(1.08)
    assert turns[1].reward == pytest.approx(1 - 0.2 - 1.0)
    assert turns[1].reward_parts["final"] == 1.0


def test_a_number_stands_for_the_first_setting() -> None:
    turns = [turn(invalid=True)]
    transforms(step=[{"invalid": -0.25}, {"format": 0.5}]).finish([match(turns, (0.0,))])
    assert turns[0].reward == pytest.approx(0.25)


def test_centring_is_by_game() -> None:
    turns = batch([1.0, 3.0, 10.0], ["center_by_env"], game=["A", "A", "B"])
    assert [one.advantage for one in turns] == [-1.0, 1.0, 0.0]
    assert turns[0].reward_parts == {"center_by_env": -1.0}


def test_centring_starts_from_the_advantage_where_there_is_one() -> None:
    turns = [turn(advantage=2.0, reward=9.0), turn(match=1, advantage=4.0, reward=0.0)]
    transforms(sampling=["center_by_env"]).batch(turns)
    assert [one.advantage for one in turns] == [-1.0, 1.0]


def test_zscores_have_a_deviation_of_one_or_are_zero() -> None:
    turns = batch([1.0, 3.0, 5.0, 0.1, 0.1, 0.1], ["zscore_by_env"], game=["A"] * 3 + ["B"] * 3)
    assert [one.advantage for one in turns] == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5, 0, 0, 0])
    assert [one.advantage for one in turns[3:]] == [0.0, 0.0, 0.0]


def test_weights_follow_the_spread_of_rewards() -> None:
    turns = batch([1.0, -1.0, 2.0, 2.0, 3.0, -3.0], ["weight_by_spread"], group=[0, 0, 1, 1, None, None])
    # spreads 1, 0 and, for those without a group, 3 by game: mean 4/3
    assert [one.weight for one in turns] == pytest.approx([0.75, 0.75, 0, 0, 2.25, 2.25])
    assert [one.advantage for one in turns] == [one.reward for one in turns]
    turns = batch([1.0, -1.0, 2.0, 2.0], [{"weight_by_spread": {"least": 1.0}}], group=[0, 0, 1, 1])
    assert [one.weight for one in turns] == pytest.approx([4 / 3, 4 / 3, 2 / 3, 2 / 3])
    assert [one.weight for one in batch([2.0, 2.0], ["weight_by_spread"])] == [1.0, 1.0]


def test_certainty_by_running_variance() -> None:
    turns = batch([1.0, -1.0, 2.0, 2.0], ["certainty"], seat=[0, 0, 1, 1])
    # seat 0: mean and mean square weighted 0.99 to 1, seat 1 has no variance
    mean = (0.99 - 1.0) / 1.99
    certain = 1 / (1 + 1.0 - mean**2)
    expected = [certain, certain, 1.0, 1.0]
    assert [one.weight for one in turns] == pytest.approx([x / (sum(expected) / 4) for x in expected])


def test_certainty_by_repeats() -> None:
    turns = batch(
        [1.0, -1.0, 0.5, 0.5, 0.0, 7.0],
        [{"certainty": "repeats"}],
        action=["[1]", "[1]", "[2]", "[2]", "[3]", "[3]"],
        game=["A"] * 5 + ["B"],
    )
    # variances among repeats 2 and 0; the turn of A that was not repeated takes their mean 1, B knows of none
    certain = [1 / 3, 1 / 3, 1.0, 1.0, 1 / 2, 1.0]
    assert [one.weight for one in turns] == pytest.approx([x / (sum(certain) / 6) for x in certain])


def test_weights_multiply_and_are_reset_for_each_batch() -> None:
    made = transforms(sampling=["weight_by_spread", "certainty"])
    turns = [turn(match=i, group=i // 2, reward=reward) for i, reward in enumerate([1.0, -1.0, 0.0, 0.0])]
    made.batch(turns)
    once = [one.weight for one in turns]
    assert once[2:] == [0.0, 0.0] and once[0] > 0
    made = transforms(sampling=["weight_by_spread", "certainty"])
    made.batch(turns)
    assert [one.weight for one in turns] == once
    made.batch([])


def test_each_part_is_reported_by_game_and_seat_and_every_match_counts_once() -> None:
    made = transforms(step=[{"invalid": -1}])
    first = [turn(), turn(index=2, invalid=True), turn(seat=1, index=1)]
    second = [turn(match=1)]
    made.finish([match(first, (1.0, -1.0))])
    made.finish([match(second, (0.0, 0.0))])
    assert reward_metrics([*first, *second]) == pytest.approx(
        {
            "reward/TicTacToe-v0/0/game": 0.5,
            "reward/TicTacToe-v0/0/final": 0.5,
            "reward/TicTacToe-v0/0/invalid": (0.5 + 0.0) / 2,
            "reward/TicTacToe-v0/1/game": -1.0,
            "reward/TicTacToe-v0/1/final": -1.0,
            "reward/TicTacToe-v0/1/invalid": -1.0,
        }
    )


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="final transform 'role_advantge'") as caught:
        transforms(final=["role_advantge"])
    assert caught.value.fix == "did you mean 'role_advantage'?"
    with pytest.raises(UnknownName) as caught:
        transforms(step=["qqqqqq"])
    assert "format, invalid, length" in caught.value.fix


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"final": ["invalid"]}, "list it in rewards.step"),
        ({"final": [{"role_advantage": 2}]}, "rewards.final.role_advantage.decay"),
        ({"final": [{"outcome": {"won": 1}}]}, "did you mean 'win'"),
        ({"sampling": ["center_by_env", "center_by_env"]}, "listed twice"),
        ({"sampling": [{"center_by_env": 3}]}, "has no settings"),
        ({"sampling": [{"certainty": "luck"}]}, "rewards.sampling.certainty.by"),
        ({"step": [{"format": 1, "invalid": 2}]}, "an entry of its own"),
        ({"step": [{"length": {"free": -1}}]}, "rewards.step.length.free"),
    ],
)
def test_settings_that_cannot_be_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transforms(**given)
    assert message in str(caught.value)
