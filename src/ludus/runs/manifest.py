"""MANIFEST.json: the list of files of a checkpoint, and the errors for damaged and foreign checkpoints."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ludus
from ludus.errors import CheckpointError
from ludus.plain_files import is_refusal, read_plain
from ludus.runs import strict_json

FORMAT_VERSION = 1

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Format number N to the function that turns a checkpoint's state of format N into one of format N + 1."""

FILENAME = "MANIFEST.json"
_LARGEST = 4 << 20
ASIDE_PREFIX = ".old-"
"""Prefix of the name of a checkpoint that is being replaced."""

_PLAIN_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PICKLED = {".zip", ".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt"}


class CheckpointFormatError(CheckpointError):
    """An intact checkpoint in a format that this version of Ludus does not know. Never skipped as damaged."""


@dataclass(frozen=True)
class Manifest:
    """The content of one MANIFEST.json; `files` gives the size and sha256 of every other file."""

    format: int
    step: int
    created: str
    exact: bool
    resumable: bool
    files: dict[str, tuple[int, str]]

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Return the manifest in `directory`. Raises CheckpointError if missing or damaged, OSError if unreadable.

        CheckpointFormatError if it is of a format that this version does not know.
        """
        try:
            found = strict_json.loads_sealed(read_plain(directory / FILENAME, _LARGEST).decode("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise _not_a_checkpoint(directory) from None
        except (OSError, ValueError) as error:
            if is_refusal(error):
                raise
            raise damaged(directory, f"{FILENAME} cannot be read ({error})") from error
        try:
            _check_format(directory, _typed(found["format"], int))
            return cls._parse(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(directory, f"{FILENAME} is invalid ({error!r})") from error

    @classmethod
    def _parse(cls, found: dict[str, Any]) -> Manifest:
        manifest = cls(
            format=_typed(found["format"], int),
            step=_typed(found["step"], int),
            created=_typed(found["created"], str),
            exact=_typed(found["exact"], bool),
            resumable=_typed(found["resumable"], bool),
            files={
                name: (_typed(entry["size"], int), _typed(entry["sha256"], str))
                for name, entry in found["files"].items()
            },
        )
        for name in manifest.files:
            # A manifest is input: it must not send the reader outside its own directory.
            if not is_plain_filename(name) or name == FILENAME:
                raise ValueError(f"file name {name!r}")
        return manifest

    def as_json(self) -> str:
        content = {
            "format": self.format,
            "ludus": ludus.__version__,
            "step": self.step,
            "created": self.created,
            "exact": self.exact,
            "resumable": self.resumable,
            "files": {n: {"size": size, "sha256": digest} for n, (size, digest) in self.files.items()},
        }
        return strict_json.dumps_sealed(content)

    def check(self, directory: Path, filename: str) -> None:
        """Raise CheckpointError unless the file has the size and hash it was written with. OSError as in `read`."""
        size, digest = self.files.get(filename, (0, ""))
        path = directory / filename
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                raise damaged(directory, f"{filename} is not a plain file")
            if status.st_size != size:
                raise damaged(directory, f"{filename} has {status.st_size} bytes instead of {size}")
            if file_digest(path) != digest:
                raise damaged(
                    directory, f"checksum mismatch: the content of {filename} is not what was written"
                )
        except FileNotFoundError:
            raise damaged(directory, f"{filename} is missing") from None
        except OSError as error:
            if is_refusal(error):
                raise
            raise damaged(directory, f"{filename} cannot be read ({error})") from error


def is_plain_filename(name: str) -> bool:
    return _PLAIN_FILENAME.fullmatch(name) is not None


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged(directory: Path, reason: str) -> CheckpointError:
    name = directory.name.removeprefix(ASIDE_PREFIX)
    return CheckpointError(
        f"checkpoint '{name}' is damaged: {reason}",
        where=str(directory),
        fix="use another checkpoint of the run, or restore this one from a backup",
    )


def pickled_file(directory: Path) -> str | None:
    """Return the name of a pickle-based file of another library in `directory` (or of that path, if a file)."""
    if directory.is_file():
        return directory.name if directory.suffix in _PICKLED else None
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    return next((name for name in names if Path(name).suffix in _PICKLED), None)


def foreign(directory: Path, filename: str) -> CheckpointError:
    return CheckpointError(
        f"'{directory.name}' is not a Ludus checkpoint: it contains {filename}, and Ludus does not read pickle files",
        where=str(directory),
        fix="use a Ludus run; convert a Stable-Baselines3 model with `ludus import`",
    )


def _not_a_checkpoint(directory: Path) -> CheckpointError:
    filename = pickled_file(directory)
    if filename is not None:
        return foreign(directory, filename)
    if not directory.is_dir():
        return CheckpointError("checkpoint not found", where=str(directory))
    return damaged(directory, f"{FILENAME} is missing")


def _check_format(directory: Path, version: int) -> None:
    if version > FORMAT_VERSION:
        raise CheckpointFormatError(
            f"checkpoint '{directory.name}' was written by a newer Ludus (format {version})",
            where=str(directory),
            fix="update Ludus",
        )
    if any(older not in MIGRATIONS for older in range(version, FORMAT_VERSION)):
        raise CheckpointFormatError(
            f"checkpoint '{directory.name}' has format {version}, which this Ludus no longer reads",
            where=str(directory),
            fix="read it with an older Ludus",
        )


def _typed(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value
