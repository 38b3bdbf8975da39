"""Small envs whose every observation, reward, mask and end is known in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ludus.envs.vector.serial import SerialVectorEnv

N_ACTIONS = 4
Ending = tuple[int, str]
"""The length of an episode in steps, and its end: terminated, truncated or both."""


class Scripted(gym.Env[Any, Any]):
    """Plays the episodes of `script` over and over.

    An observation is (who, number of the episode, steps in it). A step's reward is 100 per episode before, 1 per
    step, and a tenth of the action. With `masks` ("info" or "obs") one action is illegal, and refused.
    """

    action_space: Any = spaces.Discrete(N_ACTIONS)

    def __init__(self, script: Sequence[Ending], who: int = 0, masks: str | None = None) -> None:
        self.script = script
        self.who = who
        self.masks = masks
        self.episode, self.count = -1, 0
        self.seeds: list[int | None] = []
        self.observation_space = spaces.Box(-1e3, 1e3, (3,), np.float32)
        if masks == "obs":
            self.observation_space = spaces.Dict(
                {"state": self.observation_space, "action_mask": spaces.MultiBinary(N_ACTIONS)}
            )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.count = (0 if seed is not None else self.episode + 1), 0
        return self._obs(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        assert self.masks is None or self._legal()[int(action)], "an illegal action was played"
        self.count += 1
        length, how = self.script[self.episode % len(self.script)]
        ended = self.count == length
        reward = 100.0 * self.episode + self.count + 0.1 * float(action)
        return (
            self._obs(),
            reward,
            ended and how in ("terminated", "both"),
            ended and how in ("truncated", "both"),
            self._info(),
        )

    def _legal(self) -> Any:
        return np.arange(N_ACTIONS) != (self.count + 2 * self.episode) % N_ACTIONS

    def _obs(self) -> Any:
        state = np.array([self.who, self.episode, self.count], dtype=np.float32)
        return (
            {"state": state, "action_mask": self._legal().astype(np.int8)} if self.masks == "obs" else state
        )

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._legal()} if self.masks == "info" else {}


SCRIPTS: list[list[Ending]] = [
    [(3, "terminated"), (2, "truncated"), (4, "both")],
    [(1, "truncated"), (5, "terminated")],
    [(2, "truncated"), (2, "truncated"), (7, "terminated")],
]


def scripted(masks: str | None = None) -> list[Callable[[], Scripted]]:
    return [lambda s=script, i=i: Scripted(s, i, masks) for i, script in enumerate(SCRIPTS)]


def make_vector_env(kind: str, env_fns: Sequence[Callable[[], Any]]) -> VectorEnv[Any, Any, Any]:
    if kind == "serial":
        return SerialVectorEnv(env_fns)
    return SyncVectorEnv(env_fns, autoreset_mode=AutoresetMode[kind])


KINDS = ["serial", "SAME_STEP", "NEXT_STEP", "DISABLED"]


class Dropping(SyncVectorEnv):
    """Loses the episodes of some envs in some steps, and says so as the process backend does."""

    def __init__(self, env_fns: Sequence[Callable[[], Any]], losses: dict[int, list[int]]) -> None:
        super().__init__(env_fns, autoreset_mode=AutoresetMode.SAME_STEP)
        self._losses = losses
        self._step = 0

    def step(self, actions: Any) -> Any:
        obs, rewards, terminated, truncated, infos = super().step(actions)
        lost = self._losses.get(self._step, [])
        self._step += 1
        for i in lost:
            obs[i], _ = self.envs[i].reset()
            rewards[i], terminated[i], truncated[i] = 0.0, False, False
        if lost:
            infos["dropped"] = np.isin(np.arange(self.num_envs), lost)
        return obs, rewards, terminated, truncated, infos
