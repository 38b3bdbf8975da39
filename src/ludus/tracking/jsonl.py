"""JSON Lines files: one row per line, always valid JSON. Resume truncates them to the rows of its checkpoint.

A checkpoint keeps the size and the sha256 of such a file (`Extent`). This way a change to any row
before it is noticed, also one that leaves valid JSON.

JSON has no NaN and no infinity, so a non-finite number is written as null. A process killed while writing
leaves at most one torn line, the last; readers skip it and the next writer cuts it off.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ludus.errors import CheckpointError

_log = logging.getLogger("ludus.tracking")

LONGEST_LINE = 4 << 20
"""Most bytes of a row; a longer line counts as damaged and is never held in memory."""


@dataclass(frozen=True)
class Extent:
    """The first `size` bytes of a file, and the sha256 of them; None where an older version did not keep it."""

    size: int
    sha256: str | None = None


class JsonlWriter:
    """Appends rows to `path`, which is created with its folders when missing.

    Rows wait in memory until `flush`. If it fails, they stay in memory and the next `flush` tries again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_tail(self.path)
        self._file = self.path.open("a+b", buffering=0)
        self._folder = os.stat(self.path.parent)
        self._waiting = bytearray()
        self._digest = hashlib.sha256()
        with self.path.open("rb") as file:
            _feed(self._digest, file, self._file.tell())
        self._synced = Extent(self._file.tell(), self._digest.hexdigest())

    @property
    def extent(self) -> Extent:
        """Part of the file that is safely on disk: up to the last `sync()` (or when it was opened)."""
        return self._synced

    @property
    def offset(self) -> int:
        """Bytes that are safely on disk."""
        return self._synced.size

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row. NumPy scalars are accepted; raises TypeError on what JSON cannot hold."""
        try:
            line = _encode(row)
        except ValueError:  # a non-finite number: rare, so only then is the row rebuilt
            line = _encode(_finite(row))
        data = line.encode() + b"\n"
        self._waiting += data
        self._digest.update(data)

    def require_in_place(self) -> None:
        """Check that `path` is still the open file; otherwise restore it from the open file.

        Raises FileNotFoundError when its folder is gone: what is written now would be lost with the open file.
        """
        try:
            if os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno())):
                return
        except FileNotFoundError:
            pass
        folder = self.path.parent
        if not (folder.is_dir() and os.path.samestat(os.stat(folder), self._folder)):
            raise FileNotFoundError(
                errno.ENOENT, "the folder was removed or renamed while Ludus was writing to it", str(folder)
            )
        self._put_back()

    def flush(self) -> None:
        """Make the rows visible to readers. Raises OSError as `require_in_place` does."""
        if self._waiting:
            self.require_in_place()
        while self._waiting:
            # a full disk may accept a part of a row; the rest is appended later
            del self._waiting[: self._file.write(self._waiting) or 0]

    def sync(self) -> None:
        """Put the rows safely on disk and move `extent` to the end of the file."""
        self.require_in_place()
        self.flush()
        os.fsync(self._file.fileno())
        self._synced = Extent(self._file.tell(), self._digest.hexdigest())

    def close(self) -> None:
        """Sync and close, even if the sync fails; closing twice is harmless."""
        if not self._file.closed:
            try:
                self.sync()
            finally:
                self._file.close()

    def _put_back(self) -> None:
        """Write the content of the open file to `path` again; what is there now is kept as `NAME.damaged`."""
        replaced = self.path.exists()
        if replaced:
            os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
        _log.error(
            "ALARM: %s was %s while Ludus was writing to it; its content was restored",
            self.path,
            "replaced" if replaced else "removed",
        )
        draft = self.path.with_name(f".tmp-{self.path.name}-{os.getpid()}")
        with draft.open("wb") as copy:
            self._file.seek(0)
            shutil.copyfileobj(self._file, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.replace(draft, self.path)
        self._file.close()
        self._file = self.path.open("a+b", buffering=0)


def check_extent(path: str | Path, saved: Extent) -> None:
    """Raise CheckpointError unless `path` begins with the bytes of `saved`."""
    path = Path(path)
    if not path.is_file():
        raise _mismatch(path, f"{path.name} is missing")
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < saved.size:
            raise _mismatch(
                path, f"{path.name} has {size:,} bytes; the checkpoint was saved at {saved.size:,}"
            )
        if saved.size > 0:
            file.seek(saved.size - 1)
            if file.read(1) != b"\n":
                raise _mismatch(
                    path, f"{path.name} has no row ending at byte {saved.size:,}, as the checkpoint says"
                )
        if saved.sha256 is not None:
            digest = hashlib.sha256()
            file.seek(0)
            _feed(digest, file, saved.size)
            if digest.hexdigest() != saved.sha256:
                raise _mismatch(
                    path, f"the first {saved.size:,} bytes of {path.name} are not what was written"
                )


def truncate(path: str | Path, saved: Extent, *, whatever_it_holds: bool = False) -> None:
    """Truncate `path` to the extent that a checkpoint saved.

    Raises CheckpointError as `check_extent` does, and leaves the file as it is. `whatever_it_holds` accepts the rows as
    they are, also fewer or other rows; only a missing file is an error then.
    """
    path = Path(path)
    if not whatever_it_holds or not path.is_file():
        check_extent(path, saved)
    with path.open("r+b") as file:
        file.truncate(min(saved.size, file.seek(0, os.SEEK_END)))
        os.fsync(file.fileno())


def read_jsonl(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of `path` in order, also while another process is appending to it.

    A torn last line is skipped; any other damaged line is skipped with a warning that names it. Raises
    FileNotFoundError when there is no such file.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE:  # the beginning of one that is longer
                _skip_line(file, line)
                line = b"?\n"
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode())
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                yield row
            elif line.endswith(b"\n"):
                _log.warning("%s: line %d is damaged and was skipped", path, number)


def _feed(digest: hashlib._Hash, file: BinaryIO, size: int) -> None:
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        digest.update(piece)
        size -= len(piece)


def _skip_line(file: BinaryIO, read: bytes) -> None:
    """Skip the rest of the line that `read` is the beginning of."""
    while read and not read.endswith(b"\n"):
        read = file.readline(LONGEST_LINE)


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
        what,
        where=str(path),
        fix="restore the file from a copy; `--checkpoint latest` continues after the rows as they are",
    )
