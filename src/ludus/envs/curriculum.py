"""Curriculum: a difficulty that rises as the agent succeeds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import gymnasium as gym

from ludus.envs.wrappers import Env, EnvironmentWrapper, StepResult
from ludus.errors import NONE, ConfigError, require_types


class Curriculum:
    """A difficulty number that rises by `increment` when enough recent episodes succeeded.

    When the success rate over the last `window` episodes is at least `success_threshold`, the difficulty rises
    (to `maximum` at most) and a new window begins.
    """

    def __init__(
        self,
        initial: float = 0.0,
        increment: float = 1.0,
        maximum: float | None = None,
        success_threshold: float = 0.8,
        window: int = 20,
        success: float | None = None,
    ) -> None:
        """`success` is the return that counts as success, where an env does not report it."""
        require_types(
            type(self).__name__,
            initial=(initial, (Real,)),
            increment=(increment, (Real,)),
            maximum=(maximum, (Real, NONE)),
            success_threshold=(success_threshold, (Real,)),
            window=(window, (Integral,)),
            success=(success, (Real, NONE)),
        )
        if increment <= 0:
            raise ConfigError(f"increment must be above 0, not {increment}", where="curriculum.increment")
        if window < 1:
            raise ConfigError(f"window must be 1 or more, not {window}", where="curriculum.window")
        if not 0 < success_threshold <= 1:
            raise ConfigError(
                f"success_threshold must be in (0, 1], not {success_threshold}",
                where="curriculum.success_threshold",
            )
        if maximum is not None and maximum < initial:
            raise ConfigError(f"maximum {maximum} is below initial {initial}", where="curriculum.maximum")
        self.difficulty = initial
        self.increment = increment
        self.maximum = maximum
        self.success_threshold = success_threshold
        self.success = success
        self._outcomes: deque[bool] = deque(maxlen=window)

    def record(self, succeeded: bool) -> None:
        """Count an episode that ended."""
        self._outcomes.append(succeeded)
        full = len(self._outcomes) == self._outcomes.maxlen
        if full and sum(self._outcomes) / len(self._outcomes) >= self.success_threshold:
            raised = self.difficulty + self.increment
            self.difficulty = raised if self.maximum is None else min(raised, self.maximum)
            self._outcomes.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save with a checkpoint, as JSON data."""
        return {"difficulty": self.difficulty, "outcomes": list(self._outcomes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`; it applies from the next reset."""
        self.difficulty = float(state["difficulty"])
        self._outcomes.clear()
        self._outcomes.extend(bool(outcome) for outcome in state["outcomes"])


class CurriculumWrapper(Curriculum, EnvironmentWrapper):
    """Raises the difficulty of an env as a `Curriculum` does; a new difficulty holds from the next reset.

    An episode succeeded when its last info has a true `is_success`; without that key, when its raw return is
    at least `success`. With neither, the first episode end raises ConfigError.

    The difficulty reaches the env by `set_difficulty(d)` of the bare env, else by its attribute `difficulty`,
    else by `reset(options={"difficulty": d})`. It is reported as `info["difficulty"]` at reset and at the end
    of an episode.
    """

    def __init__(
        self,
        env: Env,
        initial: float = 0.0,
        increment: float = 1.0,
        maximum: float | None = None,
        success_threshold: float = 0.8,
        window: int = 20,
        success: float | None = None,
    ) -> None:
        EnvironmentWrapper.__init__(self, env)
        Curriculum.__init__(self, initial, increment, maximum, success_threshold, window, success)
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        bare = self.env.unwrapped
        if callable(getattr(bare, "set_difficulty", None)):
            bare.set_difficulty(self.difficulty)  # type: ignore[attr-defined]
        elif hasattr(bare, "difficulty"):
            bare.difficulty = self.difficulty
        else:
            options = {**(options or {}), "difficulty": self.difficulty}
        obs, info = self.env.reset(seed=seed, options=options)
        self._return = 0.0
        return obs, {**info, "difficulty": self.difficulty}

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        if (terminated or truncated) and not info.get("life_lost"):
            info = {**info, "difficulty": self.difficulty}
            self.record(self._succeeded(info))
        return obs, reward, terminated, truncated, info

    def _succeeded(self, info: Mapping[str, Any]) -> bool:
        if "is_success" in info:
            return bool(info["is_success"])
        if self.success is None:
            raise ConfigError(
                "the curriculum does not know whether an episode succeeded",
                where="curriculum.success",
                fix="give a return that counts as success (curriculum: {success: 200}), "
                'or put info["is_success"] into the env\'s last step',
            )
        # the raw return if it was recorded: an inner wrapper may have scaled the rewards
        episode = info.get("episode")
        return float(episode["r"] if episode else self._return) >= self.success


def add_curriculum(env: Env, settings: Mapping[str, Any]) -> Env:
    """Return `env` with a curriculum of these settings, unless it already has one."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, CurriculumWrapper):
            return env
        layer = layer.env
    return CurriculumWrapper(env, **settings)
