"""Hyperparameters of an SB3 algorithm: the arguments of its own constructor, with its own defaults, checked.

The pydantic model is made from the constructor's signature: arguments of SB3 are accepted under the same name,
and an unknown one is an error that suggests the nearest.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

import numpy as np
from gymnasium import spaces
from pydantic import AfterValidator, Field, create_model, model_serializer, model_validator
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise

from ludus.config.hyperparameters import Hyperparameters, LayerSize, constant
from ludus.config.schedule import Fraction, LearningRate, NonNegative, Schedule
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError

# Arguments that Ludus sets, and the config key to use instead.
ELSEWHERE = {
    "env": "set env at the top of the config",
    "seed": "set seed at the top of the config",
    "device": "set device at the top of the config",
    "verbose": "ludus train -v or -q",
    "tensorboard_log": "tracking: {tensorboard: true}",
    "stats_window_size": "leave it out: the window is 100 episodes",
    "_init_setup_model": "leave it out",
    "rollout_buffer_class": "a config cannot name a class here: leave it out",
    "replay_buffer_class": "a config cannot name a class here: leave it out",
}
_NOISE: dict[str, type[ActionNoise]] = {
    "normal": NormalActionNoise,
    "ornstein_uhlenbeck": OrnsteinUhlenbeckActionNoise,
}


# The range of an argument, if not 1 to 1e9 for integers and 0 to 1e6 for floats.
_LEAST = {
    "gradient_steps": -1,
    "sde_sample_freq": -1,
    "learning_starts": 0,
    "top_quantiles_to_drop_per_net": 0,
    "target_entropy": -1e6,
    "alive_bonus_offset": -1e6,
}
_MOST = {
    "n_steps": 10**8,
    "n_epochs": 10_000,
    "learning_starts": 10**12,
    "target_update_interval": 10**12,
    "max_grad_norm": 1e12,
    "gae_lambda": 1,
    "tau": 1,
    "exploration_fraction": 1,
    "exploration_initial_eps": 1,
    "exploration_final_eps": 1,
}


def _unchanging(schedule: Schedule) -> Schedule:
    if schedule.shape != "constant":
        raise ValueError("Stable-Baselines3 expects a number here, got a schedule")
    return schedule


class SB3Hyperparameters(Hyperparameters):
    """Base class: fields that Ludus adds to the constructor's arguments or names differently."""

    gamma: Annotated[Fraction, AfterValidator(_unchanging)] = constant(0.99)
    policy: str = Field(
        default="auto", description="MlpPolicy, CnnPolicy, LinearPolicy, …; auto: by the spaces"
    )
    policy_net_arch: tuple[LayerSize, ...] | None = Field(default=None, description="null: SB3's own")  # type: ignore[assignment]
    value_net_arch: tuple[LayerSize, ...] | None = Field(default=None, description="null: SB3's own")  # type: ignore[assignment]
    policy_kwargs: dict[str, Any] = Field(default={}, description="more arguments for the policy's class")

    def resolved(self, n_envs: int) -> Self:
        """Return as many gradient steps a round as one env would get each, unless they are given."""
        if "gradient_steps" in self.model_fields_set or getattr(self, "gradient_steps", None) != 1:
            return self
        return self.model_copy(update={"gradient_steps": n_envs})

    @model_validator(mode="before")
    @classmethod
    def _say_where_it_belongs(cls, data: Any) -> Any:
        for name in ELSEWHERE.keys() & data.keys() if isinstance(data, dict) else ():
            raise ConfigError(
                f"'{name}' of Stable-Baselines3 is set by Ludus",
                key=f"hyperparams.{name}",
                fix=ELSEWHERE[name],
            )
        return data

    @model_serializer(mode="wrap")
    def _without_unset_nets(self, handler: Any) -> dict[str, Any]:
        nets = ("policy_net_arch", "value_net_arch")
        return {k: v for k, v in handler(self).items() if not (k in nets and v is None)}

    def constructor_arguments(
        self, cls: type[BaseAlgorithm], action_space: spaces.Space[Any]
    ) -> dict[str, Any]:
        """Return the arguments of `cls` except policy, env and device, with schedules as SB3 calls them."""
        return {
            name: _for_sb3(getattr(self, name), name, action_space)
            for name in inspect.signature(cls).parameters
            if name not in ELSEWHERE and name not in ("policy", "policy_kwargs")
        }


