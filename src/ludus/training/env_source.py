"""The source of a trainer's envs: the config, an id, a function, or an env object of the user."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec

from ludus.config.schema import CurriculumConfig, EnvConfig, TrainerConfig
from ludus.envs.make import EnvSpec, choose_backend, make_vectorized_env
from ludus.envs.masks import ActionMaskWrapper, declares_masks, has_masks
from ludus.envs.support import EnvSupport
from ludus.envs.vector import make_vector
from ludus.errors import UserError

Env = gym.Env[Any, Any]


class EnvSource:
    """Builds the training envs and the separate ones for evaluation and video.

    `n_envs` is how many there will be: 1 for an env object. `reports_episodes` and `rebuild` are what the
    stepper needs to know.
    """

    def __init__(self, env: Any, config: TrainerConfig) -> None:
        self._instance: Env | None = None
        self._factory: Callable[[], Env] | None = None
        if isinstance(env, gym.vector.VectorEnv):
            raise UserError(
                "a vector env cannot be given to a trainer",
                where="create_trainer(env, …)",
                fix="give the env's id, or a function that returns one env; n_envs and vector do the rest",
            )
        if env is None or isinstance(env, str | EnvSpec):
            self._factory = _spec(env, config)
        elif isinstance(env, gym.Env):
            self._instance = _masked(env)
        elif callable(env):
            self._factory = _with_masks(env)
        else:
            raise UserError(
                f"{type(env).__name__} is not an env",
                where="create_trainer(env, …)",
                fix="give a gymnasium.Env, an id, or a function that returns one",
            )
        self.env_id = _name(env, config)
        self.n_envs = config.n_envs if self._instance is None else 1
        # an instance is the user's, and a simulator need not take a second connection: a seeded reset must do
        self.rebuild = self._instance is None and not self.support.tied_to_simulator
        self.reports_episodes = isinstance(self._factory, EnvSpec) and self._factory.reports_episodes

    @property
    def spec(self) -> EnvSpec | None:
        """The env as plain data, where it is that."""
        return self._factory if isinstance(self._factory, EnvSpec) else None

    @property
    def support(self) -> EnvSupport:
        """What the plugin that has these envs says of them."""
        return EnvSupport() if self.spec is None else self.spec.support

    @property
    def is_bound_here(self) -> bool:
        """Whether the envs cannot be built elsewhere: an object of the user's, or simulators beside this machine."""
        return self._instance is not None or self.support.tied_to_simulator

    @property
    def registered(self) -> GymSpec | None:
        """How Gymnasium made the env object, if nothing but Gymnasium did."""
        spec = None if self._instance is None else self._instance.spec
        return None if spec is None or spec.additional_wrappers else spec

    def choose_backend(self, asked: str) -> tuple[str, str]:
        """The vector backend to use, and why."""
        if asked != "auto":
            return asked, "as configured"
        if self._instance is not None:
            return "serial", "one env object"
        assert self._factory is not None
        return choose_backend(self._factory, self.n_envs)

    def make_vector(self, backend: str, n_envs: int | None = None) -> gym.vector.VectorEnv[Any, Any, Any]:
        """All training envs, or `n_envs` of them."""
        n_envs = self.n_envs if n_envs is None else n_envs
        if self._instance is not None:
            instance = self._instance
            return make_vector([lambda: instance], backend="serial", env_id=self.env_id)
        assert self._factory is not None
        if self.spec is None and backend in {"serial", "process"}:
            return make_vector([self._factory] * n_envs, backend=backend, env_id=self.env_id)
        return make_vectorized_env(self._factory, n_envs, backend)

    def has_masks(self) -> bool:
        """Whether the envs say which actions are legal. Resets an env object."""
        if self._instance is not None:
            return has_masks(self._instance)
        if self.support.no_spare_simulator:
            return False  # none of these has masks, and asking one would take a simulator
        env = self.make_single()
        try:
            return has_masks(env)
        finally:
            env.close()

    def for_evaluation(self) -> Callable[[], Env]:
        """What builds the envs of evaluations."""
        if not isinstance(self._factory, EnvSpec):
            return self.make_single
        curriculum = self._factory.curriculum
        held = None if curriculum is None else CurriculumConfig(**curriculum).held()
        return replace(self._factory, curriculum=held)

    def make_single(self, render_mode: str | None = None) -> Env:
        """One more env, apart from the training ones. UserError when an env object cannot be copied."""
        if isinstance(self._factory, EnvSpec):
            spec: Any = self.for_evaluation()
            one: Env = replace(spec, render_mode=render_mode or spec.render_mode)()
            return one
        if self._factory is not None:
            return self._factory()
        assert self._instance is not None
        spec = self._instance.spec
        # a wrapper that does not record its arguments (kwargs is None) can only be copied
        if spec is not None and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers):
            options: Any = {"render_mode": render_mode} if render_mode else {}
            return _masked(gym.make(spec, **options))
        try:
            return copy.deepcopy(self._instance)
        except Exception as error:  # deepcopy raises whatever the env's parts raise
            raise UserError(
                f"this env object cannot be copied for evaluation ({error})",
                where="create_trainer(env, …)",
                fix="give a function that returns a new env instead of an env object",
            ) from error


def _spec(env: str | EnvSpec | None, config: TrainerConfig) -> EnvSpec:
    if isinstance(env, EnvSpec):
        return env.resolve()
    section = config.env
    if isinstance(env, str):
        section = section.model_copy(update={"id": env}) if section is not None else EnvConfig(id=env)
    assert section is not None  # the factory refuses a config without an env
    spec = EnvSpec(
        **section.model_dump(), curriculum=config.curriculum.model_dump() if config.curriculum else None
    )
    return spec.support.bind(spec.resolve(), config.save_dir)


def _masked(env: Env) -> Env:
    return ActionMaskWrapper(env) if declares_masks(env) else env


def _with_masks(factory: Callable[[], Env]) -> Callable[[], Env]:
    return lambda: _masked(factory())


def _name(env: Any, config: TrainerConfig) -> str:
    if isinstance(env, str):
        return env
    if isinstance(env, EnvSpec):
        return env.id
    spec = getattr(env, "spec", None)
    if isinstance(env, gym.Env) and spec is not None:
        return str(spec.id)
    if env is None:
        assert config.env is not None
        return config.env.id
    name = type(env.unwrapped).__name__ if isinstance(env, gym.Env) else getattr(env, "__name__", "custom")
    return "custom" if name == "<lambda>" else str(name)
