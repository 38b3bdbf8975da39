"""Base of the reward transforms: settings, and running averages by game and seat that survive a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ludus.config.sections import Section


class Transform(Section):
    """Base class: the fields are the settings. `{name: number}` sets the first one."""

    def state_dict(self) -> dict[str, Any]:
        """Return its state as plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` returned; empty for a transform without state."""


@dataclass
class Average:
    """Exponential moving average with factor `decay`; 0 before the first number."""

    total: float = 0.0
    weight: float = 0.0

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight else 0.0

    def update(self, number: float, decay: float) -> None:
        self.total = decay * self.total + number
        self.weight = decay * self.weight + 1.0

    def state(self) -> list[float]:
        return [self.total, self.weight]


def key_of(game: str, seat: int) -> str:
    """Return a game and a seat as one text key."""
    return f"{game}/{seat}"


def by_key(state: Mapping[str, Any]) -> dict[str, Average]:
    """Restore averages from their `state`."""
    return {key: Average(*saved) for key, saved in state.items()}
