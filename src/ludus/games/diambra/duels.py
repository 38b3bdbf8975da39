"""Fights between two policies, runs or bots, at one DIAMBRA game."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy, load
from ludus.games.diambra.bots import BOTS, make_bot
from ludus.games.diambra.duel import DuelTable
from ludus.games.diambra.opponents import require_spaces
from ludus.games.diambra.plugin import DIAMBRA
from ludus.league.match import WinTally, play_simultaneously


@dataclass(frozen=True)
class DuelResult:
    """Results of the first of two policies."""

    first: str
    second: str
    tally: WinTally
    rewards: tuple[float, ...]
    """Of the first policy, by fight."""

    @property
    def mean_reward(self) -> float:
        return float(np.mean(self.rewards))

    def summary(self) -> dict[str, Any]:
        """Return the result as data for `--json`."""
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
    """Let the policies `first` and `second` play `fights` games. Each seed, from `seed` up, is played from both seats.

    The game and its settings are those of the first policy that is a run. UserError if neither is a run, or if the
    other was trained with other observations.
    """
    loaded = [None if name in BOTS else load(name, root) for name in (first, second)]
    table = _table(next((policy for policy in loaded if policy is not None), None))
    try:
        players = [
            _player(policy, name, table, seed + seat)
            for seat, (policy, name) in enumerate(zip(loaded, (first, second), strict=True))
        ]
        rewards, leads = [], []
        for fight in range(fights):
            swapped = fight % 2 == 1
            outcome = play_simultaneously(table, players[::-1] if swapped else players, seed + fight // 2)
            rounds = float(table.info.get("rounds_ahead", 0.0))
            rewards.append(outcome.rewards[int(swapped)])
            leads.append(-rounds if swapped else rounds)
    finally:
        table.close()
    tally = WinTally(
        sum(lead > 0 for lead in leads), sum(lead == 0 for lead in leads), sum(lead < 0 for lead in leads)
    )
    return DuelResult(first, second, tally, tuple(rewards))


def _table(policy: LoadedPolicy | None) -> DuelTable:
    env = None if policy is None or policy.config is None else policy.config.env
    if env is None or not env.id.startswith(DIAMBRA):
        raise UserError(
            "a duel needs a run that was trained on a DIAMBRA game",
            fix="name a run, for example: ludus diambra duel latest brawler",
        )
    assert policy is not None
    kwargs = dict(policy.configured_env().kwargs)
    kwargs.pop("characters", None)  # each seat draws its own
    return DuelTable(env.id.removeprefix(DIAMBRA), **kwargs)


def _player(policy: LoadedPolicy | None, name: str, table: DuelTable, seed: int) -> Any:
    if policy is None:
        return make_bot(name, table.observation_space, table.action_space, seed)
    require_spaces(policy, table.observation_space, table.action_space)
    return policy
