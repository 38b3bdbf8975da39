"""Two policies at one DIAMBRA game: runs or bots, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.envs.diambra.bots import BOTS, make_bot
from ludus.envs.diambra.duel import Table
from ludus.envs.diambra.games import DIAMBRA
from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy, load
from ludus.types import Array


@dataclass(frozen=True)
class DuelResult:
    """How the first of two fared."""

    first: str
    second: str
    rewards: tuple[float, ...]
    won: int

    @property
    def lost(self) -> int:
        return len(self.rewards) - self.won

    @property
    def mean_reward(self) -> float:
        return float(np.mean(self.rewards))

    def summary(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "first": self.first,
            "second": self.second,
            "fights": len(self.rewards),
            "won": self.won,
            "mean_reward": self.mean_reward,
        }


def fight_duels(
    first: str, second: str, *, fights: int, seed: int = 0, root: str | Path = "runs"
) -> DuelResult:
    """Seat the policies called `first` and `second` for so many games, from consecutive seeds.

    The game and its settings are those of the first that is a run; UserError when neither is, or when the other
    was trained on other observations.
    """
    loaded = [None if name in BOTS else load(name, root) for name in (first, second)]
    table = _table(next((policy for policy in loaded if policy is not None), None))
    try:
        seats = [
            _seat(policy, name, table, seed + place)
            for place, (policy, name) in enumerate(zip(loaded, (first, second), strict=True))
        ]
        rewards, won = [], 0
        for fight in range(fights):
            reward, won_it = _fight(table, seats, seed + fight)
            rewards.append(reward)
            won += won_it
    finally:
        table.close()
    return DuelResult(first, second, tuple(rewards), won)


def _table(policy: LoadedPolicy | None) -> Table:
    env = None if policy is None or policy.config is None else policy.config.env
    if env is None or not env.id.startswith(DIAMBRA):
        raise UserError(
            "a duel needs a run on a DIAMBRA game, whose settings both play with",
            fix="name one, as in: ludus diambra duel latest brawler",
        )
    kwargs = dict(env.kwargs)
    kwargs.pop("characters", None)  # each seat draws its own
    return Table(env.id.removeprefix(DIAMBRA), **kwargs)


def _seat(policy: LoadedPolicy | None, name: str, table: Table, seed: int) -> Any:
    if policy is None:
        return make_bot(name, table.observation_space, table.action_space, seed)
    if (
        policy.actor.observation_space != table.observation_space
        or policy.actor.action_space != table.action_space
    ):
        raise UserError(
            f"'{name}' was trained with other observations or actions than the other seat's",
            where=f"it observes {policy.actor.observation_space}",
            fix="seat two runs with the same settings, or a bot",
        )
    return policy


def _fight(table: Table, seats: list[Any], seed: int) -> tuple[float, bool]:
    """One game: the first seat's reward in all, and whether it won."""
    views, _ = table.reset(seed=seed)
    total = 0.0
    while True:
        actions: list[Array] = [seat.predict(view) for seat, view in zip(seats, views, strict=True)]
        views, reward, terminated, truncated, info = table.step(actions)
        total += reward
        if terminated or truncated:
            return total, bool(info.get("is_success"))
