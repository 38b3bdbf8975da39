"""Small envs with what the exact-resume promise has to cope with: masks, Dicts, pictures, levels, faults."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Walk(gym.Env[Any, Any]):
    """Go right for ten steps out of at most twenty; which way is right is drawn at reset and observed."""

    action_space: spaces.Space[Any] = spaces.Discrete(3)
    observation_space: spaces.Space[Any] = spaces.Box(-20, 20, (2,), np.float32)
    difficulty = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.direction = int(self.np_random.integers(2)) * 2 - 1
        self.position, self.moves = 0, 0
        return self.see(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before = self.position * self.direction
        self.position += int(action) - 1
        self.moves += 1
        goal = 10 - 2 * min(self.difficulty, 2)
        arrived = abs(self.position) >= goal
        info = self.info()
        if arrived or self.moves >= 20:
            info["is_success"] = arrived and self.position * self.direction > 0
        reward = float(self.position * self.direction - before)
        return self.see(), reward, arrived, self.moves >= 20 and not arrived, info

    def see(self) -> Any:
        return np.array([self.position, self.direction], np.float32)

    def info(self) -> dict[str, Any]:
        return {}


class MaskedWalk(Walk):
    """Standing still is never legal."""

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, 0, 1], np.int8)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert int(action) != 1, "an illegal action was played"
        return super().step(action)


class DictWalk(Walk):
    """The same, in two parts, one of them a number from a list."""

    observation_space = spaces.Dict(
        {"position": spaces.Box(-20, 20, (1,), np.float32), "direction": spaces.Discrete(2)}
    )

    def see(self) -> Any:
        return {"position": np.array([self.position], np.float32), "direction": (self.direction + 1) // 2}


class SwitchWalk(Walk):
    """Two switches, left and right, instead of three choices."""

    action_space = spaces.MultiBinary(2)

    def step(self, action: Any) -> Any:
        return super().step(1 + int(action[1]) - int(action[0]))


class PictureWalk(Walk):
    """The same, as a picture of 36 by 36 pixels."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def see(self) -> Any:
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[:, np.clip(self.position + 18, 0, 35)] = 255
        picture[:3] = 100 + 50 * self.direction
        return picture


class FaultyWalk(Walk):
    """Raises in the step whose number, counted over the env's life, is `fails_at`."""

    def __init__(self, fails_at: int = 0, fails_in: str = "step") -> None:
        self.fails_at, self.fails_in, self.count = fails_at, fails_in, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if self.fails_in == "reset" and 0 < self.fails_at <= self.count:
            raise RuntimeError("the door is locked")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        if self.fails_in == "step" and self.count == self.fails_at:
            raise RuntimeError("the floor gave way")
        return super().step(action)


for _walk in (Walk, MaskedWalk, DictWalk, SwitchWalk, PictureWalk, FaultyWalk):
    if f"{_walk.__name__}-v0" not in gym.registry:  # a worker process may know them before it imports this
        gym.register(f"{_walk.__name__}-v0", entry_point=f"odd_envs:{_walk.__name__}")
