"""An env whose simulator is a file: while the file is there it answers. Workers import this module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.errors import SimulatorLost


class Simulated(gym.Env):
    """Observes how often it was stepped. Without its file it raises SimulatorLost; with the word `wrong` ValueError."""

    observation_space: spaces.Space = spaces.Box(0.0, 1000.0, (1,), np.float32)
    action_space: spaces.Space = spaces.Discrete(2)

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.count = 0
        self._ask()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self._ask()
        self.count = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._ask()
        self.count += 1
        return self._obs(), 1.0, False, False, {}

    def _obs(self) -> Any:
        return np.array([self.count], dtype=np.float32)

    def _ask(self) -> None:
        if not self.path.exists():
            raise SimulatorLost(f"{self.path.name} is gone", where=str(self.path), fix="put it back")
        if self.path.read_text() == "wrong":
            raise ValueError("a fault of the env itself")
