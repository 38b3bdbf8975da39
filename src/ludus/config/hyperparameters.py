"""Hyperparameters: the loose form users write, and the base of each algorithm's typed form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ludus.config.schedule import Fraction, LearningRate, Schedule
from ludus.errors import ConfigError

LayerSize = Annotated[int, Field(gt=0, le=65_536)]


def constant(value: float) -> Any:
    """A schedule field's default."""
    return Field(default=Schedule(value, value))


class LearningHyperparameters(BaseModel):
    """Hyperparameters of every algorithm, for envs and for language models."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    # default search space of `ludus sweep`, in the form of config/search_space.py
    search_space: ClassVar[Mapping[str, Any]] = {}
    normalizes_reward: ClassVar[bool] = True
    """Default of `normalize_reward` for this algorithm."""

    def resolved(self, n_envs: int) -> Self:
        """Return the hyperparameters with a number for every `auto` that depends on the number of envs."""
        return self

    learning_rate: LearningRate = constant(3e-4)
    gamma: Fraction = constant(0.99)


class Hyperparameters(LearningHyperparameters):
    """Base of the typed hyperparameters of an algorithm for envs; each algorithm has a subclass."""

    policy_net_arch: tuple[LayerSize, ...] = Field(
        default=(256, 256), description="hidden layers of the policy"
    )
    value_net_arch: tuple[LayerSize, ...] = Field(
        default=(256, 256), description="hidden layers of the value net"
    )

    def samples_per_step(self, n_envs: int) -> int:
        """Return the number of samples in one gradient step, for the choice of a device."""
        return n_envs


# What other libraries and the older documents call the same thing.
HYPERPARAMETER_ALIASES = {
    "entropy_coefficient": "ent_coef",
    "value_function_coefficient": "vf_coef",
}

# Fields of `HyperparameterConfig` that not every algorithm has. Where it has none, they are no error: one
# HyperparameterConfig may serve a comparison of several algorithms.
SHARED_FIELDS = frozenset(
    {"gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "policy_net_arch", "value_net_arch"}
)


# A schedule that reads back as it was written: 3e-4, or {"linear": [3e-4, 0.0]}.
Written = Annotated[
    float | dict[str, list[float]], BeforeValidator(lambda value: Schedule.parse(value).plain())
]


class HyperparameterConfig(BaseModel):
    """Hyperparameters as a user gives them: common ones by name, the algorithm's own next to them or in
    `algorithm_specific`. What is not given explicitly takes the algorithm's own default.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    learning_rate: Written = 3e-4
    gamma: Written = 0.99
    gae_lambda: Written = 0.95
    ent_coef: Any = 0.01  # a schedule, or "auto" for SAC: the algorithm checks it
    vf_coef: Written = 0.5
    max_grad_norm: Written | None = 0.5
    policy_net_arch: list[LayerSize] = [256, 256]
    value_net_arch: list[LayerSize] = [256, 256]
    features_dim: int | None = Field(default=None, ge=1, le=65_536, description="sets policy.features_dim")
    algorithm_specific: dict[str, Any] = {}

    if not TYPE_CHECKING:  # type checkers and editors know the fields

        def __init__(self, **data: Any) -> None:
            """Raise ConfigError, which names the key and what it accepts, in the place of pydantic's error."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                from ludus.config.explain import explain

                raise explain(error, HyperparameterConfig, prefix=("hyperparams",)) from None

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        specific = data.get("algorithm_specific")
        spellings = [(key, key) for key in data]
        if isinstance(specific, Mapping):
            spellings += [(f"algorithm_specific.{key}", key) for key in specific]
        first: dict[str, str] = {}
        for spelling, key in spellings:
            other = first.setdefault(canonical_hyperparameter(key), spelling)
            if other != spelling:
                raise ConfigError(
                    f"'{other}' and '{spelling}' are names of the same key, and both are given",
                    key=f"hyperparams.{spelling}",
                    fix="keep one",
                )
        if isinstance(specific, Mapping):
            data = data | {"algorithm_specific": {key: _written(value) for key, value in specific.items()}}
        return {canonical_hyperparameter(key): _written(value) for key, value in data.items()}

    def given(self) -> dict[str, Any]:
        """Return the values that were set explicitly, flat, under canonical names."""
        values = {
            name: getattr(self, name)
            for name in self.model_fields_set
            if name not in {"algorithm_specific", "features_dim"}
        }
        for key, value in self.algorithm_specific.items():
            values[canonical_hyperparameter(key)] = value
        return values

    def __getattr__(self, name: str) -> Any:
        if name in HYPERPARAMETER_ALIASES:
            return getattr(self, canonical_hyperparameter(name))
        return super().__getattr__(name)  # type: ignore[misc]  # pydantic defines it outside TYPE_CHECKING

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(canonical_hyperparameter(name), _written(value))
        except ValidationError as error:
            from ludus.config.explain import explain

            raise explain(error, HyperparameterConfig, prefix=("hyperparams",)) from None


def _written(value: Any) -> Any:
    """Return a function of the remaining progress as the schedule that a config holds; anything else as it is."""
    is_function = callable(value) and not isinstance(value, type | Schedule)
    return Schedule.sampled(value).plain() if is_function else value


def canonical_hyperparameter(name: str) -> str:
    """Return the canonical name of `name`, which may be an alias."""
    return HYPERPARAMETER_ALIASES.get(name, name)
