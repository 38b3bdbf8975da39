from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.atari import ClipRewardToSign, EpisodicLife, FireReset, atari_preset
from ludus.errors import MissingExtra


class ThreeLives(gym.Env[Any, Any]):
    """Three lives; every third step loses one. Action 1 is FIRE, and without it the game does not move."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        self.resets = 0

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE", "RIGHT"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.steps, self.lives, self.fired = 0, 3, False
        return self._obs(), {"lives": 3}

    def step(self, action: int) -> Any:
        self.fired |= action == 1
        self.steps += 1
        self.lives -= self.steps % 3 == 0
        return self._obs(), -7.5, self.lives == 0, False, {"lives": self.lives}

    def _obs(self) -> Any:
        return np.array([self.steps], np.float32)


def test_a_lost_life_ends_the_episode_but_not_the_game() -> None:
    game = ThreeLives()
    env = EpisodicLife(game)
    env.reset(seed=0)
    ends = [env.step(0) for _ in range(3)]
    assert [end[2] for end in ends] == [False, False, True]
    assert ends[-1][4]["life_lost"]
    obs, _ = env.reset()
    assert game.resets == 1
    assert obs.tolist() == [4], "the reset plays one no-op from where the game stands"


def test_the_last_life_ends_the_game() -> None:
    game = ThreeLives()
    env = EpisodicLife(game)
    env.reset(seed=0)
    infos = []
    for _ in range(3):
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(0)
        infos.append(info)
        env.reset()
    assert ["life_lost" in info for info in infos] == [True, True, False]
    assert game.resets == 2


def test_a_seeded_reset_restarts_the_game_in_the_middle_of_a_life() -> None:
    game = ThreeLives()
    env = EpisodicLife(game)
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    obs, info = env.reset(seed=1)
    assert (game.resets, obs.tolist(), info["lives"]) == (2, [0], 3)


def test_fire_is_pressed_after_reset() -> None:
    game = ThreeLives()
    obs, _ = FireReset(game).reset(seed=0)
    assert game.fired
    assert obs.tolist() == [2]


def test_a_game_without_fire_is_left_alone() -> None:
    class NoFire(ThreeLives):
        def get_action_meanings(self) -> list[str]:
            return ["NOOP", "UP", "RIGHT"]

    obs, _ = FireReset(NoFire()).reset(seed=0)
    assert obs.tolist() == [0]


def test_rewards_become_their_sign() -> None:
    env = ClipRewardToSign(ThreeLives())
    env.reset()
    assert env.step(0)[1] == -1.0
    assert [env.reward(r) for r in (0.0, 12.5)] == [0.0, 1.0]


def test_the_preset_names_its_extra_when_opencv_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="atari"):
        atari_preset(ThreeLives())
