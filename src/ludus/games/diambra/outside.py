"""What the rest of Ludus asks about envs whose game runs outside, without knowing the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.games.diambra.engines import check_number, engines
from ludus.games.diambra.games import DIAMBRA
from ludus.games.diambra.settings import settings_for

__all__ = ["check_number", "check_settings", "deadline", "is_outside", "places"]

_SLACK_SECONDS = 5.0  # the env itself says first, and better, that its engine gave no answer


def is_outside(env_id: str) -> bool:
    return env_id.rpartition(":")[2].startswith(DIAMBRA)


def check_settings(env_id: str, kwargs: Mapping[str, Any]) -> None:
    """ConfigError when the env's keyword arguments make no sense."""
    plain = {name: value for name, value in kwargs.items() if name != "rank" and not callable(value)}
    settings_for(env_id.rpartition(":")[2].removeprefix(DIAMBRA), plain)


def places() -> list[str]:
    """Which engine each env plays on, in words."""
    return [str(engine) for engine in engines()]


def deadline(kwargs: Mapping[str, Any]) -> float:
    """Seconds after which a worker counts as hanging."""
    return float(kwargs.get("grpc_timeout", 60)) + _SLACK_SECONDS
