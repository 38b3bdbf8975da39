"""`BalatroMetrics`: statistics of finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ludus.envs.episode_reports import EpisodeReports
from ludus.types import Metrics

_PERCENTILES = (10, 25, 50, 75, 90, 99)


class BalatroMetrics(EpisodeReports):
    """Collects finished episodes and summarises them.

    >>> metrics = BalatroMetrics()
    >>> metrics.add_episode(reward=100, ante=5, score=50000, length=500)
    >>> metrics.get_summary()["mean_ante"]
    5.0
    """

    kind = "balatro"

    def __init__(self) -> None:
        self.rewards: list[float] = []
        self.antes: list[int] = []
        self.scores: list[float] = []
        self.lengths: list[int] = []
        self.wins: list[bool] = []
        self._jokers: dict[str, list[int]] = {}
        self._hands: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.antes)

    def add_episode(
        self,
        reward: float,
        ante: int,
        score: float,
        length: int,
        won: bool = False,
        jokers: Iterable[str] = (),
        hands: Mapping[str, int] | None = None,
    ) -> None:
        """Add a finished run: its last ante, best score and length; jokers held at the end, number of plays by hand."""
        self.rewards.append(float(reward))
        self.antes.append(int(ante))
        self.scores.append(float(score))
        self.lengths.append(int(length))
        self.wins.append(bool(won))
        for joker in set(jokers):
            self._jokers.setdefault(joker, []).append(int(ante))
        self._hands.update(hands or {})

    def add_report(self, report: Mapping[str, Any], reward: float) -> None:
        """Add one finished run from its episode report."""
        self.add_episode(
            reward,
            report["ante"],
            report["score"],
            report["length"],
            report["won"],
            report["jokers"],
            report["hands"],
        )

    def get_summary(self) -> dict[str, Any]:
        """Return means, percentiles, the share of runs that cleared each ante, and statistics by joker and by hand."""
        if not self.antes:
            return {"episodes": 0}
        antes, scores = np.array(self.antes), np.array(self.scores)
        plays = sum(self._hands.values())
        return {
            "episodes": len(self),
            "mean_reward": float(np.mean(self.rewards)),
            "std_reward": float(np.std(self.rewards)),
            "mean_ante": float(antes.mean()),
            "max_ante": int(antes.max()),
            "mean_score": float(scores.mean()),
            "max_score": float(scores.max()),
            "mean_length": float(np.mean(self.lengths)),
            "win_rate": float(np.mean(self.wins)),
            "ante_percentiles": {p: float(np.percentile(antes, p)) for p in _PERCENTILES},
            "score_percentiles": {p: float(np.percentile(scores, p)) for p in _PERCENTILES},
            "success_rate_by_ante": self.success_rate_by_ante(),
            "jokers": {
                name: {"episodes": len(ends), "mean_ante": float(np.mean(ends))}
                for name, ends in sorted(self._jokers.items(), key=lambda item: -len(item[1]))
            },
            "hands": {
                name: {"played": count, "share": count / plays} for name, count in self._hands.most_common()
            },
        }

    def success_rate_by_ante(self) -> dict[int, float]:
        """Return by ante the share of runs that cleared it: ended in a later one, or won there."""
        cleared = [ante if won else ante - 1 for ante, won in zip(self.antes, self.wins, strict=True)]
        top = max([8, *cleared])
        return {ante: float(np.mean([c >= ante for c in cleared])) for ante in range(1, top + 1)}

    def metrics(self) -> Metrics:
        """Return the summary without its statistics by joker and by hand."""
        summary = self.get_summary()
        if not summary["episodes"]:
            return {}
        names = ("mean_ante", "max_ante", "mean_score", "max_score", "win_rate")
        row = {name: float(summary[name]) for name in names}
        row |= {f"ante_p{p}": value for p, value in summary["ante_percentiles"].items() if p in (50, 90)}
        row |= {f"score_p{p}": value for p, value in summary["score_percentiles"].items() if p in (50, 90)}
        cleared = summary["success_rate_by_ante"].items()
        return row | {f"cleared_ante_{ante}": rate for ante, rate in cleared if ante <= 8}

    def lines(self) -> list[tuple[str, str]]:
        shares = " ".join(f"{100 * rate:.1f}" for rate in list(self.success_rate_by_ante().values())[:8])
        return [
            ("ante", f"{np.mean(self.antes):.2f} on average, {max(self.antes)} at most"),
            ("cleared", f"{shares} % (antes 1 to 8)"),
        ]
