"""The source of a trainer's envs: the config, an id, a function, or an env object of the user."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec

from ludus.config.schema import CurriculumConfig, EnvConfig, TrainerConfig
from ludus.envs.catalog import find_gym_spec
from ludus.envs.make import EnvSpec, choose_backend, make_vectorized_env
from ludus.envs.masks import ActionMaskWrapper, declares_masks, has_masks
from ludus.envs.support import EnvSupport
from ludus.envs.user_code import build, close_env, faults_of
from ludus.envs.vector import make_vector
from ludus.errors import ConfigError, UserError, describe_error, shortened
from ludus.evaluation.evaluate import default_step_limit
from ludus.plugins import listed

_log = logging.getLogger("ludus.training")
Env = gym.Env[Any, Any]


def open_source(env: Any, config: TrainerConfig) -> EnvSource:
    """Return the source of `env` as `create_trainer` takes it: a vector env, or what makes single ones."""
    known = env is None or isinstance(env, str | EnvSpec | gym.Env | gym.vector.VectorEnv) or callable(env)
    if not known:
        adapted = (adapt(env) for adapt in listed("vector_envs"))
        env = next((envs for envs in adapted if envs is not None), env)
    if isinstance(env, gym.vector.VectorEnv):
        from ludus.training.vector_source import VectorSource

        return VectorSource(env, config)
    return EnvSource(env, config)


class EnvSource:
    """Builds the training envs and the separate ones for evaluation and video.

    `n_envs` is how many there will be. An env object is stepped itself; where `n_envs` was set, copies of it are
    stepped in parallel. `reports_episodes` and `rebuild` are what the stepper needs to know.
    """

    makes_single = True
    """True if `make_single` can make envs apart from the training ones."""

    def __init__(self, env: Any, config: TrainerConfig) -> None:
        self._instance: Env | None = None
        self._copies: list[Env] = []
        self._curriculum = config.curriculum
        self._user_factory: Callable[[], Env] | None = None
        self._factory: Callable[[], Env] | None = None
        self._from_config = env is None or isinstance(env, str)
        if env is None or isinstance(env, str | EnvSpec):
            self._factory = _spec(env, config)
        elif isinstance(env, gym.Env):
            self._instance = env
            self._copies = self._first_copies(config)
        elif callable(env):
            self._user_factory = env
            self._factory = _layered_factory(env, self._training_curriculum)
        else:
            raise UserError(
                f"{type(env).__name__} is not an env",
                where="create_trainer(env, …)",
                fix="give a gymnasium.Env, an id, a function that returns one, or a vector env",
            )
        self.env_id = _name(env, config)
        self.n_envs = config.n_envs if self._instance is None or self._copies else 1
        # an instance is the user's, and a simulator need not take a second connection: a seeded reset must do
        self.rebuild = self._instance is None and not self.support.tied_to_simulator
        self.reports_episodes = isinstance(self._factory, EnvSpec) and self._factory.reports_episodes

    @property
    def spec(self) -> EnvSpec | None:
        """The env as plain data, where it is that."""
        return self._factory if isinstance(self._factory, EnvSpec) else None

    @property
    def support(self) -> EnvSupport:
        """Return what the plugin of these envs supports."""
        return EnvSupport() if self.spec is None else self.spec.support

    @property
    def is_bound_here(self) -> bool:
        """Return True if the envs can only be built in this process: an env object, or envs with running simulators."""
        return self._instance is not None or self.support.tied_to_simulator

    @property
    def registered(self) -> GymSpec | None:
        """Return Gymnasium's spec of the env object, if only Gymnasium made it."""
        spec = None if self._instance is None else self._instance.spec
        return None if spec is None or spec.additional_wrappers else spec

    @property
    def may_never_end(self) -> bool:
        """Return True if the env declares no time limit. False if that is known only once one is built."""
        if self._instance is not None:
            return default_step_limit(self._instance) is not None
        spec = self.spec
        if spec is None or type(spec.support) is not EnvSupport or spec.wrappers:
            return False
        registered = find_gym_spec(spec.id)
        limits = (spec.max_episode_steps, registered.max_episode_steps)
        return limits == (None, None) and "max_num_frames_per_episode" not in registered.kwargs

    def unused_env_keys(self) -> dict[str, str]:
        """Return the keys of the section `env` that are not used for this env, each with the reason."""
        if self._from_config:
            return {}
        reason = "the env given to the trainer is used as it is"
        return {f"env.{name}": reason for name in EnvConfig.model_fields if name != "id"}

    def unused_vector_key(self) -> dict[str, str]:
        """Return the key `vector` where it is not used, with the reason."""
        if self._instance is None:
            return {}
        return {"vector": "an env object is stepped in this process"}

    def choose_backend(self, asked: str) -> tuple[str, str]:
        """The vector backend to use, and why."""
        if self._instance is not None:
            return "serial", "an env object and copies of it" if self.n_envs > 1 else "one env object"
        if asked != "auto":
            return asked, "as configured"
        assert self._factory is not None
        return choose_backend(self._factory, self.n_envs)

    def make_vector(self, backend: str, n_envs: int | None = None) -> gym.vector.VectorEnv[Any, Any, Any]:
        """All training envs, or `n_envs` of them."""
        n_envs = self.n_envs if n_envs is None else n_envs
        if self._instance is not None:
            copies, self._copies = self._copies, []
            copies += [self._copy() for _ in range(n_envs - 1 - len(copies))]
            envs = [_layered(env, self._training_curriculum) for env in (self._instance, *copies)[:n_envs]]
            return make_vector([partial(_given, env) for env in envs], backend="serial", env_id=self.env_id)
        assert self._factory is not None
        if self.spec is None and backend in {"serial", "process"}:
            return make_vector([self._factory] * n_envs, backend=backend, env_id=self.env_id)
        return make_vectorized_env(self._factory, n_envs, backend)

    def has_masks(self) -> bool:
        """Return True if the envs provide action masks. Resets an env object."""
        if self._instance is not None:
            with faults_of(self.env_id, None, "reset()"):
                return has_masks(_layered(self._instance))
        if self.support.no_spare_simulator:
            return False  # none of these has masks, and asking one would take a simulator
        env = build(self.make_single)
        try:
            with faults_of(self.env_id, None, "reset()"):
                return has_masks(env)
        finally:
            close_env(env)

    def for_evaluation(self) -> Callable[[], Env]:
        """Return the function that builds the envs of evaluations."""
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
        held = None if self._curriculum is None else self._curriculum.held()
        if self._user_factory is not None:
            return _layered(self._user_factory(), held)
        return _layered(self._copy(render_mode), held)

    @property
    def _training_curriculum(self) -> dict[str, Any] | None:
        return None if self._curriculum is None else self._curriculum.model_dump()

    def _first_copies(self, config: TrainerConfig) -> list[Env]:
        """One copy of the env object where several envs are asked for, to see that it can be copied. Says if not."""
        if config.n_envs == 1:
            return []
        reason = "n_envs was not set"
        if "n_envs" in config.model_fields_set:
            reason = "Gymnasium does not know how to make another one"
            if self._can_be_made_again:
                try:
                    return [self._copy()]
                except Exception as error:  # whatever the env's constructor raises
                    reason = f"another one cannot be made ({shortened(str(error))})"
        _log.warning(
            "this env object is the one env that is trained on: %s. "
            "For more, give its id or a function that returns a new env, and n_envs",
            reason,
        )
        return []

    @property
    def _can_be_made_again(self) -> bool:
        """True if the env object's spec is complete; a wrapper that records no arguments can only be copied."""
        spec = None if self._instance is None else self._instance.spec
        return spec is not None and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers)

    def _copy(self, render_mode: str | None = None) -> Env:
        """A second env like the env object. UserError when it cannot be copied."""
        assert self._instance is not None
        if self._can_be_made_again:
            spec: Any = self._instance.spec
            options: Any = {"render_mode": render_mode} if render_mode else {}
            return gym.make(spec, **options)
        try:
            return copy.deepcopy(self._instance)
        except Exception as error:  # deepcopy raises whatever the env's parts raise
            raise UserError(
                f"this env object cannot be copied for evaluation ({describe_error(error)})",
                where="create_trainer(env, …)",
                fix="give a function that returns a new env instead of an env object",
            ) from error


