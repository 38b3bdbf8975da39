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


def test_each_turn_has_the_envs_reward_for_it() -> None:
    earned = [0.5, -1.0, 2.0]
    turns = [
        played(i, 1.5 + step, 1.5, env_reward=own)
        for i, (own, step) in enumerate(zip(earned, (0.1, 0.0, 0.2), strict=True))
    ]
    assert episode_rewards(turns) == pytest.approx([0.6, -1.0, 2.2])
    assert discounted_returns(turns, 0.5) == pytest.approx([0.6 - 0.5 + 0.55, -1.0 + 1.1, 2.2])
    values = [0.3, 0.2, 0.1]
    advantages, _ = turn_gae(turns, values, 0.9, 0.5)
    last = 2.2 - 0.1
    middle = -1.0 + 0.9 * 0.1 - 0.2 + 0.45 * last
    assert advantages == pytest.approx([0.6 + 0.9 * 0.2 - 0.3 + 0.45 * middle, middle, last])
    for one in turns:  # a transform of the result (here: won, 1) leaves the rest with the last turn
        one.reward, one.reward_parts = 1.0, {"final": 1.0}
    assert episode_rewards(turns) == pytest.approx([0.5, -1.0, 1.5])


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


def test_credit_of_a_branching_game_matches_hand_computation() -> None:
    """Three matches branch at seat 0's turn 2; a fourth ended before it could branch. Results are seat 0's, seat 1's.

    match 0: seat 0 wins with its second turn after the branch;    +1, -1
    match 1: seat 0 forfeits with the turn at the branch;          -1, +1 (seat 1 has no turn after the branch)
    match 2: three more turns each, then seat 0 forfeits;          -1, +1
    match 3: not in the group; seat 0 forfeits with its only turn; -1, +1
    """
    seat_0 = {0: (2, 4), 1: (2,), 2: (2, 4, 6)}
    seat_1 = {0: (3,), 2: (3, 5)}
    turns = [turn(match=m, group=0, seat=0, index=i) for m, played in seat_0.items() for i in played]
    turns += [turn(match=m, group=0, seat=1, index=i) for m, played in seat_1.items() for i in played]
    turns.append(turn(match=3, seat=0, index=0))
    result = {(0, 0): 1.0, (1, 0): -1.0, (2, 0): -1.0, (3, 0): -1.0, (0, 1): -1.0, (2, 1): 1.0}
    returns = [result[one.match, one.seat] for one in turns]
    found, groups, alike = group_advantages(turns, returns)
    at_branch = [1 + 1 / 3, -1 + 1 / 3, -1 + 1 / 3]  # less the mean of 1, -1, -1
    after = [1 - -1.0, -1 - 0.0, -1 - 0.0]  # less the mean of the other two matches: -1; and of 1 and -1
    of_seat_1 = [-1 - 1.0, 1 - -1.0, 1 - -1.0]  # each less the other match
    early = [-1 - (1 - 1 - 1) / 3]  # less the mean of the group, which is one game
    expected = [at_branch[0], after[0], at_branch[1], at_branch[2], *after[1:], *of_seat_1, *early]
    assert found == pytest.approx(expected) and (groups, alike) == (1, 0)
    forfeits = [a for one, a in zip(turns, found, strict=True) if one.seat == 0 and one.match in (1, 2, 3)]
    assert max(forfeits) < 0  # nobody who forfeits is better than somebody who does
    spread = np.std([1.0, -1.0, -1.0])
    divided, _, _ = group_advantages(turns, returns, divide_by_std=True)
    assert divided[:6] == pytest.approx([a / spread for a in expected[:6]])
    assert divided[-1] == found[-1]


def test_a_game_that_has_nothing_to_be_compared_with_has_no_advantage() -> None:
    turns = [turn(match=0), turn(match=1), turn(match=0, seat=1), turn(match=2, game="Nim-v0")]
    found, groups, alike = group_advantages(turns, [1.0, -1.0, 9.0, 3.0])
    assert found == [2.0, -2.0, 0.0, 0.0] and (groups, alike) == (0, 0)


def test_groups_of_one_and_equal_rewards_are_exactly_zero() -> None:
    turns = [turn(match=i, group=0) for i in range(3)] + [turn(match=9, group=1)]
    for divide in (False, True):
        found, _, alike = group_advantages(turns, [0.1, 0.1, 0.1, 0.7], divide_by_std=divide)
        assert found == [0.0] * 4 and alike == 2
    assert group_advantages([], []) == ([], 0, 0)
