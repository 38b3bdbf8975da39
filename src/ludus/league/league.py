"""The league: everybody who plays in a run, how they fared, and whom the learner meets next.

Learners, their frozen versions, bots, networks, remote models and people stand in one table. The league knows
names and results; it holds no weights.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter

from ludus.config.language import LeagueConfig
from ludus.league.opponents import Candidate, draw, probabilities
from ludus.league.ratings import Rating, Ratings
from ludus.league.records import MatchRecord
from ludus.types import Metrics

Kind = Literal["learner", "version", "bot", "policy", "model", "remote", "human"]
"""`policy`: a network trained by Ludus on an env. `model`: a language model of another run."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_MEMORY = (
    0.99  # what a game still counts after the next one between the same two, where only the recent matters
)


@dataclass
class Member:
    """One player of the league."""

    name: str
    kind: Kind
    version: int | None = None
    """Updates that the weights had seen; for learners and their versions."""
    parent: str | None = None
    """Of a frozen version: the learner it was."""
    plays: list[str] | None = None
    """The games it can play; None: all."""
    weight: Weight = 1.0
    listed: bool = False
    """An opponent in training by name (`league.train`); others are met in evaluation only."""
    anchor: bool = False
    """A version that never makes room for others."""
    spoilt: bool = False
    """A version frozen while its learner collapsed: neither one to go back to nor one to learn against."""
    games: Count = 0
    cut_off: Count = 0
    chosen: Count = 0
    """How often it was drawn as an opponent."""

    def may_meet_learners(self, game: str) -> bool:
        """Whether it can be an opponent in training."""
        able = self.plays is None or game in self.plays
        return able and not self.spoilt and (self.listed or self.kind in ("learner", "version"))


@dataclass
class PairRecord:
    """How the games between two members ended, seen from the first. Draws and cut-off games apart."""

    wins: Count = 0
    draws: Count = 0
    losses: Count = 0
    recent_points: Weight = 0.0
    recent_games: Weight = 0.0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Of late, draws half; as if one game had been won and one lost before the first."""
        return (self.recent_points + 1) / (self.recent_games + 2)

    def add(self, difference: float) -> None:
        """One more game, in which the first had so much more than the second."""
        self.wins += difference > 0
        self.draws += difference == 0
        self.losses += difference < 0
        points = 1.0 if difference > 0 else 0.5 if difference == 0 else 0.0
        self.recent_points = self.recent_points * _MEMORY + points
        self.recent_games = self.recent_games * _MEMORY + 1

    def reversed(self) -> PairRecord:
        """The same games, seen from the second."""
        return PairRecord(
            self.losses, self.draws, self.wins, self.recent_games - self.recent_points, self.recent_games
        )


@dataclass(frozen=True)
class Standing:
    """One line of the league's table."""

    name: str
    kind: Kind
    version: int | None
    mu: float
    sigma: float
    games: int
    wins: int
    draws: int
    losses: int
    cut_off: int
    frequency: float
    """The share of all opponents drawn."""


