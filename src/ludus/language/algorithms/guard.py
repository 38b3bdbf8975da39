"""The collapse guard: checks the metrics of every update and reports when the policy has collapsed.

Self-play can narrow until the model repeats one game, forgets how to move, or wins only against itself. Each limit
of the config checks one symptom. A limit must be exceeded in several consecutive measurements; updates without the
measurement do not count. A metric that was never within its limit does not count as a collapse: a model that is still
learning to make valid moves is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ludus.config.language import GuardConfig
from ludus.league.records import MatchRecord
from ludus.types import Metrics

ENTROPY = "games/entropy"
INVALID = "games/ended_invalid"
ACTIONS = "games/action_diversity"
STATES = "games/state_diversity"
KL = "train/kl_start"
ANCHORS = "eval/score"
"""Metrics that begin with this are scores between 0 and 1 against fixed opponents; draws count half."""

NGRAM = 2


@dataclass(frozen=True)
class Verdict:
    """The guard's judgement. `reason` names the exceeded limits, with their values."""

    state: Literal["healthy", "suspicious", "collapsed"]
    reason: str = ""


class CollapseGuard:
    """Guard of one run. `rollbacks` counts its rollbacks."""

    def __init__(self, settings: GuardConfig) -> None:
        self.settings = settings
        self.rollbacks = 0
        self._in_a_row: dict[str, int] = {}
        self._best: dict[str, float] = {}
        self._well: set[str] = set()
        self._since_well: dict[str, int] = {}

    @property
    def bad_for(self) -> int:
        """Number of updates since the metrics that now exceed their limits were last within them."""
        return max((self._since_well.get(name, n) for name, n in self._in_a_row.items()), default=0)

    def watch(self, metrics: Metrics) -> Verdict:
        """Check the metrics of one update, and those of the evaluation before it if there was one."""
        reasons = []
        self._since_well = {name: updates + 1 for name, updates in self._since_well.items()}
        for name, bad in self._passed(metrics).items():
            if bad is None:
                self._well.add(name)
                self._since_well[name] = 0
                self._in_a_row.pop(name, None)
            elif name in self._well:
                self._in_a_row[name] = self._in_a_row.get(name, 0) + 1
                reasons.append(bad)
        if any(count >= self.settings.patience for count in self._in_a_row.values()):
            return Verdict("collapsed", "; ".join(reasons))
        return Verdict("suspicious", "; ".join(reasons)) if self._in_a_row else Verdict("healthy")

    def rolled_back(self) -> bool:
        """Count a rollback to a healthy version; return True if the run may continue."""
        self.rollbacks += 1
        self._in_a_row.clear()
        return self.rollbacks <= self.settings.rollbacks

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "rollbacks": self.rollbacks,
            "in_a_row": dict(self._in_a_row),
            "best": dict(self._best),
            "well": sorted(self._well),
            "since_well": dict(self._since_well),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self.rollbacks = int(state["rollbacks"])
        self._in_a_row = {name: int(count) for name, count in state["in_a_row"].items()}
        self._best = {name: float(score) for name, score in state["best"].items()}
        self._well = set(state["well"])
        self._since_well = {name: int(updates) for name, updates in state.get("since_well", {}).items()}

    def _passed(self, metrics: Metrics) -> dict[str, str | None]:
        """Return, for every measurement in `metrics`, how it exceeds its limit, or None."""
        s = self.settings
        limits = [
            (ENTROPY, s.entropy, -1),
            (INVALID, s.invalid_rate, 1),
            (ACTIONS, s.diversity, -1),
            (STATES, s.diversity, -1),
            (KL, s.kl, 1),
        ]
        found: dict[str, str | None] = {}
        for name, limit, sign in limits:
            value = metrics.get(name, math.nan)
            if limit is not None and not math.isnan(value):
                word = "above" if sign > 0 else "below"
                found[name] = (
                    f"{name} {value:.4g} is {word} {limit:g}" if sign * value > sign * limit else None
                )
        if s.anchor_drop is not None:
            scores = {name: value for name, value in metrics.items() if name.startswith(ANCHORS)}
            found |= {name: self._fallen(name, score, s.anchor_drop) for name, score in scores.items()}
        return found

    def _fallen(self, name: str, score: float, most: float) -> str | None:
        best = self._best[name] = max(score, self._best.get(name, score))
        return f"{name} fell from {best:.3g} to {score:.3g}" if best - score > most else None


def distinct_share(sequences: Iterable[Sequence[Hashable]], n: int = NGRAM) -> float:
    """Distinct n-grams over all n-grams of the sequences; NaN without any. A shorter sequence is one n-gram."""
    grams = [
        tuple(sequence[start : start + n])
        for sequence in sequences
        if len(sequence)
        for start in range(max(len(sequence) - n, 0) + 1)
    ]
    return len(set(grams)) / len(grams) if grams else math.nan


def diversity_metrics(matches: Sequence[MatchRecord]) -> Metrics:
    """Return the shares of actions and states that occurred once only, and of games a model ended by invalid moves.

    Actions are compared in their order within each match, states in the order one seat saw them.
    """
    if not matches:
        return {}
    states: dict[tuple[int, int], list[str]] = {}
    for match in matches:
        for turn in match.turns:
            states.setdefault((match.match, turn.seat), []).append(turn.observation)
    spoilt = [any(match.invalid[seat] for seat in {turn.seat for turn in match.turns}) for match in matches]
    found = {
        ACTIONS: distinct_share([[action for _, action in match.moves] for match in matches]),
        STATES: distinct_share(list(states.values())),
        INVALID: sum(spoilt) / len(spoilt),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}
