"""An env that returns NaN or infinity in one value, from a given step on."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

EPISODE = 10


class Poisoned(gym.Env[Any, Any]):
    """Episodes of ten steps. Of the envs that take turns in one process the second is ill.

    After `at` steps of all of them it gives `value` as its `place`: "observation", "last observation" (of an episode),
    "reset" or "reward".
    """

    steps_of_all: ClassVar[int] = 0

    def __init__(
        self,
        place: str = "",
        value: float = 0.0,
        at: int = 0,
        *,
        continuous: bool = False,
        many: bool = False,
    ) -> None:
        box = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.observation_space: Any = spaces.Dict({"far": box, "near": box}) if many else box
        self.action_space: Any = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self.place, self.value, self.at, self.many = place, value, at, many
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.steps = 0
        return self._see(self._ill("reset")), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Poisoned.steps_of_all += 1
        self.steps += 1
        over = self.steps == EPISODE
        bad = self._ill("observation") or (over and self._ill("last observation"))
        return self._see(bad), self.value if self._ill("reward") else 1.0, False, over, {}

    def _ill(self, place: str) -> bool:
        turn = Poisoned.steps_of_all
        return place == self.place and turn >= self.at and turn % 2 == 0

    def _see(self, bad: bool) -> Any:
        seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        if bad:
            seen[1] = self.value
        return {"far": np.zeros(3, np.float32), "near": seen} if self.many else seen
