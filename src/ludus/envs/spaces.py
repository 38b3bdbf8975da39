"""Observation and action spaces as JSON, for checkpoints and run files, and as short text for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.errors import UserError
from ludus.types import Array

_MAX_ELEMENTS = 100_000_000  # a damaged file must not allocate all memory
_BOX_DTYPES = {
    *("float16", "float32", "float64", "bool", "uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64"),
}
_FIELDS = {
    "Box": {"shape", "dtype", "low", "high"},
    "Discrete": {"n", "start"},
    "MultiDiscrete": {"nvec", "start"},
    "MultiBinary": {"shape"},
    "Dict": {"spaces"},
}


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return `space` as JSON data for `space_from_json`. Raises UserError for a space that is not supported."""
    match space:
        case spaces.Box():
            low, high = _bounds_to_json(space.low), _bounds_to_json(space.high)
            return {
                "type": "Box",
                "shape": list(space.shape),
                "dtype": space.dtype.name,
                "low": low,
                "high": high,
            }
        case spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case spaces.Dict():
            return {"type": "Dict", "spaces": {key: space_to_json(part) for key, part in space.items()}}
    raise UserError(
        f"the space {space} is of a kind Ludus cannot use",
        where=type(space).__name__,
        fix="use Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of these",
    )


def space_from_json(data: Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space that `space_to_json` described. Raises UserError for anything else."""
    kind = data.get("type") if isinstance(data, Mapping) else None
    if kind not in _FIELDS:
        raise _unreadable(f"unknown type {kind!r}")
    if set(data) != _FIELDS[kind] | {"type"}:
        raise _unreadable(f"{kind} has the fields {sorted(data)}, not {sorted(_FIELDS[kind] | {'type'})}")
    try:
        match kind:
            case "Box":
                return _box_from_json(data)
            case "Discrete":
                return spaces.Discrete(_integer(data["n"]), start=_integer(data["start"]))
            case "MultiDiscrete":
                nvec, start = (_numbers(data[key]).astype(np.int64) for key in ("nvec", "start"))
                return spaces.MultiDiscrete(nvec, start=start)
            case "MultiBinary":
                shape = _shape(data["shape"])
                return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
            case _:
                return spaces.Dict({str(key): space_from_json(part) for key, part in data["spaces"].items()})
    # gymnasium's constructors check their arguments by assertion
    except (ValueError, TypeError, AttributeError, AssertionError, OverflowError) as error:
        raise _unreadable(f"{kind}: {error}") from None


def describe_space(space: spaces.Space[Any]) -> str:
    """Describe `space` in a few words: `4 numbers`, `3 numbers in [-1, 1]`, `image 84x84x4`, `one of 6`."""
    match space:
        case spaces.Box():
            if len(space.shape) in (2, 3) and space.dtype == np.uint8:
                return f"image {'x'.join(map(str, space.shape))}"
            size = "x".join(map(str, space.shape)) or "1"
            noun = "number" if size == "1" else "numbers"
            if space.low.size == 0 or space.low.min() == -math.inf or space.high.max() == math.inf:
                return f"{size} {noun}"
            return f"{size} {noun} in [{float(space.low.min()):g}, {float(space.high.max()):g}]"
        case spaces.Discrete():
            return f"one of {space.n}"
        case spaces.MultiDiscrete():
            return f"{space.nvec.size} choices ({' x '.join(str(n) for n in space.nvec.reshape(-1))})"
        case spaces.MultiBinary():
            return f"{math.prod(space.shape)} switches"
        case spaces.Dict():
            return "{" + ", ".join(f"{key}: {describe_space(part)}" for key, part in space.items()) + "}"
    return str(space)


def _box_from_json(data: Mapping[str, Any]) -> spaces.Box:
    shape = _shape(data["shape"])
    if data["dtype"] not in _BOX_DTYPES:
        raise ValueError(f"unknown dtype {data['dtype']!r}")
    dtype = np.dtype(data["dtype"])
    low, high = (_bounds_from_json(data[key], shape, dtype) for key in ("low", "high"))
    return spaces.Box(low, high, shape=shape, dtype=dtype.type)


def _bounds_to_json(bound: Array) -> Any:
    """Return one number if all are equal (an image has 28,224 equal bounds), else nested lists."""
    if bound.size and (bound == bound.flat[0]).all():
        return _number_to_json(bound.flat[0].item())
    return _nested(bound.tolist())


def _nested(value: Any) -> Any:
    return [_nested(item) for item in value] if isinstance(value, list) else _number_to_json(value)


def _number_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")  # JSON has no infinity


def _bounds_from_json(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    bound = _numbers(value)
    if bound.shape not in ((), shape):
        raise ValueError(f"bounds of shape {bound.shape} for a space of shape {shape}")
    return np.broadcast_to(bound, shape).astype(dtype)


def _numbers(value: Any) -> Array:
    def number(item: Any) -> Any:
        if isinstance(item, list):
            return [number(inner) for inner in item]
        if item in ("inf", "-inf"):
            return float(item)
        if not isinstance(item, int | float) or math.isnan(item):
            raise ValueError(f"{item!r} is not a number")
        return item

    return np.array(number(value))


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    shape = tuple(_integer(side) for side in value)
    if any(side < 0 for side in shape) or math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"impossible shape {list(shape)}")
    return shape


def _unreadable(what: str) -> UserError:
    return UserError(
        f"a saved space cannot be read: {what}",
        where="space description",
        fix="the file is damaged or was written by another version of Ludus",
    )
