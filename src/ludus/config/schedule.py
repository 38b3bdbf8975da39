"""A scalar hyperparameter that may change over a run: constant, linear, cosine, exponential, or points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ludus.errors import shortened

MAX_STEPS = 10**15
"""Most env steps, updates or episodes: 30 years at a million steps a second."""
MAX_REWARD = 1e15
MAX_POINTS = 10_000


@dataclass(frozen=True)
class Bounds:
    """Numbers from `low` to `high`; `above`: `low` itself is excluded, `below`: `high` itself is.

    As metadata of a `Schedule` it is a validator of both ends.
    """

    low: float
    high: float
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        too_low = value <= self.low if self.above else value < self.low
        too_high = value >= self.high if self.below else value > self.high
        return not (too_low or too_high or math.isnan(value))

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"above {_written(self.low)}" if self.above else f"of {_written(self.low)} or more"
        if self.low == -math.inf:
            return f"below {_written(self.high)}" if self.below else f"of {_written(self.high)} or less"
        low, high = _written(self.low), _written(self.high)
        if not self.above:
            return f"from {low} to below {high}" if self.below else f"from {low} to {high}"
        return f"above {low}, " + (f"below {high}" if self.below else f"at most {high}")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check_ends, handler(source))

    def _check_ends(self, schedule: Any) -> Any:
        for value in (schedule.start, schedule.end, *schedule.points):
            if value not in self:
                low = f"above {self.low:g}" if self.above else f"at least {self.low:g}"
                raise ValueError(f"must be {low} and at most {self.high:g}, got {value:g}")
        return schedule


def bounds_in(metadata: Iterable[Any]) -> Bounds | None:
    """The bounds that the metadata of a field or of an annotated type declare; None where it has none."""
    low, high, above, below = -math.inf, math.inf, False, False
    for item in metadata:
        if isinstance(item, Bounds):
            return item
        number: Any  # annotated_types knows no more of it than that it can be compared
        if isinstance(item, Ge | Gt):
            number, above = (item.gt, True) if isinstance(item, Gt) else (item.ge, False)
            low = number
        elif isinstance(item, Le | Lt):
            number, below = (item.lt, True) if isinstance(item, Lt) else (item.le, False)
            high = number
    return None if (low, high) == (-math.inf, math.inf) else Bounds(low, high, above, below)


def _written(value: float) -> str:
    """`value` as a config writes it: 1_000_000, 1e12, 0.001."""
    if value != int(value):
        return f"{value:g}"
    digits = len(str(abs(int(value)))) - 1
    if digits >= 9 and abs(value) == 10**digits:
        return f"{'-' * (value < 0)}1e{digits}"
    return f"{int(value):_}" if abs(value) >= 10_000 else str(int(value))


SHAPES = ("constant", "linear", "cosine", "exponential")
POINTS = "points"
SAMPLES = 201
"""Values that a function becomes: one at every half percent of the run, with straight lines between them."""


@dataclass(frozen=True)
class Schedule:
    """A value for every fraction of the run done. Call it: `schedule(0.5)`.

    `points` are values at equal distances, with straight lines between them.
    """

    start: float
    end: float
    shape: str = "constant"
    points: tuple[float, ...] = ()

    @classmethod
    def parse(cls, value: Any) -> Schedule:
        """Read a number, `{shape: [start, end]}`, `{points: [v, …]}` or a function, as `sampled` has it.

        Raises ValueError that shows the forms accepted.
        """
        if isinstance(value, Schedule):
            return value
        if callable(value) and not isinstance(value, type):
            return cls.sampled(value)
        if isinstance(value, dict) and len(value) == 1:
            shape, ends = next(iter(value.items()))
            if shape == "constant" and not isinstance(ends, list | tuple):
                return cls.parse(ends)
            if shape in SHAPES[1:] and isinstance(ends, list | tuple) and len(ends) == 2:
                start, end = (_number(x) for x in ends)
                if shape == "exponential" and not (start > 0 and end > 0):
                    raise ValueError(
                        f"an exponential schedule needs two positive values, got {shortened(ends)}"
                    )
                return cls(start, end, shape)
            if shape == POINTS and isinstance(ends, list | tuple) and 2 <= len(ends) <= MAX_POINTS:
                points = tuple(map(_number, ends))
                return cls(points[0], points[-1], POINTS, points)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            number = _number(value)
            return cls(number, number)
        raise ValueError(_expected(value))

    @classmethod
    def sampled(cls, function: Callable[[float], Any]) -> Schedule:
        """Return a function of the remaining progress (1 at the start, 0 at the end), as SB3 has it, as a schedule.

        It is constant or linear where the samples are, else `points`.
        """
        last = SAMPLES - 1
        try:
            points = tuple(_number(function(1.0 - index / last)) for index in range(SAMPLES))
        except TypeError as error:
            raise ValueError(
                f"a schedule must be a function of one number that returns a number: {error}"
            ) from error
        start, end = points[0], points[-1]
        straight = cls(start, end, "linear")
        nearly = 1e-12 * max(map(abs, points))
        if all(abs(point - straight(index / last)) <= nearly for index, point in enumerate(points)):
            return cls(start, start) if start == end else straight
        return cls(start, end, POINTS, points)

    def __call__(self, fraction: float) -> float:
        if self.shape == POINTS:
            place = min(max(fraction, 0.0), 1.0) * (len(self.points) - 1)
            index = min(int(place), len(self.points) - 2)
            left, right = self.points[index : index + 2]
            return left + (right - left) * (place - index)
        if self.shape == "constant":
            return self.start
        if self.shape == "linear":
            return self.start + (self.end - self.start) * fraction
        if self.shape == "cosine":
            return self.end + (self.start - self.end) * 0.5 * (1.0 + math.cos(math.pi * fraction))
        return float(self.start * (self.end / self.start) ** fraction)

    def plain(self) -> float | dict[str, list[float]]:
        """The form it is written in."""
        if self.shape == POINTS:
            return {POINTS: list(self.points)}
        return self.start if self.shape == "constant" else {self.shape: [self.start, self.end]}

    def __str__(self) -> str:
        if self.shape == POINTS:
            return f"{len(self.points)} points from {self.start:g} to {self.end:g}"
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
        numbers = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": MAX_POINTS}
        points = {
            "type": "object",
            "properties": {POINTS: numbers},
            "required": [POINTS],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "number"}, *shapes, points]}


NonNegative = Annotated[Schedule, Bounds(0.0, 1e6)]
Positive = Annotated[Schedule, Bounds(1e-12, 1e12)]
Fraction = Annotated[Schedule, Bounds(0.0, 1.0)]
PositiveFraction = Annotated[Schedule, Bounds(0.0, 1.0, above=True)]
LearningRate = Annotated[Schedule, Bounds(0.0, 10.0)]
"""Beyond it, the first step moves every weight further than any optimizer can bring back."""


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_expected(value)) from None
    if not math.isfinite(number):
        raise ValueError(f"must be a finite number, got {shortened(value)}")
    return number


def _expected(value: Any) -> str:
    forms = "a number or {linear|cosine|exponential: [start, end]} or {points: [v, …]}"
    return f"expected {forms}, got {shortened(value)}"
