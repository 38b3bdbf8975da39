"""Two policies at one DIAMBRA game: runs or bots, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy, load
from ludus.games.diambra.bots import BOTS, make_bot
from ludus.games.diambra.duel import DuelTable
from ludus.games.diambra.games import DIAMBRA
from ludus.games.diambra.opponents import require_spaces
from ludus.league.match import WinTally, play_simultaneously


@dataclass(frozen=True)
class DuelResult:
    """How the first of two fared."""

    first: str
    second: str
    tally: WinTally
    rewards: tuple[float, ...]
    """The first one's, of each fight."""

    @property
    def mean_reward(self) -> float:
        return float(np.mean(self.rewards))

    def summary(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "first": self.first,
            "second": self.second,
            "fights": len(self.rewards),
            **self.tally.summary(),
            "mean_reward": self.mean_reward,
        }


def fight_duels(
    first: str, second: str, *, fights: int, seed: int = 0, root: str | Path = "runs"
) -> DuelResult:
    """Seat the policies called `first` and `second` for so many games; each seed, from `seed` upwards, is fought
    from both seats.

    The game and its settings are those of the first that is a run; UserError when neither is, or when the other
    was trained on other observations.
    """
    loaded = [None if name in BOTS else load(name, root) for name in (first, second)]
    table = _table(next((policy for policy in loaded if policy is not None), None))
    try:
        players = [
            _player(policy, name, table, seed + place)
            for place, (policy, name) in enumerate(zip(loaded, (first, second), strict=True))
        ]
        rewards, ahead = [], []
        for fight in range(fights):
            swapped = fight % 2 == 1
            outcome = play_simultaneously(table, players[::-1] if swapped else players, seed + fight // 2)
            rounds = float(table.info.get("rounds_ahead", 0.0))
            rewards.append(outcome.rewards[int(swapped)])
            ahead.append(-rounds if swapped else rounds)
    finally:
        table.close()
    tally = WinTally(
        sum(one > 0 for one in ahead), sum(one == 0 for one in ahead), sum(one < 0 for one in ahead)
    )
    return DuelResult(first, second, tally, tuple(rewards))


def _table(policy: LoadedPolicy | None) -> DuelTable:
    env = None if policy is None or policy.config is None else policy.config.env
    if env is None or not env.id.startswith(DIAMBRA):
        raise UserError(
            "a duel needs a run on a DIAMBRA game, whose settings both play with",
            fix="name one, as in: ludus diambra duel latest brawler",
        )
    kwargs = dict(env.kwargs)
    kwargs.pop("characters", None)  # each seat draws its own
    return DuelTable(env.id.removeprefix(DIAMBRA), **kwargs)


def _player(policy: LoadedPolicy | None, name: str, table: DuelTable, seed: int) -> Any:
    if policy is None:
        return make_bot(name, table.observation_space, table.action_space, seed)
    require_spaces(policy, table.observation_space, table.action_space)
    return policy
