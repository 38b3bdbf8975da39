"""Arrays that a run saves when a fault occurs, for inspection, in a file format that cannot run code.

<run>/faults/<step>.safetensors: the arrays by name; its metadata says what was wrong. Bounded in size and number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from ludus.runs import atomic
from ludus.types import Array

MAX_BYTES = 32 << 20
MAX_FILES = 3
_KINDS = "fiub"


def keep_evidence(folder: Path, step: int, arrays: Mapping[str, Any], about: Mapping[str, str]) -> Path:
    """Write `arrays` (and dicts of arrays) to `folder`; long arrays keep their first rows. Raises OSError."""
    flat = {name: array for name, array in _flat(arrays) if array.dtype.kind in _KINDS}
    excess = sum(array.nbytes for array in flat.values()) / MAX_BYTES
    if excess > 1:
        flat = {name: _head(array, excess) for name, array in flat.items()}
        about = {**about, "cut": "each array holds its first rows only"}
    ready = {name: np.ascontiguousarray(array) for name, array in flat.items()}
    folder.mkdir(exist_ok=True)
    path = folder / f"{step:012d}.safetensors"
    atomic.write_atomic(path, safetensors.numpy.save(ready, metadata=dict(about)))
    for old in sorted(folder.glob("*.safetensors"))[:-MAX_FILES]:
        atomic.remove(old)
    return path


def _flat(arrays: Mapping[str, Any]) -> list[tuple[str, Array]]:
    found: list[tuple[str, Array]] = []
    for name, value in arrays.items():
        if isinstance(value, Mapping):
            found += [(f"{name}.{key}", array) for key, array in _flat(value)]
        else:
            found.append((name, np.asarray(value)))
    return found


def _head(array: Array, excess: float) -> Array:
    return array[: int(len(array) / excess)] if array.ndim else array
