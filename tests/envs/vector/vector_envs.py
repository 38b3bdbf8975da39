"""Small envs for the vector tests: workers import this module, so it needs nothing but gymnasium."""

from __future__ import annotations

import copy
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.errors import MissingExtra


class Counting(gym.Env):
    """Counts to `length`; obs is (count, seeded noise); a mask forbids the action that equals count % 3."""

    observation_space: spaces.Space = spaces.Box(-10.0, 100.0, (2,), np.float32)
    action_space: spaces.Space = spaces.Discrete(3)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(self, length: int = 5, *, masks: bool = False, infos: bool = True) -> None:
        self.length = length
        self.masks = masks
        self.infos = infos
        self.count = 0
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.count = (options or {}).get("start", 0)
        return self._obs(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.last_action = action
        ended = self.count == self.length
        return self._obs(), self.count + 0.5, ended, self.count == 100, self._info()

    def render(self) -> Any:
        return np.full((2, 2, 3), self.count, np.uint8)

    def _obs(self) -> Any:
        return np.array([self.count, self.np_random.normal()], np.float32)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"count": self.count, "name": f"n{self.count}"} if self.infos else {}
        if self.masks:
            info["action_mask"] = np.arange(3) != self.count % 3
        return info


class DictObs(Counting):
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (2, 3), np.uint8),
            "place": spaces.Discrete(1000),
            "xy": Counting.observation_space,
        }
    )

    def _obs(self) -> Any:
        return {
            "image": self.np_random.integers(0, 255, (2, 3)).astype(np.uint8),
            "place": self.count,
            "xy": super()._obs(),
        }


class AnySpace(Counting):
    """Observes and acts in `space`; every observation is drawn from it."""

    def __init__(self, space: spaces.Space, length: int) -> None:
        super().__init__(length)
        self.observation_space, self.action_space = copy.deepcopy(space), copy.deepcopy(space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if seed is not None:
            self.observation_space.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space, action
        return super().step(action)

    def _obs(self) -> Any:
        return self.observation_space.sample()


class MultiChoice(Counting):
    """Takes MultiDiscrete actions, and writes over the action and the observation it has handed out."""

    action_space = spaces.MultiDiscrete([3, 2])
    observation_space = spaces.Box(-1000.0, 1000.0, (4,), np.float64)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.buffer = np.zeros(4)
        self.seen = np.zeros(2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seen = action.copy()
        action[:] = -1
        return super().step(action)

    def _obs(self) -> Any:
        self.buffer[:] = [self.count, self.np_random.normal(), *self.seen]
        return self.buffer


class Stateful(gym.Wrapper):
    def __init__(self, env: gym.Env, level: int = 0) -> None:
        super().__init__(env)
        self.level = level

    def step(self, action: Any) -> Any:
        self.level += 1
        return self.env.step(action)

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level = state["level"]


class Raises(Counting):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        if where == "constructor":
            raise RuntimeError("no engine")

    def reset(self, **kwargs: Any) -> Any:
        if self.where == "reset":
            raise RuntimeError("no board")
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        if self.where == "step" and self.count == 2:
            return _deep_in_the_engine()
        return super().step(action)


def _deep_in_the_engine() -> Any:
    raise ZeroDivisionError("the ball is everywhere")


class Calamity(Counting):
    """Does something terrible in the third step, if `flag` (a file) does not exist yet."""

    def __init__(self, what: str, flag: str | None = None, when: int = 2) -> None:
        super().__init__(length=50)
        self.what = what
        self.flag = flag
        self.when = when

    def reset(self, **kwargs: Any) -> Any:
        if self.what == "die in reset":
            self._strike()
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        if self.count == self.when:
            self._strike()
        return super().step(action)

    def close(self) -> None:
        if self.what == "hang in close":
            time.sleep(600)

    def _strike(self) -> None:
        if self.flag is not None:
            if Path(self.flag).exists():
                return
            Path(self.flag).touch()
        if self.what == "hang":
            time.sleep(600)
        elif self.what == "exit":
            os._exit(7)
        elif self.what.startswith("die"):
            os.kill(os.getpid(), signal.SIGKILL)


def needs_extra() -> gym.Env:
    raise MissingExtra("Pong", "atari")
