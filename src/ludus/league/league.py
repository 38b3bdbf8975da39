"""The league: all players of a run, their results, and the choice of the learner's next opponent.

Learners, their frozen versions, bots, networks, remote models and people are in one table. The league knows
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
_RECENT_DECAY = 0.99  # weight of a game after each later game between the same two, in recent win rates


@dataclass
class Member:
    """One player of the league."""

    name: str
    kind: Kind
    version: int | None = None
    """Updates that the weights had seen; for learners and their versions."""
    parent: str | None = None
    """The learner that a frozen version was made from."""
    plays: list[str] | None = None
    """The games it can play; None: all."""
    weight: Weight = 1.0
    listed: bool = False
    """Named in `league.train`: an opponent in training. Others are met in evaluation only."""
    anchor: bool = False
    """A version that is never removed to make room for others."""
    spoilt: bool = False
    """A version frozen while its learner collapsed: not used for rollbacks, nor as an opponent in training."""
    games: Count = 0
    cut_off: Count = 0
    chosen: Count = 0
    """Times it was drawn as an opponent."""
    requests: Count = 0
    """To a remote model; its tokens, and their cost where prices are given, follow."""
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cost: Weight | None = None

    def may_meet_learners(self, game: str) -> bool:
        """Return True if it can be an opponent in training."""
        able = self.plays is None or game in self.plays
        return able and not self.spoilt and (self.listed or self.kind in ("learner", "version"))


@dataclass
class PairRecord:
    """Results of the games between two members, seen from the first; games that were cut off are not counted."""

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
        """Recent win rate, a draw counting half, with one win and one loss added as a prior."""
        return (self.recent_points + 1) / (self.recent_games + 2)

    def add(self, difference: float) -> None:
        """Add a game in which the first player's reward was greater by `difference`."""
        self.wins += difference > 0
        self.draws += difference == 0
        self.losses += difference < 0
        points = 1.0 if difference > 0 else 0.5 if difference == 0 else 0.0
        self.recent_points = self.recent_points * _RECENT_DECAY + points
        self.recent_games = self.recent_games * _RECENT_DECAY + 1

    def reversed(self) -> PairRecord:
        """Return the same games, seen from the second."""
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
    """Share of all opponents that were drawn."""
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


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
        """Add a member with the initial rating; return the existing one if the name is known.

        A member named in `league.train` becomes an opponent in training, at the games it `plays` (None: all).
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
        """Add a frozen version of `learner`; return it, and the versions that were removed to make room.

        It inherits the learner's rating, with twice the uncertainty. The weakest versions of the learner are
        removed first; the newest and anchors stay.
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
        """Return the frozen versions of `learner`, newest first."""
        own = [member for member in self.members.values() if member.parent == learner]
        return sorted(own, key=lambda member: member.version or 0, reverse=True)

    def remove(self, name: str) -> None:
        """Remove a member and its results."""
        del self.members[name]
        self.ratings.forget(name)
        self._pairs = {pair: result for pair, result in self._pairs.items() if name not in pair}

    def pair(self, name: str, other: str) -> PairRecord:
        """Return the results of `name` against `other`."""
        if (other, name) in self._pairs:
            return self._pairs[other, name].reversed()
        return self._pairs.get((name, other), PairRecord())

    def probabilities(self, learner: str, game: str) -> dict[str, float]:
        """Return the probability of each member to be the learner's next opponent at `game`."""
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
        """Draw the opponent of `learner` for one other seat of its next game, and count it."""
        name = draw(self.probabilities(learner, game), rng)
        self.members[name].chosen += 1
        return name

    def record(self, match: MatchRecord) -> None:
        """Update ratings and results with a match between members.

        A member on several seats counts once, with its mean reward: a game against itself changes no rating. A game
        that was cut off is only counted. A single-player game is rated against a reference that always gets
        `league.reference`.
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

    def count_requests(
        self, name: str, requests: int, prompt_tokens: int, completion_tokens: int, cost: float | None
    ) -> None:
        """Add what a remote model counted for requests to it; `cost` is None without prices."""
        member = self.members[name]
        member.requests += requests
        member.prompt_tokens += prompt_tokens
        member.completion_tokens += completion_tokens
        if cost is not None:
            member.cost = (member.cost or 0.0) + cost

    def table(self) -> list[Standing]:
        """Return all members, the best first; those without a game, whose rating is inherited or initial, last."""
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
                    member.requests,
                    member.prompt_tokens,
                    member.completion_tokens,
                    member.cost,
                )
            )
        return sorted(rows, key=lambda row: (row.games == 0, -row.mu, row.name))

    def metrics(self) -> Metrics:
        """Return ratings, opponent frequencies, learners' recent win rates and tokens of remote models, as metrics.

        Of frozen versions, those that were drawn as opponents are included.
        """
        found: Metrics = {}
        learners = [member.name for member in self.members.values() if member.kind == "learner"]
        for row in self.table():
            if row.kind == "version" and not row.frequency:
                continue
            found[f"league/rating/{row.name}"] = row.mu
            found[f"league/sigma/{row.name}"] = row.sigma
            if row.requests:
                found[f"league/prompt_tokens/{row.name}"] = float(row.prompt_tokens)
                found[f"league/completion_tokens/{row.name}"] = float(row.completion_tokens)
                if row.cost is not None:
                    found[f"league/cost/{row.name}"] = row.cost
            if row.frequency:
                found[f"league/frequency/{row.name}"] = row.frequency
            for learner in learners:
                if self.pair(learner, row.name).games:
                    found[f"league/win_rate/{learner}/{row.name}"] = self.pair(learner, row.name).win_rate
        return found

    def state_dict(self) -> dict[str, Any]:
        return {
            "members": [asdict(member) for member in self.members.values()],
            "ratings": self.ratings.state_dict(),
            "pairs": [[*names, asdict(pair)] for names, pair in self._pairs.items()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load `state`. Weights and listings are those of the current config; members it adds keep the initial rating.

        Raises LookupError, TypeError or ValueError where `state` is not what `state_dict` returned.
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


# runs may come from others, so their state is validated: see Checkpoint.understood
_MEMBERS = TypeAdapter(list[Member])
_PAIRS = TypeAdapter(list[tuple[str, str, PairRecord]])


def mean_rewards(players: Iterable[str], rewards: Iterable[float]) -> dict[str, float]:
    """Return the reward of each player of a match: the mean over its seats."""
    by_name: dict[str, list[float]] = {}
    for name, reward in zip(players, rewards, strict=True):
        by_name.setdefault(name, []).append(reward)
    # statistics.mean is exact: players whose seats have equal rewards have equal means
    return {name: statistics.mean(own) for name, own in by_name.items()}
