"""OpenSkill ratings, in one table for bots, networks, language models and people.

The model is Plackett-Luce (Weng and Lin, 2011), for any number of players and for draws. A rating is a mean
`mu` and its standard deviation `sigma`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openskill.models import PlackettLuce

_MODEL = PlackettLuce()
BETA = float(_MODEL.beta)
"""The luck in a single game, in the units of `mu`."""


@dataclass(frozen=True)
class Rating:
    """The estimated strength of one player; the default is that of an unknown player."""

    mu: float = float(_MODEL.mu)
    sigma: float = float(_MODEL.sigma)

    def inherited(self) -> Rating:
        """Return the rating of a new version: the same mean and twice the `sigma`, up to the initial one."""
        return Rating(self.mu, min(2 * self.sigma, Rating.sigma))


REFERENCE = Rating(sigma=0.0)
"""The opponent in single-player games: the initial mean, which never changes."""


class Ratings:
    """Ratings by name; a name without games has the initial rating."""

    def __init__(self) -> None:
        self._ratings: dict[str, Rating] = {}

    def __getitem__(self, name: str) -> Rating:
        return self._ratings.get(name, Rating())

    def __setitem__(self, name: str, rating: Rating) -> None:
        self._ratings[name] = rating

    def __iter__(self) -> Iterator[str]:
        return iter(self._ratings)

    def forget(self, name: str) -> None:
        self._ratings.pop(name, None)

    def rate(self, results: Mapping[str, float]) -> None:
        """Update with one game: the result of each player, where greater is better and equal is a draw.

        ValueError for fewer than two players.
        """
        if len(results) < 2:
            raise ValueError("a game between fewer than two players cannot be rated")
        after = _after([self[name] for name in results], list(results.values()))
        self._ratings |= dict(zip(results, after, strict=True))

    def rate_alone(self, name: str, reward: float, reference: float) -> None:
        """Update with one single-player game: a win where `reward` is greater than `reference`."""
        self[name], _ = _after([self[name], REFERENCE], [reward, reference])

    def win_probability(self, name: str, other: str) -> float:
        """Return the probability that `name` beats `other`, draws shared."""
        [chance, _] = _MODEL.predict_win([[_to_openskill(self[name])], [_to_openskill(self[other])]])
        return float(chance)

    def quality(self, name: str, other: str) -> float:
        """Return TrueSkill's match quality from 0 to 1: 1 for an even game."""
        one, two = self[name], self[other]
        luck = 2 * BETA**2
        spread = luck + one.sigma**2 + two.sigma**2
        return math.sqrt(luck / spread) * math.exp(-((one.mu - two.mu) ** 2) / (2 * spread))

    def state_dict(self) -> dict[str, Any]:
        return {name: [rating.mu, rating.sigma] for name, rating in self._ratings.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; ValueError for numbers that are not finite."""
        ratings = {name: Rating(float(mu), float(sigma)) for name, (mu, sigma) in state.items()}
        for name, rating in ratings.items():
            if not math.isfinite(rating.mu) or not math.isfinite(rating.sigma):
                raise ValueError(f"the rating of {name!r} is not finite")
        self._ratings = ratings


def _after(ratings: list[Rating], results: list[float]) -> list[Rating]:
    # places are whole numbers: openskill truncates ranks
    places = [sum(other > result for other in results) for result in results]
    teams = _MODEL.rate([[_to_openskill(rating)] for rating in ratings], ranks=[float(p) for p in places])
    return [Rating(float(one.mu), float(one.sigma)) for [one] in teams]


def _to_openskill(rating: Rating) -> Any:
    return _MODEL.rating(rating.mu, rating.sigma)
