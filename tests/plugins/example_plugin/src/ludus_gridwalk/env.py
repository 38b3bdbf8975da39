"""The game as one Gymnasium env."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

SIZE = 6
MAX_STEPS = 30
MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
OBSERVATION = gym.spaces.Dict(
    {
        "walker": gym.spaces.Box(0.0, 1.0, (2,), np.float32),
        "goal": gym.spaces.Box(0.0, 1.0, (2,), np.float32),
    }
)


def report(detour: int, reached: bool) -> dict[str, Any]:
    """Return what an episode says of itself in `info["episode_report"]`; `kind` names its summary class."""
    return {"kind": "gridwalk", "detour": detour, "reached": reached}


class GridWalkEnv(gym.Env[dict[str, np.ndarray], int]):
    """Reward 1 at the goal, -0.01 for every other step. Truncated after 30 steps."""

    observation_space = OBSERVATION
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        cells = self.np_random.choice(SIZE * SIZE, 2, replace=False)
        self.walker, self.goal = (np.array(divmod(int(cell), SIZE)) for cell in cells)
        self.shortest = int(np.abs(self.walker - self.goal).sum())
        self.steps = 0
        return self._observation(), {}

    def step(self, action: int) -> Any:
        self.walker = np.clip(self.walker + MOVES[action], 0, SIZE - 1)
        self.steps += 1
        reached = bool((self.walker == self.goal).all())
        truncated = not reached and self.steps >= MAX_STEPS
        info: dict[str, Any] = {}
        if reached or truncated:
            info = {"is_success": reached, "episode_report": report(self.steps - self.shortest, reached)}
        return self._observation(), 1.0 if reached else -0.01, reached, truncated, info

    def _observation(self) -> dict[str, np.ndarray]:
        scale = np.float32(SIZE - 1)
        return {"walker": np.float32(self.walker) / scale, "goal": np.float32(self.goal) / scale}
