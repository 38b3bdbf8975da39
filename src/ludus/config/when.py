"""One way to say when: `100_000`, `"200 updates"`, `"5000 episodes"`, `"30 min"`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ludus.types import Progress

_UNITS = {
    "step": "steps",
    "steps": "steps",
    "turns": "steps",
    "update": "updates",
    "updates": "updates",
    "episode": "episodes",
    "episodes": "episodes",
    "s": "seconds",
    "sec": "seconds",
    "seconds": "seconds",
    "min": "minutes",
    "minutes": "minutes",
    "h": "hours",
    "hours": "hours",
}
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
_TEXT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True)
class When:
    """An amount of progress: a total, or the distance between two events."""

    amount: float
    unit: str = "steps"

    @classmethod
    def parse(cls, value: Any) -> When:
        """Read an int (steps) or text; raise ValueError that shows the forms accepted."""
        if isinstance(value, When):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(_expected(value))
        match = _TEXT.fullmatch(str(value).lower())
        if match is None or match[2] not in {"", *_UNITS}:
            raise ValueError(_expected(value))
        unit = _UNITS[match[2] or "steps"]
        amount = float(match[1].replace("_", ""))
        if amount <= 0:
            raise ValueError(f"must be more than zero, got {value!r}")
        if amount == float("inf"):
            raise ValueError(f"must have an end, got {str(value)[:40]!r}")
        if unit not in _SECONDS and amount != int(amount):
            raise ValueError(f"{unit} must be a whole number, got {value!r}")
        return cls(amount, unit)

    @property
    def is_wall_clock(self) -> bool:
        return self.unit in _SECONDS

    def measure(self, progress: Progress) -> float:
        """`progress` in this unit."""
        if self.is_wall_clock:
            return progress.seconds / _SECONDS[self.unit]
        return float(getattr(progress, self.unit))

    def fraction(self, progress: Progress) -> float:
        """How much of this amount is done, from 0 to 1."""
        return min(1.0, self.measure(progress) / self.amount)

    def count(self, progress: Progress) -> int:
        """How many times an event with this interval has fallen due so far."""
        return int(self.measure(progress) // self.amount)

    def plain(self) -> int | str:
        """The form it is written in: an int for steps, text otherwise."""
        if self.unit == "steps":
            return int(self.amount)
        amount = int(self.amount) if self.amount == int(self.amount) else self.amount
        return f"{amount} {self.unit}"

    def __str__(self) -> str:
        return f"{self.amount:,.0f} steps" if self.unit == "steps" else str(self.plain())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda when: when.plain()),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}],
            "description": 'env steps, or text: "200 updates", "5000 episodes", "30 min"',
        }


def _expected(value: Any) -> str:
    return f'expected env steps (100_000) or text ("200 updates", "5000 episodes", "30 min"), got {value!r}'
