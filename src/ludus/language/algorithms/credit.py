"""Credit for turns: from rewards to advantages. Small pure functions over lists of turns.

A seat's turns in one match are one episode. Their rewards are those of the step transforms, and the last one has the
game's result besides; a game that was cut off is over like any other.
"""

from __future__ import annotations

from collections import Counter
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
    """The rewards of one episode, turn by turn: its steps' own, and the result with the last."""
    final = [turn.reward_parts.get(FINAL, turn.reward) for turn in turns]
    rewards = [turn.reward - result for turn, result in zip(turns, final, strict=True)]
    rewards[-1] = turns[-1].reward
    return rewards


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
    """Each turn's return less its group's mean (GRPO); also how many groups there are, and how many without spread.

    Turns of a group are compared with those of the same seat; turns without one with all such turns of the same game
    and seat. In a mean every match counts once, however many turns it has there. `divide_by_std` divides by the
    group's standard deviation, as GRPO was published; without, easy and hard states count alike (Dr. GRPO). A turn
    alone in its group has nothing to be compared with: its advantage is zero.
    """
    groups: dict[tuple[str | int, int], list[int]] = {}
    for i, turn in enumerate(turns):
        # seats are compared with themselves: one's gain is the other's loss
        key = (turn.game if turn.group is None else turn.group, turn.seat)
        groups.setdefault(key, []).append(i)
    advantages = [0.0] * len(turns)
    without_spread = 0
    for members in groups.values():
        found = np.array([returns[i] for i in members])
        if found.min() == found.max():  # exactly zero, which a rounded mean would not give
            without_spread += 1
            continue
        per_match = Counter(turns[i].match for i in members)
        weights = np.array([1 / per_match[turns[i].match] for i in members]) / len(per_match)
        off = found - weights @ found
        if divide_by_std:
            off /= np.sqrt(weights @ off**2)
        for i, advantage in zip(members, off.tolist(), strict=True):
            advantages[i] = advantage
    return advantages, len(groups), without_spread
