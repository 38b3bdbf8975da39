"""Quantities: numbers derived from a simulator's answer, defined in the YAML of a use case. Data, never code.

Each is one operation on fields of the answer (dotted paths), numbers, and quantities defined before it:

    offset: {relative_position: [state.tank.pose, state.target_pose]}
    near: {shortened: offset, to: 10.0}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ludus.errors import ConfigError, nearest
from ludus.games.unity.cdr import CdrCodec, Message

Value = Any
"""A float or an array of floats; as an argument of some operations also a message."""
Memory = dict[str, Value]
_Source = Callable[[Message, Mapping[str, Value]], Value]


class Quantities:
    """Computes all quantities of a use case, in the order of the YAML.

    ConfigError (with `quantities.NAME`) for an unknown operation or name.
    """

    def __init__(self, described: Mapping[str, Mapping[str, Any]], answer: CdrCodec) -> None:
        self._answer = answer
        self.names: set[str] = set()
        self._steps: list[tuple[str, str, list[_Source], dict[str, _Source]]] = []
        for name, entry in described.items():
            self._add(name, entry)

    def compute(self, message: Message, memory: Memory) -> dict[str, Value]:
        """Compute all quantities of `message`. `memory` keeps values between steps; {} at the start of an episode."""
        values: dict[str, Value] = {}
        for name, operation, sources, options in self._steps:
            given = [source(message, values) for source in sources]
            if operation in _CHANGES:
                before = memory.get(name, given[0])
                memory[name] = given[0]
                values[name] = _CHANGES[operation] * (given[0] - before)
            else:
                extra = {key: source(message, values) for key, source in options.items()}
                values[name] = _OPERATIONS[operation][0](*given, **extra)
        return values

    def source(self, reference: Any, key: str) -> _Source:
        """Return a function that reads `reference`: a number, a quantity, or a field of the answer."""
        if isinstance(reference, bool):
            raise ConfigError(
                f"expected a number or a name, got {reference}",
                key=key,
                fix="use a number, a quantity, or a field",
            )
        if isinstance(reference, int | float):
            number = float(reference)
            return lambda message, values: number
        name = str(reference)
        if name in self.names:
            return lambda message, values: values[name]
        if self._answer.has(name):
            path = name.split(".")
            return lambda message, values: _at(message, path)
        suggestion = nearest(name, [*self.names, *self._answer.paths()])
        raise ConfigError(
            f"'{name}' is neither a quantity nor a field of {self._answer.name}",
            key=key,
            fix=f"did you mean '{suggestion}'?"
            if suggestion
            else f"fields: {', '.join(self._answer.paths())}",
        )

    def _add(self, name: str, entry: Mapping[str, Any]) -> None:
        key = f"quantities.{name}"
        known = [*_OPERATIONS, *_CHANGES]
        chosen = [word for word in entry if word in known]
        if len(chosen) != 1:
            unknown = next(iter(entry), "")
            suggestion = nearest(str(unknown), known) if not chosen else None
            raise ConfigError(
                f"expected one operation, got {', '.join(chosen) or repr(unknown)}",
                key=key,
                fix=f"did you mean '{suggestion}'?" if suggestion else f"one of: {', '.join(known)}",
            )
        operation = chosen[0]
        count, allowed = (1, ()) if operation in _CHANGES else _OPERATIONS[operation][1:]
        for word in entry:
            if word != operation and word not in allowed:
                raise ConfigError(
                    f"{operation} has no option '{word}'", key=key, fix=_usage(operation, allowed)
                )
        if missing := [word for word in allowed if word not in entry]:
            raise ConfigError(f"{operation} needs '{missing[0]}'", key=key, fix=_usage(operation, allowed))
        arguments = entry[operation]
        arguments = arguments if isinstance(arguments, list) else [arguments]
        if len(arguments) != count:
            raise ConfigError(
                f"{operation} takes {count} values, got {len(arguments)}",
                key=key,
                fix=_usage(operation, allowed),
            )
        sources = [self.source(argument, key) for argument in arguments]
        options = {word: self.source(entry[word], key) for word in allowed}
        self._steps.append((name, operation, sources, options))
        self.names.add(name)


def as_numbers(value: Value) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a quantity as a flat array."""
    return np.asarray(value, dtype=np.float32).reshape(-1)


def _usage(operation: str, allowed: tuple[str, ...]) -> str:
    options = "".join(f", {word}: …" for word in allowed)
    return f"write {{{operation}: …{options}}}"


def _at(message: Message, path: list[str]) -> Value:
    for name in path:
        message = message[name]
    return message


def _relative_position(own: Message, other: Message) -> Value:
    """Return the position of `other` relative to `own`: distance to the right and ahead. Degrees; y is ahead."""
    turn = math.radians(own["theta"])
    right, ahead = other["x"] - own["x"], other["y"] - own["y"]
    cos, sin = math.cos(turn), math.sin(turn)
    return np.array([cos * right + sin * ahead, cos * ahead - sin * right])


def _length(value: Value) -> float:
    return math.hypot(*np.ravel(value).tolist())


def _shortened(value: Value, to: float) -> Value:
    """Divide by `to`, or by the length of the value if it is larger: the result is at most 1 long."""
    return value / max(_length(value), to)


def _normalized(value: Value, low: float, high: float) -> Value:
    """Map low..high to 0..1."""
    return (value - low) / (high - low) if high != low else value * 0.0


def _sin_cos(degrees: float) -> Value:
    return np.array([math.sin(math.radians(degrees)), math.cos(math.radians(degrees))])


# name -> function, number of values, options
_OPERATIONS: dict[str, tuple[Callable[..., Value], int, tuple[str, ...]]] = {
    "value": (lambda a: np.asarray(a, dtype=np.float64) if np.ndim(a) else float(a), 1, ()),
    "relative_position": (_relative_position, 2, ()),
    "norm": (_length, 1, ()),
    "least": (lambda a: float(np.min(a)) if np.size(a) else 0.0, 1, ()),
    "shortened": (_shortened, 1, ("to",)),
    "scaled": (lambda a, by: a * by, 1, ("by",)),
    "normalized": (_normalized, 1, ("low", "high")),
    "clipped": (lambda a, low, high: np.clip(a, low, high), 1, ("low", "high")),
    "ratio": (lambda a, b: a / b if b else 0.0, 2, ()),
    "product": (lambda a, b: a * b, 2, ()),
    "sin_cos": (_sin_cos, 1, ()),
    "at_least": (lambda a, b: float(a >= b), 2, ()),
    "at_most": (lambda a, b: float(a <= b), 2, ()),
}
# difference to the previous step; 0 in the first step
_CHANGES = {"increase": 1.0, "decrease": -1.0}
