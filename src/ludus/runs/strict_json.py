"""JSON that gives back exactly what was put in, or refuses it.

Plain `json` writes NaN as a word no other reader accepts and turns the key 1 into "1" without a word. Here
floats that JSON cannot hold are written as `{"__float__": "nan"}`, and what would change is a TypeError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_FLOAT = "__float__"


def dumps(value: Any, *, indent: int | None = None) -> str:
    """`value` (None, bool, int, float, str, list, tuple, str-keyed mapping, numpy scalar) as JSON text.

    Tuples come back as lists. TypeError names the place of anything else.
    """
    return json.dumps(_encode(value, "value"), allow_nan=False, indent=indent)


def loads(text: str) -> Any:
    """What `dumps` was given; ValueError when `text` is not strict JSON."""
    try:
        return json.loads(text, object_hook=_decode, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _encode(value: Any, place: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT: repr(float(value))}
    if isinstance(value, list | tuple):
        return [_encode(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT:
                raise TypeError(f"{place} has the key {key!r}, which JSON cannot give back")
        return {key: _encode(item, f"{place}[{key!r}]") for key, item in value.items()}
    raise TypeError(f"{place} is a {type(value).__name__}, which JSON cannot give back")


def _decode(found: dict[str, Any]) -> Any:
    if found.keys() == {_FLOAT} and found[_FLOAT] in ("nan", "inf", "-inf"):
        return float(found[_FLOAT])
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not strict JSON")
