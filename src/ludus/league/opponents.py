"""Matchmaking: one small function for each way to choose the learner's opponent.

Each function weighs a candidate; opponents are drawn in proportion to their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ludus.config.language import LeagueConfig


@dataclass(frozen=True)
class Candidate:
    """A possible opponent of the learner."""

    name: str
    weight: float = 1.0
    """As given in `league.train`; 1 for others."""
    listed: bool = False
    """Named in `league.train`."""
    age: int | None = None
    """1 for the learner's newest frozen version, 2 for the one before, …; None for others."""
    quality: float = 1.0
    """Match quality from 0 to 1: 1 for an even game."""
    win_rate: float = 0.5
    """Recent win rate of the learner against this candidate."""


def _fixed(candidate: Candidate, config: LeagueConfig) -> float:
    return candidate.weight if candidate.listed else 0.0


def _lagged(candidate: Candidate, config: LeagueConfig) -> float:
    youngest, oldest = config.lag
    return float(candidate.age is not None and youngest <= candidate.age <= oldest)


def _random(candidate: Candidate, config: LeagueConfig) -> float:
    return candidate.weight


def _quality(candidate: Candidate, config: LeagueConfig) -> float:
    return candidate.weight * candidate.quality


def _prioritised(candidate: Candidate, config: LeagueConfig) -> float:
    """Prioritised fictitious self-play (Vinyals et al., 2019), where hard opponents are drawn more often."""
    return candidate.weight * math.pow(1.0 - candidate.win_rate, config.hardness)


_WEIGHT: dict[str, Callable[[Candidate, LeagueConfig], float]] = {
    "fixed": _fixed,
    "lagged": _lagged,
    "random": _random,
    "quality": _quality,
    "prioritised": _prioritised,
}


def probabilities(learner: str, candidates: Sequence[Candidate], config: LeagueConfig) -> dict[str, float]:
    """Return the probability of each opponent of `learner`, itself included; they add up to 1.

    The learner plays itself in `mirror_share` of the games, and in all of them where no other player is eligible.
    """
    if config.opponents == "mirror":
        return {learner: 1.0}
    weight = _WEIGHT[config.opponents]
    weights = {candidate.name: weight(candidate, config) for candidate in candidates}
    total = sum(weights.values())
    if total <= 0:
        return {learner: 1.0}
    others = {name: (1 - config.mirror_share) * one / total for name, one in weights.items() if one > 0}
    return {learner: config.mirror_share, **others} if config.mirror_share else others


def draw(by_name: dict[str, float], rng: np.random.Generator) -> str:
    """Draw one of the names by its probability. Uses no random number where there is only one."""
    names = list(by_name)
    if len(names) == 1:
        return names[0]
    edges = np.cumsum(list(by_name.values()))
    return names[int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))]