class League:
    """Members, ratings and results of one run. `state_dict` is all there is to save, as plain JSON data."""

    def __init__(self, config: LeagueConfig) -> None:
        self.config = config
        self.members: dict[str, Member] = {}
        self.ratings = Ratings()
        self._pairs: dict[tuple[str, str], PairRecord] = {}

    def add(
        self, name: str, kind: Kind, *, version: int | None = None, plays: Iterable[str] | None = None
    ) -> Member:
        """A new member, a stranger as yet; the one who is there if the name is known.

        Whoever is named in `league.train` becomes an opponent in training, at the games it `plays` (None: all).
        """
        if name not in self.members:
            weights = self.config.weights()
            self.members[name] = Member(
                name,
                kind,
                version,
                plays=None if plays is None else sorted(plays),
                weight=weights.get(name, 1.0),
                listed=name in weights,
            )
            self.ratings[name] = Rating()
        return self.members[name]

    def freeze(self, learner: str, version: int, *, anchor: bool = False) -> tuple[Member, list[Member]]:
        """A frozen version of `learner` as it is now, and the versions that had to make room for it.

        It inherits the learner's rating, with twice the uncertainty. Of a learner's versions the weakest goes
        first; the newest and anchors stay.
        """
        name = f"{learner}@{version}"
        if name in self.members:
            raise ValueError(f"{name} is frozen already")
        member = Member(name, "version", version, parent=learner, anchor=anchor)
        self.members[name] = member
        self.ratings[name] = self.ratings[learner].inherited()
        versions = self.versions(learner)
        leaving = [one for one in versions[1:] if not one.anchor]
        leaving.sort(key=lambda one: (self.ratings[one.name].mu, one.version))
        gone = leaving[: max(len(versions) - self.config.versions, 0)]
        for one in gone:
            self.remove(one.name)
        return member, gone

    def versions(self, learner: str) -> list[Member]:
        """Its frozen versions, newest first."""
        own = [member for member in self.members.values() if member.parent == learner]
        return sorted(own, key=lambda member: member.version or 0, reverse=True)

    def remove(self, name: str) -> None:
        """Forget a member and its results."""
        del self.members[name]
        self.ratings.forget(name)
        self._pairs = {pair: result for pair, result in self._pairs.items() if name not in pair}

    def pair(self, name: str, other: str) -> PairRecord:
        """How `name` fared against `other`."""
        if (other, name) in self._pairs:
            return self._pairs[other, name].reversed()
        return self._pairs.get((name, other), PairRecord())

    def probabilities(self, learner: str, game: str) -> dict[str, float]:
        """How likely each member is to be the learner's next opponent at `game`."""
        ages = {member.name: age for age, member in enumerate(self.versions(learner), start=1)}
        candidates = [
            Candidate(
                member.name,
                member.weight,
                member.listed,
                ages.get(member.name),
                self.ratings.quality(learner, member.name),
                self.pair(learner, member.name).win_rate,
            )
            for member in self.members.values()
            if member.name != learner and member.may_meet_learners(game)
        ]
        return probabilities(learner, candidates, self.config)

    def choose_opponent(self, learner: str, game: str, rng: np.random.Generator) -> str:
        """Whom `learner` meets on one other seat of its next game; counted."""
        name = draw(self.probabilities(learner, game), rng)
        self.members[name].chosen += 1
        return name

    def record(self, match: MatchRecord) -> None:
        """Take in a match between members: ratings and results.

        A member on several seats counts once, with its mean reward, so that a game against itself changes
        nobody's rating. A game that was cut off is only counted. A single-player game is one against a reference
        that always gets `league.reference`.
        """
        rewards = mean_rewards(match.players, match.rewards)
        for name in rewards:
            self.members[name].games += 1
            self.members[name].cut_off += match.cut_off
        if match.cut_off:
            return
        if len(match.players) == 1:
            [(name, reward)] = rewards.items()
            self.ratings.rate_alone(name, reward, self.config.reference)
        elif len(rewards) > 1:
            self.ratings.rate(rewards)
            for one, two in itertools.combinations(sorted(rewards), 2):
                self._pairs.setdefault((one, two), PairRecord()).add(rewards[one] - rewards[two])

    def table(self) -> list[Standing]:
        """Everybody, the best first."""
        drawn = sum(member.chosen for member in self.members.values())
        totals = {name: PairRecord() for name in self.members}
        for (one, two), pair in self._pairs.items():
            for name, seen in ((one, pair), (two, pair.reversed())):
                if name in totals:
                    totals[name].wins += seen.wins
                    totals[name].draws += seen.draws
                    totals[name].losses += seen.losses
        rows = []
        for member in self.members.values():
            rating, total = self.ratings[member.name], totals[member.name]
            rows.append(
                Standing(
                    member.name,
                    member.kind,
                    member.version,
                    rating.mu,
                    rating.sigma,
                    member.games,
                    total.wins,
                    total.draws,
                    total.losses,
                    member.cut_off,
                    member.chosen / drawn if drawn else 0.0,
                )
            )
        return sorted(rows, key=lambda row: (-row.mu, row.name))

    def metrics(self) -> Metrics:
        """Ratings, opponent frequencies and learners' recent win rates, for the run's metrics."""
        found: Metrics = {}
        learners = [member.name for member in self.members.values() if member.kind == "learner"]
        for row in self.table():
            if row.kind != "version":
                found[f"league/rating/{row.name}"] = row.mu
                found[f"league/sigma/{row.name}"] = row.sigma
            if row.frequency:
                found[f"league/frequency/{row.name}"] = row.frequency
            for learner in learners:
                if row.kind != "version" and self.pair(learner, row.name).games:
                    found[f"league/win_rate/{learner}/{row.name}"] = self.pair(learner, row.name).win_rate
        return found

    def state_dict(self) -> dict[str, Any]:
        return {
            "members": [asdict(member) for member in self.members.values()],
            "ratings": self.ratings.state_dict(),
            "pairs": [[*names, asdict(pair)] for names, pair in self._pairs.items()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take everything over from `state`; weights and listings are the config's of today, and whoever it names anew
        stays, as a stranger. LookupError, TypeError or ValueError where `state` is of another kind.
        """
        weights = self.config.weights()
        members = _MEMBERS.validate_python(state["members"])
        for member in members:
            if member.parent is None:
                member.weight, member.listed = weights.get(member.name, 1.0), member.name in weights
        new = {name: member for name, member in self.members.items() if member.parent is None}
        self.members = {member.name: member for member in members}
        self.members |= {name: member for name, member in new.items() if name not in self.members}
        self.ratings.load_state_dict(state["ratings"])
        self._pairs = {(one, two): pair for one, two, pair in _PAIRS.validate_python(state["pairs"])}


# the state of a run may be a stranger's: see Checkpoint.understood
_MEMBERS = TypeAdapter(list[Member])
_PAIRS = TypeAdapter(list[tuple[str, str, PairRecord]])


def mean_rewards(players: Iterable[str], rewards: Iterable[float]) -> dict[str, float]:
    """The reward of each player of a match; one on several seats gets the mean of them."""
    by_name: dict[str, list[float]] = {}
    for name, reward in zip(players, rewards, strict=True):
        by_name.setdefault(name, []).append(reward)
    # exact, so that seats with equal rewards are equal in the mean as well
    return {name: statistics.mean(own) for name, own in by_name.items()}