def require_env(env: Any, config: TrainerConfig) -> None:
    """Raise ConfigError unless the trainer is given an env or the config names one."""
    if env is None and config.env is None:
        raise ConfigError(
            "no env is given", key="env", fix="set env in the config, or pass one to create_trainer"
        )


def _spec(env: str | EnvSpec | None, config: TrainerConfig) -> EnvSpec:
    if isinstance(env, EnvSpec):
        if env.curriculum is None and config.curriculum is not None:
            env = replace(env, curriculum=config.curriculum.model_dump())
        return env.resolve()
    section = config.env
    if isinstance(env, str):
        section = section.model_copy(update={"id": env}) if section is not None else EnvConfig(id=env)
    assert section is not None  # the factory refuses a config without an env
    spec = EnvSpec(
        **section.model_dump(), curriculum=config.curriculum.model_dump() if config.curriculum else None
    )
    return spec.support.bind(spec.resolve(), config.save_dir)


def _layered(env: Env, curriculum: dict[str, Any] | None = None) -> Env:
    """The user's env with what a config adds: a curriculum, unless it has one, and its action masks."""
    if curriculum is not None:
        from ludus.envs.curriculum import add_curriculum

        env = add_curriculum(env, curriculum)
    return ActionMaskWrapper(env) if declares_masks(env) else env


def _layered_factory(factory: Callable[[], Env], curriculum: dict[str, Any] | None) -> Callable[[], Env]:
    return lambda: _layered(factory(), curriculum)


def _given(env: Env) -> Env:
    return env


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
