"""A scalar hyperparameter that may change over a run: constant, linear, cosine or exponential."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

SHAPES = ("constant", "linear", "cosine", "exponential")


@dataclass(frozen=True)
class Schedule:
    """A value for every fraction of the run done. Call it: `schedule(0.5)`."""

    start: float
    end: float
    shape: str = "constant"

    @classmethod
    def parse(cls, value: Any) -> Schedule:
        """Read a number or `{shape: [start, end]}`; raise ValueError that shows the forms accepted."""
        if isinstance(value, Schedule):
            return value
        if isinstance(value, dict) and len(value) == 1:
            shape, ends = next(iter(value.items()))
            if shape == "constant" and not isinstance(ends, list | tuple):
                return cls.parse(ends)
            if shape in SHAPES[1:] and isinstance(ends, list | tuple) and len(ends) == 2:
                start, end = (_number(x) for x in ends)
                if shape == "exponential" and not (start > 0 and end > 0):
                    raise ValueError(f"an exponential schedule needs two positive values, got {ends!r}")
                return cls(start, end, shape)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            number = _number(value)
            return cls(number, number)
        raise ValueError(_expected(value))

    def __call__(self, fraction: float) -> float:
        if self.shape == "constant":
            return self.start
        if self.shape == "linear":
            return self.start + (self.end - self.start) * fraction
        if self.shape == "cosine":
            return self.end + (self.start - self.end) * 0.5 * (1.0 + math.cos(math.pi * fraction))
        return float(self.start * (self.end / self.start) ** fraction)

    def plain(self) -> float | dict[str, list[float]]:
        """The form it is written in."""
        return self.start if self.shape == "constant" else {self.shape: [self.start, self.end]}

    def __str__(self) -> str:
        return (
            f"{self.start:g}" if self.shape == "constant" else f"{self.shape} {self.start:g} to {self.end:g}"
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda schedule: schedule.plain()),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        shapes = [
            {
                "type": "object",
                "properties": {shape: pair},
                "required": [shape],
                "additionalProperties": False,
            }
            for shape in SHAPES[1:]
        ]
        return {"anyOf": [{"type": "number"}, *shapes]}


def _within(low: float, high: float, *, above: bool = False) -> Any:
    """A validator: both ends of a schedule lie in [low, high], or in (low, high] with `above`."""

    def check(schedule: Schedule) -> Schedule:
        for value in (schedule.start, schedule.end):
            if value > high or value < low or (above and value == low):
                wanted = f"above {low:g}" if above else f"at least {low:g}"
                most = "" if high == math.inf else f" and at most {high:g}"
                raise ValueError(f"must be {wanted}{most}, got {value:g}")
        return schedule

    return AfterValidator(check)


NonNegative = Annotated[Schedule, _within(0.0, math.inf)]
Positive = Annotated[Schedule, _within(0.0, math.inf, above=True)]
Fraction = Annotated[Schedule, _within(0.0, 1.0)]
PositiveFraction = Annotated[Schedule, _within(0.0, 1.0, above=True)]


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(_expected(value)) from None
    if not math.isfinite(number):
        raise ValueError(f"must be a finite number, got {value!r}")
    return number


def _expected(value: Any) -> str:
    return f"expected a number or {{linear|cosine|exponential: [start, end]}}, got {value!r}"
