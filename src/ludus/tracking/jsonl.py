"""JSON Lines files: one row a line, always valid JSON, cut back to a saved byte offset at resume.

JSON has no NaN and no infinity, so a non-finite number is written as null. A process killed while writing
leaves at most one torn line, the last; readers skip it and the next writer cuts it off.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import CheckpointError

_log = logging.getLogger("ludus.tracking")


class JsonlWriter:
    """Appends rows to `path`, which is created with its folders when missing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_tail(self.path)
        self._file = self.path.open("ab")
        self._synced = self._file.tell()

    @property
    def offset(self) -> int:
        """Bytes that are safely on disk: the file's size at the last `sync()` (or when it was opened)."""
        return self._synced

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row. NumPy scalars are accepted; raises TypeError on what JSON cannot hold."""
        try:
            line = _encode(row)
        except ValueError:  # a non-finite number: rare, so only then is the row rebuilt
            line = _encode(_finite(row))
        self._file.write(line.encode() + b"\n")

    def flush(self) -> None:
        """Make the rows visible to readers."""
        self._file.flush()

    def sync(self) -> None:
        """Put the rows safely on disk and move `offset` to the end of the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = self._file.tell()

    def close(self) -> None:
        """Sync and close; closing twice is harmless."""
        if not self._file.closed:
            self.sync()
            self._file.close()


def truncate(path: str | Path, offset: int) -> None:
    """Cut `path` back to its first `offset` bytes, as saved in a checkpoint.

    Raises CheckpointError, leaving the file as it is, when it is missing, shorter than that, or has no row
    ending there.
    """
    path = Path(path)
    if not path.is_file():
        raise _mismatch(path, f"{path.name} is missing")
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size < offset:
            raise _mismatch(path, f"{path.name} has {size:,} bytes; the checkpoint was saved at {offset:,}")
        if offset > 0:
            file.seek(offset - 1)
            if file.read(1) != b"\n":
                raise _mismatch(
                    path, f"{path.name} has no row ending at byte {offset:,}, as the checkpoint says"
                )
        file.truncate(offset)
        os.fsync(file.fileno())


def read_jsonl(path: str | Path) -> Iterator[dict[str, Any]]:
    """The rows of `path` in order, also while another process is appending to it.

    A torn last line is skipped; any other damaged line is skipped with a warning that names it. Raises
    FileNotFoundError when there is no such file.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode())
            except ValueError:
                row = None
            if isinstance(row, dict):
                yield row
            elif line.endswith(b"\n"):
                _log.warning("%s: line %d is damaged and was skipped", path, number)


def _cut_torn_tail(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        keep = end = file.seek(0, os.SEEK_END)
        while keep > 0:
            start = max(0, keep - 65536)
            file.seek(start)
            newline = file.read(keep - start).rfind(b"\n")
            if newline >= 0:
                keep = start + newline + 1
                break
            keep = start
        if keep < end:
            file.truncate(keep)


def _scalar(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a row holds a {type(value).__name__}, which is not a number, text or list")


_encode = json.JSONEncoder(allow_nan=False, default=_scalar).encode


def _finite(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _mismatch(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"cannot continue the run's metrics: {what}",
        where=str(path),
        fix="restore the file from a copy, resume from an older checkpoint, or start a new run",
    )
