"""Who sits opposite the learner: one small function for each way to choose.

Each gives a weight to every candidate; opponents are drawn in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ludus.config.language import LeagueConfig


@dataclass(frozen=True)
class Candidate:
    """Somebody who could sit opposite the learner, as the choice sees them."""

    name: str
    weight: float = 1.0
    """As given in `league.train`; 1 for everybody else."""
    listed: bool = False
    """Named in `league.train`."""
    age: int | None = None
    """1 for the learner's newest frozen version, 2 for the one before, …; None for everybody else."""
    quality: float = 1.0
    """How even a game would be, from 0 to 1."""
    win_rate: float = 0.5
    """The learner's against them, of late."""


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
    """Prioritised fictitious self-play (Vinyals et al., 2019), where hard opponents come more often."""
    return candidate.weight * math.pow(1.0 - candidate.win_rate, config.hardness)


_WEIGHT: dict[str, Callable[[Candidate, LeagueConfig], float]] = {
    "fixed": _fixed,
    "lagged": _lagged,
    "random": _random,
    "quality": _quality,
    "prioritised": _prioritised,
}


def probabilities(learner: str, candidates: Sequence[Candidate], config: LeagueConfig) -> dict[str, float]:
    """How likely each opponent of `learner` is, itself included, by name; they add up to 1.

    The learner plays itself for `mirror_share` of the games, and for all of them where nobody else is eligible.
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


def draw(chances: dict[str, float], rng: np.random.Generator) -> str:
    """One of the names, by its chance. Draws nothing from `rng` where there is only one."""
    names = list(chances)
    if len(names) == 1:
        return names[0]
    edges = np.cumsum(list(chances.values()))
    return names[int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))]
