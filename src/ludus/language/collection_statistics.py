"""Statistics of a collection: its metrics, how long games are, and where their returns are uncertain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ludus.language.turns import Turn
from ludus.league.players import Reply
from ludus.league.records import MatchRecord
from ludus.types import Metrics


class TurnEstimate:
    """Estimate of the learners' turns per match of each game, from the newest matches."""

    NEWEST = 64
    UNKNOWN = 32
    """Assumed turns of a match before any was seen, unless the limit of its game is lower."""

    def __init__(self, limits: Sequence[int]) -> None:
        """`limits` are the maximum turns of a match of each game."""
        self._lengths = [[min(limit, self.UNKNOWN)] for limit in limits]

    def expected(self, table: int, so_far: int = 0) -> float:
        """Return the mean length of matches that were longer than `so_far`: shorter ones have ended already."""
        longer = [length for length in self._lengths[table] if length > so_far]
        return float(np.mean(longer)) if longer else so_far + 1.0

    def update(self, table: int, turns: int) -> None:
        """Update with a match in which the learners took `turns` turns."""
        self._lengths[table] = [*self._lengths[table], turns][-self.NEWEST :]

    def state_dict(self) -> dict[str, Any]:
        return {"lengths": self._lengths}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._lengths = [[int(length) for length in lengths] for lengths in state["lengths"]]


class ReturnSpread:
    """The variance of returns at each turn of a game: branching is most useful where it is large."""

    DECAY = 0.05

    def __init__(self, tables: int) -> None:
        self._mean: list[list[float]] = [[] for _ in range(tables)]
        self._variance: list[list[float]] = [[] for _ in range(tables)]
        self._length: list[float] = [1.0] * tables

    def choose(self, table: int, how: str, rng: np.random.Generator) -> int:
        """Return the number of the learner's turn at which its match branches."""
        if how == "uncertain" and self._variance[table]:
            weights = np.array(self._variance[table]) + 1e-6
            return int(rng.choice(len(weights), p=weights / weights.sum()))
        return int(rng.integers(max(1, round(self._length[table]))))

    def update(self, table: int, turns: int, reward: float) -> None:
        """Update with a match in which the learner took `turns` turns and got `reward`."""
        self._length[table] += self.DECAY * (turns - self._length[table])
        mean, variance = self._mean[table], self._variance[table]
        while len(mean) < turns:
            mean.append(reward)
            variance.append(1.0)
        for index in range(turns):
            off = reward - mean[index]
            mean[index] += self.DECAY * off
            variance[index] = (1 - self.DECAY) * (variance[index] + self.DECAY * off * off)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self._mean, "variance": self._variance, "length": self._length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._mean = [list(row) for row in state["mean"]]
        self._variance = [list(row) for row in state["variance"]]
        self._length = list(state["length"])


class TurnTally:
    """Counters of one collection."""

    def __init__(self) -> None:
        self.cut_off: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._began = time.perf_counter()
        self._sampling = 0.0
        self._characters = 0
        self._tokens = 0
        self._all_turns = 0
        self._matches: list[tuple[MatchRecord, int]] = []

    def acted(self, replies: Sequence[Reply], seconds: float) -> None:
        spoken = [reply.turn for reply in replies if isinstance(reply.turn, Turn)]
        self._all_turns += len(replies)
        self._sampling += seconds
        self._characters += sum(len(turn.text) for turn in spoken)
        self._tokens += sum(len(turn.completion) for turn in spoken)

    def finished(self, record: MatchRecord, learner_seat: int) -> None:
        self._matches.append((record, learner_seat))

    def metrics(self, turns: Sequence[Turn]) -> Metrics:
        elapsed = time.perf_counter() - self._began
        found: Metrics = {
            "games/finished": float(len(self._matches)),
            "games/cut_off": float(sum(self.cut_off.values())),
            "games/skipped": float(sum(self.skipped.values())),
            "games/turns": float(len(turns)),
            "games/completion_tokens": _mean([len(turn.completion) for turn in turns]),
            "games/prompt_tokens": _mean([len(turn.prompt) for turn in turns]),
            "games/prompts_cut": float(sum(turn.prompt_cut > 0 for turn in turns)),
            "games/prompt_tokens_cut": float(sum(turn.prompt_cut for turn in turns)),
            "games/completions_truncated": float(sum(turn.truncated for turn in turns)),
            "games/well_formed": _mean([turn.well_formed for turn in turns]),
            "games/invalid_rate": _mean([turn.invalid for turn in turns]),
            "games/entropy": _mean([turn.entropy for turn in turns]),
            "time/collecting": elapsed,
            "time/sampling": self._sampling,
            "time/per_episode": _mean([record.seconds for record, _ in self._matches]),
            "time/per_turn": elapsed / max(self._all_turns, 1),
            "time/per_character": self._sampling / max(self._characters, 1),
            "time/tokens_per_second": self._tokens / max(self._sampling, 1e-9),
        }
        for record, learner_seat in self._matches:
            for seat, name in enumerate(record.players):
                if seat != learner_seat and name != record.players[learner_seat]:
                    key = f"winrate/{record.game}/{name}"
                    found[key] = found.get(key, 0.0) + (record.rewards[learner_seat] > record.rewards[seat])
                    found[f"{key}/games"] = found.get(f"{key}/games", 0.0) + 1
        for key in [key for key in found if key.endswith("/games") and key.startswith("winrate/")]:
            found[key.removesuffix("/games")] /= found[key]
        return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
