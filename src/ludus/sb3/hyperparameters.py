"""Hyperparameters of an SB3 algorithm: the arguments of its own constructor, with its own defaults, checked.

The model is made from the constructor's signature, so that what SB3 accepts is accepted here under the same name,
and what it does not is an error that names the nearest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
from gymnasium import spaces
from pydantic import AfterValidator, Field, PositiveInt, create_model, model_serializer, model_validator
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise, OrnsteinUhlenbeckActionNoise

from ludus.config.hyperparameters import Hyperparameters, constant
from ludus.config.schedule import Fraction, NonNegative, Schedule
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError

# Arguments that are not the config's to give, and where what they mean is said instead.
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


def _unchanging(schedule: Schedule) -> Schedule:
    if schedule.shape != "constant":
        raise ValueError("Stable-Baselines3 takes a plain number here, no schedule")
    return schedule


class SB3Hyperparameters(Hyperparameters):
    """Base of all of them: what Ludus adds to the constructor's arguments, or says in other words."""

    gamma: Annotated[Fraction, AfterValidator(_unchanging)] = constant(0.99)
    policy: str = Field(
        default="auto", description="MlpPolicy, CnnPolicy, LinearPolicy, …; auto: by the spaces"
    )
    policy_net_arch: tuple[PositiveInt, ...] | None = Field(default=None, description="null: SB3's own")  # type: ignore[assignment]
    value_net_arch: tuple[PositiveInt, ...] | None = Field(default=None, description="null: SB3's own")  # type: ignore[assignment]
    policy_kwargs: dict[str, Any] = Field(default={}, description="more arguments for the policy's class")

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
        """What to call `cls` with, beside policy, env and device: schedules as SB3 calls them."""
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
        return dict[Literal["normal", "ornstein_uhlenbeck"], float] | None
    parts = get_args(annotation) or (annotation,)
    if any(part is Callable or get_origin(part) is Callable for part in parts):
        return NonNegative | None if type(None) in parts else NonNegative
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
    """SB3 asks with what remains of the run, Ludus with what is done."""
    return lambda remaining: schedule(1.0 - remaining)