def hyperparameters_of(cls: type[BaseAlgorithm]) -> type[SB3Hyperparameters]:
    """The typed hyperparameters of an SB3 algorithm."""
    fields: dict[str, Any] = {
        name: (_kind(name, parameter.annotation), _default(parameter))
        for name, parameter in inspect.signature(cls).parameters.items()
        if name not in ELSEWHERE and name not in ("policy", "policy_kwargs", "gamma")
    }
    return create_model(
        f"{cls.__name__}Hyperparameters", __base__=SB3Hyperparameters, __module__=__name__, **fields
    )


def check(config: TrainerConfig, h: SB3Hyperparameters) -> None:
    """Raise ConfigError when config and hyperparameters do not fit together."""
    if config.policy.share_net:
        raise ConfigError(
            "Stable-Baselines3 has no net that policy and value share",
            key="policy.share_net",
            fix="set share_net: false, or engine: native",
        )
    train_freq = getattr(h, "train_freq", None)
    if isinstance(train_freq, tuple) and train_freq[1] == "episode" and config.n_envs > 1:
        raise ConfigError(
            "Stable-Baselines3 trains by episodes with one env only",
            key="hyperparams.train_freq",
            fix="set n_envs: 1, or give train_freq in steps",
        )


def _kind(name: str, annotation: Any) -> Any:
    """The type of a field, from the constructor's annotation."""
    if name == "action_noise":
        return dict[Literal["normal", "ornstein_uhlenbeck"], Annotated[float, Field(ge=0, le=1e6)]] | None
    parts = get_args(annotation) or (annotation,)
    if any(part is Callable or get_origin(part) is Callable for part in parts):
        schedule: Any = LearningRate if name == "learning_rate" else NonNegative
        return schedule | None if type(None) in parts else schedule
    return _bounded(name, annotation)


def _bounded(name: str, annotation: Any) -> Any:
    """`annotation` with bounds for every number in it."""
    if annotation is int:
        return Annotated[int, Field(ge=_LEAST.get(name, 1), le=_MOST.get(name, 10**9))]
    if annotation is float:
        return Annotated[float, Field(ge=_LEAST.get(name, 0), le=_MOST.get(name, 1e6))]
    parts = tuple(_bounded(name, part) for part in get_args(annotation))
    if get_origin(annotation) is tuple:
        return tuple[parts]  # type: ignore[valid-type]
    if get_origin(annotation) in (Union, types.UnionType):
        return functools.reduce(operator.or_, parts)
    return annotation


def _default(parameter: inspect.Parameter) -> Any:
    schedules = any(
        part is Callable or get_origin(part) is Callable for part in get_args(parameter.annotation)
    )
    if schedules and parameter.default is not None:
        return constant(parameter.default)
    return parameter.default


def _for_sb3(value: Any, name: str, action_space: spaces.Space[Any]) -> Any:
    if isinstance(value, Schedule):
        return value.start if value.shape == "constant" else _of_progress_remaining(value)
    if name == "action_noise" and value is not None:
        size = int(np.prod(action_space.shape or ()))
        ((kind, sigma),) = value.items()
        return _NOISE[kind](mean=np.zeros(size), sigma=np.full(size, sigma))  # type: ignore[call-arg]
    return dict(value) if isinstance(value, dict) else value


def _of_progress_remaining(schedule: Schedule) -> Callable[[float], float]:
    """Convert a schedule: SB3 passes the remaining fraction of the run, Ludus the finished one."""
    return lambda remaining: schedule(1.0 - remaining)
