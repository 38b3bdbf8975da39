"""Credit for turns: from rewards to advantages. Small pure functions over lists of turns.

A seat's turns in one match are one episode. The reward of a turn is the env's reward plus that of the step
transforms; the last turn also has the rest of the game's result. A game that was cut off counts as finished.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.language.turns import Turn

FINAL = "final"
"""The part of `Turn.reward_parts` that holds the game's result after its transforms."""


def episodes(turns: Sequence[Turn]) -> list[list[int]]:
    """Indices of the turns of each seat of each match, in the order they were played."""
    found: dict[tuple[int, int, str], list[int]] = {}
    for i, turn in enumerate(turns):
        found.setdefault((turn.match, turn.seat, turn.player), []).append(i)
    return [sorted(indices, key=lambda i: turns[i].index) for indices in found.values()]


def episode_rewards(turns: Sequence[Turn]) -> list[float]:
    """Return the rewards of one episode, turn by turn; the last has what is left of the game's result."""
    *before, last = turns
    rewards = [turn.reward - turn.reward_parts.get(FINAL, turn.reward) + turn.env_reward for turn in before]
    return [*rewards, last.reward - sum(turn.env_reward for turn in before)]


def discounted_returns(turns: Sequence[Turn], gamma: float) -> list[float]:
    """Return the sum of the seat's rewards from each turn on, discounted by `gamma` per turn."""
    returns = [0.0] * len(turns)
    for episode in episodes(turns):
        running = 0.0
        rewards = episode_rewards([turns[i] for i in episode])
        for i, reward in zip(reversed(episode), reversed(rewards), strict=True):
            running = returns[i] = reward + gamma * running
    return returns


def turn_gae(
    turns: Sequence[Turn], values: Sequence[float], gamma: float, gae_lambda: float
) -> tuple[list[float], list[float]]:
    """Generalised advantage estimation over the turns of each seat: advantages and value targets."""
    advantages = [0.0] * len(turns)
    for episode in episodes(turns):
        running = following = 0.0
        rewards = episode_rewards([turns[i] for i in episode])
        for i, reward in zip(reversed(episode), reversed(rewards), strict=True):
            running = reward + gamma * following - values[i] + gamma * gae_lambda * running
            following = values[i]
            advantages[i] = running
    return advantages, [advantage + value for advantage, value in zip(advantages, values, strict=True)]


def group_advantages(
    turns: Sequence[Turn], returns: Sequence[float], *, divide_by_std: bool = False
) -> tuple[list[float], int, int]:
    """Return each turn's advantage (GRPO), the number of groups, and how many of them have no spread.

    A group is the completions sampled from one state: one turn per match, at the point where the matches branched. Its
    advantage is the return that followed it less the group's mean, as GRPO has it. Other turns were played from
    different states. Their advantage is their return less the mean result of other games at the same seat, which their
    action cannot have changed: the other matches of their group after the branch, or, for a game that ended before it
    branched, the other games of the batch (a group counts as one game). With nothing to be compared with it is zero.

    `divide_by_std` divides by the standard deviation of the group's results, as GRPO was published; without, easy and
    hard states count alike (Dr. GRPO).
    """
    of_group: dict[tuple[int, int], dict[int, float]] = {}  # group and seat: the result of each match
    of_game: dict[tuple[str, int], dict[int, list[float]]] = {}  # game and seat: the results of each start
    branches: dict[int, tuple[int, int]] = {}  # of each group: the index and the seat of its turns
    for first in (episode[0] for episode in episodes(turns)):
        turn, result = turns[first], returns[first]
        start = turn.match if turn.group is None else turn.group
        of_game.setdefault((turn.game, turn.seat), {}).setdefault(start, []).append(result)
        if turn.group is not None:
            of_group.setdefault((turn.group, turn.seat), {})[turn.match] = result
            here = (turn.index, turn.seat)
            branches[turn.group] = min(branches.get(turn.group, here), here)
    advantages = [0.0] * len(turns)
    for i, turn in enumerate(turns):
        if turn.group is None:
            games = of_game[turn.game, turn.seat]
            compared = [_mean(results) for start, results in games.items() if start != turn.match]
            spread = 0.0
        else:
            results = of_group[turn.group, turn.seat]
            at_branch = turn.index == branches[turn.group][0]
            compared = [result for match, result in results.items() if at_branch or match != turn.match]
            spread = float(np.std(list(results.values())))
        if compared:
            advantages[i] = returns[i] - _mean(compared)
            if divide_by_std and spread > 0:
                advantages[i] /= spread
    found = [of_group[group, seat].values() for group, (_, seat) in branches.items()]
    return advantages, len(found), sum(min(results) == max(results) for results in found)


def _mean(values: Sequence[float]) -> float:
    """Return the mean; exactly the value if all are equal."""
    return values[0] if min(values) == max(values) else sum(values) / len(values)
