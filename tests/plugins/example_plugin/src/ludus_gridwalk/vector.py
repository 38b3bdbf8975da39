"""N games stepped at once with NumPy: what `vector: auto` takes for this env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ludus_gridwalk.env import MAX_STEPS, MOVES, OBSERVATION, SIZE, report


class GridWalkVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` games; an ended episode is followed by a new one in the same step (SAME_STEP)."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = OBSERVATION
        self.single_action_space = gym.spaces.Discrete(4)
        self.observation_space = batch_space(OBSERVATION, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.walker = np.zeros((num_envs, 2), dtype=np.int64)
        self.goal = np.zeros((num_envs, 2), dtype=np.int64)
        self.shortest = np.zeros(num_envs, dtype=np.int64)
        self.steps = np.zeros(num_envs, dtype=np.int64)
        self.generators = [np.random.default_rng() for _ in range(num_envs)]

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Any = None) -> Any:
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + index for index in range(self.num_envs)]
        for index, one in enumerate(seed):
            if one is not None:
                self.generators[index] = np.random.default_rng(one)
            self._start(index)
        return self._observations(), {}

    def step(self, actions: Any) -> Any:
        self.walker = np.clip(self.walker + MOVES[np.asarray(actions)], 0, SIZE - 1)
        self.steps += 1
        terminated = (self.walker == self.goal).all(axis=1)
        truncated = ~terminated & (self.steps >= MAX_STEPS)
        rewards = np.where(terminated, 1.0, -0.01)
        ended = terminated | truncated
        observations = self._observations()
        infos: dict[str, Any] = {}
        if ended.any():
            final, reports = np.full(self.num_envs, None, object), np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                final[i] = {key: value[i].copy() for key, value in observations.items()}
                reports[i] = report(int(self.steps[i] - self.shortest[i]), bool(terminated[i]))
                self._start(int(i))
            final_info = {
                "is_success": terminated,
                "_is_success": ended,
                "episode_report": reports,
                "_episode_report": ended,
            }
            infos = {"final_obs": final, "_final_obs": ended, "final_info": final_info, "_final_info": ended}
            observations = self._observations()
        return observations, rewards, terminated, truncated, infos

    def _start(self, index: int) -> None:
        cells = self.generators[index].choice(SIZE * SIZE, 2, replace=False)
        self.walker[index], self.goal[index] = (divmod(int(cell), SIZE) for cell in cells)
        self.shortest[index] = np.abs(self.walker[index] - self.goal[index]).sum()
        self.steps[index] = 0

    def _observations(self) -> dict[str, np.ndarray]:
        scale = np.float32(SIZE - 1)
        return {"walker": np.float32(self.walker) / scale, "goal": np.float32(self.goal) / scale}
