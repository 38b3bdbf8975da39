"""A use case: the messages of a simulator and their meaning for an agent, as one YAML file.

`uc1`, `uc2` and `uc3` are shipped in `use_cases/`; give your own file by its path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from ludus.config.explain import explain
from ludus.config.plain_yaml import read_yaml
from ludus.config.sections import Section
from ludus.errors import ConfigError, UnknownName

_SHIPPED = Path(__file__).with_name("use_cases")


class ServiceConfig(Section):
    """One service of the simulator."""

    type: str = Field(default="", description="the name in Unity; not used by Ludus")
    request: str = Field(description="a message")
    response: str = Field(description="a message")


class ServicesConfig(Section):
    step: ServiceConfig
    reset: ServiceConfig


class ActionField(Section):
    """One field of the step request: `action[index] * scale + offset`, or True if the action is `above` a value."""

    to: str
    index: int = Field(ge=0)
    scale: float = 1.0
    offset: float = 0.0
    above: float | None = None


class ActionConfig(Section):
    """A Box of `size` numbers from -1 to 1."""

    size: int = Field(ge=1, le=1_000)
    fields: list[ActionField] = Field(min_length=1)


class ResetConfig(Section):
    """The fields of a reset request, besides its timestamp."""

    values: dict[str, bool | int | float | str] = Field(default={}, description="field to value")
    seed: str | None = Field(default=None, description="the field for the seed, if the simulator takes one")


class CameraConfig(Section):
    """The camera image as a part of the observation."""

    height: int = Field(default=84, ge=8, le=1_024)
    width: int = Field(default=84, ge=8, le=1_024)
    gray: bool = False


class ObservationConfig(Section):
    """Quantities in sequence, `size` numbers in total; `lags` are the steps back to include (0: the current one)."""

    size: int = Field(ge=1, le=100_000)
    parts: list[str] = Field(min_length=1)
    lags: list[int] = Field(default=[0], min_length=1, max_length=64)
    camera: CameraConfig | None = None

    @field_validator("lags")
    @classmethod
    def _usable(cls, value: list[int]) -> list[int]:
        if any(not 0 <= lag <= 1_000 for lag in value) or len(set(value)) != len(value):
            raise ValueError("lags must be different integers from 0 to 1000")
        return value


class RewardTerm(Section):
    """`weight` times a quantity, or a `constant` in every step."""

    quantity: str | None = None
    weight: float = 1.0
    constant: float | None = None

    @model_validator(mode="after")
    def _one(self) -> RewardTerm:
        if (self.quantity is None) == (self.constant is None):
            raise ValueError("a reward term needs either a quantity or a constant")
        return self


class TimestampsConfig(Section):
    """Fields with times: of sending (requests), of receiving and answering by the simulator (responses)."""

    sent: str | None = None
    received: str | None = None
    answered: str | None = None


class UseCase(Section):
    """A use case, as described in docs/how-to/unity.md."""

    name: str
    description: str = ""
    environment: str = Field(description="services are /<environment>_<index>/step and …/reset")
    messages: dict[str, dict[str, str]]
    services: ServicesConfig
    timestamps: TimestampsConfig = TimestampsConfig()
    image: str | None = Field(default=None, description="a CompressedImage in the responses")
    action: ActionConfig
    reset: ResetConfig = ResetConfig()
    quantities: dict[str, dict[str, Any]]
    observation: ObservationConfig
    reward: list[RewardTerm] = Field(min_length=1)
    terminated: list[str] = Field(default=[], description="quantities: the episode ends if one is not 0")
    success: str | None = Field(default=None, description="a quantity: success if it is not 0 at the end")
    max_steps: int = Field(default=1_024, ge=1)
    hook: str | None = Field(default=None, description="module:Class, a subclass of UseCaseHook")

    def topic(self, service: str, index: int) -> str:
        return f"/{self.environment}_{index}/{service}"


def shipped_use_cases() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def load_use_case(name: str) -> UseCase:
    """Load a shipped use case by its name, or one from a YAML file. UnknownName, or ConfigError with the line."""
    path = Path(name)
    if path.suffix.lower() not in (".yaml", ".yml"):
        if name not in shipped_use_cases():
            raise UnknownName(
                "use case",
                name,
                shipped_use_cases(),
                where="env.kwargs.use_case",
                fix=f"{', '.join(shipped_use_cases())}, or the path of a YAML file",
            )
        path = _SHIPPED / f"{name}.yaml"
    elif not path.is_file():
        raise ConfigError(f"use case '{name}' not found", where="env.kwargs.use_case", fix="check the path")
    data, places = read_yaml(path)
    try:
        return UseCase.model_validate(data)
    except ValidationError as error:
        problem = explain(error, UseCase)
    problem.where = locate(problem.key, places) or str(path)
    raise problem


def locate(key: str, places: Any) -> str | None:
    """Return the line of the longest prefix of the dotted `key` that the file contains."""
    parts = tuple(key.split("."))
    for length in range(len(parts), 0, -1):
        if parts[:length] in places:
            return str(places[parts[:length]])
    return None
