"""A duel as a game with seats, on a fake engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ludus.games.diambra import duel
from ludus.games.diambra.settings import settings_for
from ludus.league.match import play_simultaneously

SEATS = ("agent_0", "agent_1")


class ThreeStepEnv:
    """Observations are the seat and the step; the first seat gets a point if its action is greater."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    render_mode = None

    def __init__(self, game_id: str, **kwargs: Any) -> None:
        settings = settings_for(game_id, {})
        self.settings = SimpleNamespace(wrappers_settings=settings.wrappers_settings)
        seen = {f"{seat}_{key}": gym.spaces.Discrete(9) for seat in SEATS for key in ("own_wins", "opp_wins")}
        self.observation_space = gym.spaces.Dict({"timer": gym.spaces.Discrete(9), **seen})
        self.action_space = gym.spaces.Dict(dict.fromkeys(SEATS, gym.spaces.Discrete(3)))

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.wins, self.steps = [0, 0], 0
        return self._obs(), {}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        first, second = (actions[seat] for seat in SEATS)
        self.wins[int(second > first)] += first != second
        self.steps += 1
        return self._obs(), float(first - second), self.steps == 3, False, {}

    def _obs(self) -> dict[str, Any]:
        own, other = (np.array([count]) for count in self.wins)
        return {
            "timer": np.array([self.steps]),
            "agent_0_own_wins": own,
            "agent_0_opp_wins": other,
            "agent_1_own_wins": other,
            "agent_1_opp_wins": own,
        }


class Always:
    def __init__(self, action: int) -> None:
        self.action = action
        self.seen: list[tuple[int, int]] = []

    def predict(self, obs: Any) -> int:
        self.seen.append((int(obs["own_wins"][0]), int(obs["opp_wins"][0])))
        return self.action


def test_each_seat_sees_its_own_side_and_rewards_are_opposite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duel, "DiambraEnv", ThreeStepEnv)
    table = duel.DuelTable("sfiii3n")
    first, second = Always(0), Always(2)
    outcome = play_simultaneously(table, [first, second], seed=1)
    assert outcome.rewards == (-6.0, 6.0) and not outcome.cut_off
    assert table.info == {"rounds_ahead": -3.0, "is_success": False}
    assert first.seen == [(0, 0), (0, 1), (0, 2)] and second.seen == [(0, 0), (1, 0), (2, 0)]
    table.reset(seed=2)
    assert not table.over and table.reward == 0.0 and len(table.observations()) == table.n_seats
