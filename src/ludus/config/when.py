"""One way to say when: `100_000`, `"10k"`, `"200 updates"`, `"5000 episodes"`, `"30 min"`."""

from __future__ import annotations

import re
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ludus.config.schedule import MAX_STEPS
from ludus.errors import shortened
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
_THOUSANDS = {"k": 10**3, "K": 10**3, "M": 10**6}
_TEXT = re.compile(
    r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?)(?:\s*([kKM])(?![A-Za-z]))?\s*([A-Za-z]*)\s*"
)
MIN_SECONDS = 0.001
MAX_SECONDS = 10 * 365 * 86_400.0  # ten years
EXPECTED = 'env steps (100_000, 10k, 1e6) or text ("200 updates", "5000 episodes", "30 min")'


class When:
    """An amount of progress: a total, or the distance between two events. Steps are ints as well."""

    amount: float
    unit: str

    def __new__(cls, amount: float, unit: str = "steps") -> When:
        """Return `amount` of `unit`; of steps, as an int."""
        if unit == "steps":
            return int.__new__(_Steps, amount)
        made = object.__new__(cls)
        made.amount, made.unit = amount, unit
        return made

    @classmethod
    def parse(cls, value: Any) -> When:
        """Read an int (steps) or text; raise ValueError for what is no amount. `EXPECTED` names the forms accepted."""
        if isinstance(value, When):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(_refusal(value))
        if isinstance(value, int) and value > MAX_STEPS:  # may have more digits than can be written
            raise ValueError(f"must be at most {MAX_STEPS:.0e} steps, got {shortened(value)}")
        match = _TEXT.fullmatch(str(value))
        if match is None or match[3].lower() not in {"", *_UNITS}:
            raise ValueError(_refusal(value))
        unit = _UNITS[match[3].lower() or "steps"]
        amount = round(float(match[1].replace("_", "")) * _THOUSANDS.get(match[2], 1), 9)
        _check_range(amount, unit, value)
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
        """Return how much of this amount is done, from 0 to 1."""
        return min(1.0, self.measure(progress) / self.amount)

    def count(self, progress: Progress) -> int:
        """Return how many times an event with this interval has been due so far."""
        return int(self.measure(progress) // self.amount)

    def plain(self) -> int | str:
        """The form it is written in: an int for steps, text otherwise."""
        if self.unit == "steps":
            return int(self.amount)
        amount = int(self.amount) if self.amount == int(self.amount) else self.amount
        return f"{amount} {self.unit}"

    def in_words(self) -> str:
        """The amount with its unit: "2,000,000 steps", "30 minutes"."""
        return f"{self.amount:,.0f} steps" if self.unit == "steps" else str(self.plain())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, When) and (self.amount, self.unit) == (other.amount, other.unit)

    def __hash__(self) -> int:
        return hash((self.amount, self.unit))

    def __repr__(self) -> str:
        return f"When({self.amount!r}, {self.unit!r})"

    def __str__(self) -> str:
        return str(self.plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return When, (self.amount, self.unit)

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
            "anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_STEPS}, {"type": "string"}],
            "description": 'env steps, or text: "200 updates", "5000 episodes", "30 min"',
        }


class _Steps(int, When):
    """Env steps: an int in every respect."""

    unit = "steps"

    @property
    def amount(self) -> int:  # type: ignore[override]
        return int(self)


def _check_range(amount: float, unit: str, value: Any) -> None:
    """ValueError for an amount that no run can reach, or of which there is only a part."""
    shown = shortened(value)
    if amount <= 0:
        raise ValueError(f"must be more than zero, got {shown}")
    if unit in _SECONDS:
        if not MIN_SECONDS <= amount * _SECONDS[unit] <= MAX_SECONDS:
            raise ValueError(f"must be at least {MIN_SECONDS:g} s and at most 10 years, got {shown}")
    elif amount > MAX_STEPS:
        raise ValueError(f"must be at most {MAX_STEPS:.0e} {unit}, got {shown}")
    elif amount != int(amount):
        raise ValueError(f"{unit} must be a whole number, got {shown}")


def _refusal(value: Any) -> str:
    negative = isinstance(value, int | float) or _TEXT.fullmatch(str(value).strip().removeprefix("-"))
    if negative and str(value).strip().startswith("-"):
        return f"must be more than zero, got {shortened(value)}"
    return f"expected an amount of steps, updates, episodes or time, got {shortened(value)}"
