"""Credit for turns against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from language_setup import made_up, turn

from ludus.algorithms.advantages import gae
from ludus.language.algorithms.credit import (
    discounted_returns,
    episode_rewards,
    episodes,
    group_advantages,
    turn_gae,
)


def played(index: int, reward: float, final: float, seat: int = 0, match: int = 0, **given: object) -> object:
    return turn(index=index, seat=seat, match=match, reward=reward, reward_parts={"final": final}, **given)


def test_the_turns_of_one_seat_of_one_match_are_an_episode_in_their_order() -> None:
    turns = [played(3, 0, 0, 1), played(0, 0, 0, 0), played(1, 0, 0, 1), played(0, 0, 0, 0, match=1)]
    assert episodes(turns) == [[2, 0], [1], [3]]


def test_the_result_comes_with_the_last_turn_only() -> None:
    turns = [played(0, 1.1, 1.0), played(2, 1.0, 1.0), played(4, 0.5, 1.0)]
    assert episode_rewards(turns) == pytest.approx([0.1, 0.0, 0.5])


def test_returns_are_discounted_by_the_seats_own_turns() -> None:
    turns = [played(0, 1.1, 1.0), played(1, -1.0, -1.0, 1), played(2, 1.0, 1.0), played(4, 1.2, 1.0)]
    # seat 0: step rewards 0.1, 0, then 1.2 with the result
    assert discounted_returns(turns, 0.5) == pytest.approx([0.1 + 0.25 * 1.2, -1.0, 0.6, 1.2])
    assert discounted_returns(turns, 1.0) == pytest.approx([1.3, -1.0, 1.2, 1.2])


def test_gae_over_three_turns() -> None:
    turns = [played(0, 0.0, 0.0), played(2, 0.1, 0.0), played(4, 1.0, 1.0)]
    values, gamma, decay = [0.2, 0.4, 0.6], 0.9, 0.9 * 0.5
    last = 1.0 - 0.6
    middle = (0.1 + 0.9 * 0.6 - 0.4) + decay * last
    first = (0.0 + 0.9 * 0.4 - 0.2) + decay * middle
    advantages, targets = turn_gae(turns, values, gamma, 0.5)
    assert advantages == pytest.approx([first, middle, last])
    assert targets == pytest.approx([first + 0.2, middle + 0.4, 1.0])


def test_gae_is_that_of_the_other_algorithms_for_each_seat() -> None:
    turns = made_up(seed=5).turns
    rng = np.random.default_rng(1)
    for one in turns:
        one.reward_parts = {"final": float(rng.normal())}
        one.reward = one.reward_parts["final"] + float(rng.normal())
    values = rng.normal(size=len(turns)).tolist()
    advantages, targets = turn_gae(turns, values, 0.97, 0.8)
    for episode in episodes(turns):
        own = np.array([values[i] for i in episode])[:, None]
        rewards = np.array(episode_rewards([turns[i] for i in episode]))[:, None]
        over = np.zeros_like(own, dtype=bool)
        over[-1] = True
        following = np.concatenate([own[1:], [[np.nan]]])
        expected, wanted = gae(rewards, own, following, over, over, 0.97, 0.8)
        assert [advantages[i] for i in episode] == pytest.approx(expected[:, 0].tolist(), abs=1e-6)
        assert [targets[i] for i in episode] == pytest.approx(wanted[:, 0].tolist(), abs=1e-6)


def test_a_group_is_compared_with_its_own_mean() -> None:
    turns = [turn(match=i, group=i // 2) for i in range(4)]
    found, groups, alike = group_advantages(turns, [1.0, 0.0, 5.0, 5.0])
    assert found == [0.5, -0.5, 0.0, 0.0] and (groups, alike) == (2, 1)
    found, _, _ = group_advantages(turns, [1.0, 0.0, 5.0, 2.0], divide_by_std=True)
    assert found == pytest.approx([1.0, -1.0, 1.0, -1.0])


def test_the_seats_of_a_group_are_compared_apart() -> None:
    turns = [turn(match=i, group=0, seat=seat) for i in (0, 1) for seat in (0, 1)]
    found, groups, alike = group_advantages(turns, [3.0, 0.0, 1.0, 0.0])
    assert found == [1.0, 0.0, -1.0, 0.0] and (groups, alike) == (2, 1)


def test_every_match_counts_once_in_its_groups_mean() -> None:
    turns = [turn(match=0, group=0), turn(match=1, group=0, index=0), turn(match=1, group=0, index=2)]
    found, _, _ = group_advantages(turns, [1.0, 0.0, 0.0])
    assert found == pytest.approx([0.5, -0.5, -0.5])


def test_without_groups_turns_are_compared_by_game_and_seat() -> None:
    turns = [turn(match=0), turn(match=1), turn(match=0, seat=1), turn(match=1, game="Nim-v0")]
    found, groups, alike = group_advantages(turns, [1.0, -1.0, 9.0, 3.0])
    assert found == [1.0, -1.0, 0.0, 0.0] and (groups, alike) == (3, 2)


def test_groups_of_one_and_equal_rewards_are_exactly_zero() -> None:
    turns = [turn(match=i, group=0) for i in range(3)] + [turn(match=9, group=1)]
    for divide in (False, True):
        found, _, alike = group_advantages(turns, [0.1, 0.1, 0.1, 0.7], divide_by_std=divide)
        assert found == [0.0] * 4 and alike == 2
    assert group_advantages([], []) == ([], 0, 0)
