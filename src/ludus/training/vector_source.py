"""A vector env of the user as the source of a trainer's envs: it is stepped as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from ludus.config.schema import TrainerConfig
from ludus.envs.vector.contract import MakesSingleEnv
from ludus.errors import ConfigError, UserError
from ludus.evaluation.evaluate import default_step_limit
from ludus.rollout.stepper import read_masks
from ludus.training.env_source import Env, EnvSource


class VectorSource(EnvSource):
    """Trains on the envs of a `gymnasium.vector.VectorEnv`; evaluates on one more, where it can be made."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], config: TrainerConfig) -> None:
        if config.curriculum is not None:
            raise ConfigError(
                "a curriculum cannot reach the envs inside a vector env",
                key="curriculum",
                fix="wrap each env in a CurriculumWrapper, or give a function that returns one env",
            )
        if "n_envs" in config.model_fields_set and config.n_envs != envs.num_envs:
            raise ConfigError(
                f"n_envs is {config.n_envs}; the vector env that was given has {envs.num_envs}",
                key="n_envs",
                fix="leave n_envs out",
            )
        super().__init__(_not_built, config)
        self._envs = envs
        self._single = _single_factory(envs)
        spec = getattr(envs, "spec", None)
        self.env_id = type(envs.unwrapped).__name__ if spec is None else str(spec.id)
        self.n_envs = envs.num_envs
        self.rebuild = False
        self.makes_single = self._single is not None

    @property
    def is_bound_here(self) -> bool:
        return True

    @property
    def may_never_end(self) -> bool:
        if self._single is None:
            return False
        env = self.make_single()
        try:
            return default_step_limit(env) is not None
        finally:
            env.close()

    def choose_backend(self, asked: str) -> tuple[str, str]:
        return "serial", "a vector env, stepped as it is"

    def make_vector(self, backend: str, n_envs: int | None = None) -> VectorEnv[Any, Any, Any]:
        return self._envs

    def has_masks(self) -> bool:
        return read_masks(*self._envs.reset()) is not None

    def for_evaluation(self) -> Callable[[], Env]:
        return self.make_single

    def make_single(self, render_mode: str | None = None) -> Env:
        if self._single is None:
            raise UserError(
                f"no single env can be made from this {type(self._envs).__name__}",
                where="create_trainer(env, …)",
                fix="to evaluate or record videos, give a function that returns one env, and n_envs",
            )
        return self._single()


def _single_factory(envs: VectorEnv[Any, Any, Any]) -> Callable[[], Env] | None:
    """Return what makes one env like those of `envs`, if that can be said."""
    if isinstance(envs, MakesSingleEnv):
        return envs.single_factory()
    if isinstance(envs, SyncVectorEnv | AsyncVectorEnv):
        return next(iter(envs.env_fns))
    spec = getattr(envs, "spec", None)
    if spec is None:
        return None
    make = partial(gym.make, spec.id)
    one = make()
    alike = one.observation_space == envs.single_observation_space
    one.close()
    return make if alike else None


def _not_built() -> gym.Env[Any, Any]:
    raise AssertionError("the envs of a vector env are not built one by one")
