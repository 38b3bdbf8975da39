"""Functions to create and wrap one Balatro env: `create_balatro_env`, `wrap_balatro_env`, `BalatroGymWrapper`."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import gymnasium as gym

from ludus.envs.curriculum import CurriculumWrapper
from ludus.envs.registration import register_envs
from ludus.envs.wrappers import Env, EnvironmentWrapper, StepResult
from ludus.errors import NONE, UnknownName, UserError, require_types
from ludus.games.balatro.metrics import BalatroMetrics
from ludus.games.balatro.vector import ENV_ID

# a key of `curriculum_config` -> the argument of CurriculumWrapper
_CURRICULUM_KEYS = {
    "initial_max_ante": "initial",
    "ante_increment": "increment",
    "max_ante": "maximum",
    "success_threshold": "success_threshold",
    "window": "window",
}


def create_balatro_env(seed: int | str | None = None, **kwargs: Any) -> Env:
    """Return one Balatro env, already reset with `seed`; `kwargs` are those of `BalatroEnv`.

    A text is a seed of the real game, such as "7I4M53DL". The observation is the Dict, which the feature extractor
    `balatro` reads; `observation="flat"` gives one vector.
    """
    require_types(
        "create_balatro_env",
        seed=(seed, (Integral, str, NONE)),
        render_mode=(kwargs.get("render_mode"), (str, NONE)),
    )
    if isinstance(seed, int) and seed < 0:
        raise UserError(
            f"seed must be 0 or more, not {seed}", where="create_balatro_env", fix="give 0 or more"
        )
    register_envs()
    env = gym.make(ENV_ID, disable_env_checker=True, **{"observation": "dict", **kwargs})
    if isinstance(seed, str):
        env.reset(options={"seed": seed})
    else:
        env.reset(seed=seed)
    return env


class BalatroGymWrapper(EnvironmentWrapper):
    """Collects `BalatroMetrics` of the episodes played through it, in `metrics`."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.metrics = BalatroMetrics()
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        if (terminated or truncated) and "balatro" in info:
            self.metrics.add_report(info["balatro"], self._return)
        return obs, reward, terminated, truncated, info


def wrap_balatro_env(
    env: Env, use_curriculum: bool = False, curriculum_config: Mapping[str, Any] | None = None
) -> Env:
    """Return the env with metrics and, if `use_curriculum`, a curriculum over the last ante, counted in episodes.

    `curriculum_config` has `initial_max_ante` (1), `ante_increment` (1), `max_ante` (8), `success_threshold` (0.8) and
    `window` (20). UnknownName for another key.
    """
    require_types("wrap_balatro_env", curriculum_config=(curriculum_config, (Mapping, NONE)))
    env = BalatroGymWrapper(env)
    if not use_curriculum:
        return env
    arguments: dict[str, Any] = {"initial": 1, "maximum": 8}
    for key, value in (curriculum_config or {}).items():
        if key not in _CURRICULUM_KEYS:
            raise UnknownName("curriculum key", key, _CURRICULUM_KEYS, where="curriculum_config")
        arguments[_CURRICULUM_KEYS[key]] = value
    return CurriculumWrapper(env, **arguments)
