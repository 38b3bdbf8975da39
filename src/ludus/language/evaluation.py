"""Evaluation by matches: the learner's results against each opponent in each game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ludus.evaluation.evaluate import EvaluationResult
from ludus.league.match import MatchResult
from ludus.types import EpisodeRecord, Metrics


@dataclass(frozen=True)
class MatchEvaluation(EvaluationResult):
    """The games of one evaluation, against each opponent at each game."""

    results: tuple[MatchResult, ...]

    @classmethod
    def of(cls, results: Sequence[MatchResult]) -> MatchEvaluation:
        return cls(tuple(_episodes(results)), tuple(results))

    def metrics(self) -> Metrics:
        found = super().metrics()
        for result in self.results:
            name = f"{result.game}/{result.second}"
            games = result.total.games
            if not games:
                continue  # no match was finished: no score is not a score of 0
            found[f"eval/score/{name}"] = (result.total.wins + 0.5 * result.total.draws) / games
            found[f"eval/wins/{name}"] = result.total.wins / games
            found[f"eval/draws/{name}"] = result.total.draws / games
            found[f"eval/losses/{name}"] = result.total.losses / games
            found[f"eval/invalid/{name}"] = result.invalid[0] / games
        return found


def _episodes(results: Sequence[MatchResult]) -> list[EpisodeRecord]:
    """Return the games as episodes of the learner."""
    found = []
    for result in results:
        for record in result.records:
            seat = record.players.index(result.first) if result.first in record.players else None
            if seat is None:
                continue  # a single-player game, played by the opponent
            others = [reward for i, reward in enumerate(record.rewards) if i != seat]
            won = record.rewards[seat] > max(others) if others else None
            found.append(EpisodeRecord(float(record.rewards[seat]), record.length, won))
    return found
