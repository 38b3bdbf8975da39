"""JSON that restores exactly the written values, or raises.

Plain `json` writes NaN, which is not valid JSON, and silently turns the key 1 into "1". Here
floats that JSON cannot hold are written as `{"__float__": "nan"}`, and a value that would change is a TypeError.

Small files that are read back are *sealed*: their last member is the sha256 of everything before it. One without is
accepted as it is: it was written by hand, or a user edited it and removed the seal.
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
    """Return `value` (None, bool, int, float, str, list, tuple, str-keyed mapping, numpy scalar) as JSON text.

    Tuples become lists. Raises a TypeError that names the position of any other value.
    """
    return json.dumps(_encode(value, "value"), allow_nan=False, indent=indent)


def loads(text: str) -> Any:
    """Return the value that `dumps` wrote. Raises ValueError if `text` is not strict JSON."""
    try:
        return json.loads(text, object_hook=_decode, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps_sealed(value: Mapping[str, Any]) -> str:
    """Return a JSON object (not empty) with a checksum; `loads_sealed` raises if a byte of it has changed."""
    head = dumps(value, indent=2).removesuffix("\n}")
    return f'{head},\n  "{_SEAL}": "{_digest(head)}"\n}}\n'


def loads_sealed(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`, without its seal. Raises ValueError if it is not one, or was changed."""
    found = loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    seal = _SEALED.search(text)
    if seal is None and _SEAL not in found and not any(map(_looks_like_a_seal, found.values())):
        return found
    if seal is None or _digest(text[: seal.start()]) != seal[1]:
        raise ValueError(f"checksum mismatch; if you edited the file on purpose, remove its {_SEAL}")
    del found[_SEAL]
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _looks_like_a_seal(value: object) -> bool:
    """Detect a seal by its value, also if its name was changed."""
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
