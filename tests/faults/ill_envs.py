"""Envs whose process does not fare well: each is well for a while, and then does what its `ill` says, once.

Workers import this module, so it needs nothing but gymnasium.
"""

from __future__ import annotations

import os
import resource
import stat
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

AN_HOUR = 3600.0


class Counted(gym.Env[Any, Any]):
    """Counts its steps in an episode of 37: the observation is (steps, who it is), the reward the steps so far."""

    observation_space = spaces.Box(0.0, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, name: int = 0) -> None:
        self.name, self.steps = name, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._see(), float(self.steps), self.steps == 37, False, {}

    def _see(self) -> Any:
        return np.array([self.steps, self.name], np.float32)


class Ill(Counted):
    """Falls ill at its step number `at`, unless the file `flag` says that it was before."""

    def __init__(self, ill: str, flag: str, at: int = 150) -> None:
        super().__init__(1)
        self.ill, self.flag, self.at, self.life = ill, Path(flag), at, 0

    def reset(self, **kwargs: Any) -> tuple[Any, Any]:
        if self.life >= self.at and self._first("sleep in reset"):
            time.sleep(AN_HOUR)
        return super().reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.life += 1
        if self.life >= self.at:
            self._fall_ill()
        return super().step(action)

    def close(self) -> None:
        if self.ill == "sleep in close":
            time.sleep(AN_HOUR)

    def _first(self, ill: str) -> bool:
        """Return True the first time that the configured fault `ill` is due."""
        if ill != self.ill or self.flag.exists():
            return False
        self.flag.touch()
        return True

    def _fall_ill(self) -> None:
        if self._first("sleep in step"):
            time.sleep(AN_HOUR)
        elif self._first("raise"):
            raise RuntimeError("the board is gone")
        elif self._first("exit"):
            os._exit(7)
        elif self._first("crash"):
            os.kill(os.getpid(), 11)
        elif self._first("leak"):
            _leak()
        elif self._first("babble"):
            _babble()
        elif self._first("write to sockets"):
            _write_to_sockets()


def _leak() -> None:
    """Holds more and more, until there is no more to be had: a gigabyte on top of what the process has."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (has + (1 << 28), has + (1 << 28)))
    kept = []
    while True:
        kept.append(np.empty(1 << 22))  # never touched: what counts is what it holds


def _babble() -> None:
    """Prints what is no text, and plenty of it."""
    os.write(1, b"\x1b[2J\xff\xfe\x00{]}" * 2_000)
    os.write(2, b"\x00\xffnonsense\n" * 2_000)
    print("\x07\u202e and text", file=sys.stderr)


def _write_to_sockets() -> None:
    """Writes into every socket it has, the one to the driver included."""
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
