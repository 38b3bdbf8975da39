"""JSON that gives back exactly what was put in, or refuses it.

Plain `json` writes NaN as a word no other reader accepts and turns the key 1 into "1" without a word. Here
floats that JSON cannot hold are written as `{"__float__": "nan"}`, and what would change is a TypeError.

Small files that are read back are *sealed*: their last member is the sha256 of everything before it. One without is
taken as it is: it was written by hand, or changed by somebody who took the seal away.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_FLOAT = "__float__"
_SEAL = "sha256"
_SEALED = re.compile(r',\n  "sha256": "([0-9a-f]{64})"\n}\n\Z')


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


def dumps_sealed(value: Mapping[str, Any]) -> str:
    """A JSON object, of one member at least, that `loads_sealed` gives back only if no byte of it has changed."""
    head = dumps(value, indent=2).removesuffix("\n}")
    return f'{head},\n  "{_SEAL}": "{_digest(head)}"\n}}\n'


def loads_sealed(text: str) -> dict[str, Any]:
    """The JSON object in `text`, without its seal; ValueError when it is none, or not as it was written."""
    found = loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    seal = _SEALED.search(text)
    if seal is None and _SEAL not in found and not any(map(_looks_like_a_seal, found.values())):
        return found
    if seal is None or _digest(text[: seal.start()]) != seal[1]:
        raise ValueError(f"it is not what was written; whoever changed it on purpose takes its {_SEAL} away")
    del found[_SEAL]
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _looks_like_a_seal(value: object) -> bool:
    """Whatever the name before it has become."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


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
