"""Settings of Unity envs: the `env.kwargs` of `ludus/Unity-v0`, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from ludus.config.explain import explain
from ludus.config.sections import Section
from ludus.games.unity.frames import LONGEST_PAYLOAD


class BuildConfig(Section):
    """A Unity build that Ludus starts once per env, with its options."""

    path: str = Field(description="the executable")
    launch: bool | Literal["auto"] = Field(
        default="auto",
        description="auto: if the file exists and is executable; otherwise wait for simulators",
    )
    headless: bool = True
    pause: bool = Field(default=False, description="pause the simulation between steps")
    sample_time: float = Field(default=0.0, ge=0, description="simulated seconds per step")
    time_scale: float = Field(default=1.0, gt=0)
    fixed_delta_time: float | None = Field(default=None, gt=0)
    fixed_updates_per_step: int | None = Field(default=None, ge=1)
    arguments: list[str] = Field(default=[], description="more arguments, passed unchanged")


class UnitySettings(Section):
    """Address of the simulators, their timeouts, and the use case."""

    use_case: str = Field(default="uc1", description="uc1, uc2, uc3, or the path of a YAML file")
    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 for the whole network")
    port: int = Field(
        default=10_000, ge=0, le=65_535, description="of env 0, the others follow; 0: free ports"
    )
    build: BuildConfig | None = Field(
        default=None, description="a Unity build to start; null: you start them yourself"
    )
    connect_seconds: float = Field(
        default=120.0, gt=0, description="timeout for all simulators to connect at the start"
    )
    deadline: float = Field(default=30.0, gt=0, description="timeout of an answer in seconds")
    reconnects: int = Field(default=10, ge=0, description="how many lost connections a run tolerates")
    reconnect_seconds: float = Field(
        default=120.0, gt=0, description="timeout for a lost simulator to reconnect"
    )
    longest_message: int = Field(
        default=LONGEST_PAYLOAD, ge=1_024, le=256 * 1_024 * 1_024, description="bytes"
    )


def parse_settings(kwargs: Mapping[str, Any]) -> UnitySettings:
    """Parse `env.kwargs`. ConfigError with the invalid key."""
    try:
        return UnitySettings(**kwargs)
    except ValidationError as error:
        raise explain(error, UnitySettings, prefix=("env", "kwargs")) from None
