"""MIRROR.json, the inventory of a mirror: the files of the run, with their names in the mirror, sizes and sha256.

It is written last. The files it lists exist and were verified; other files in the folder are unfinished or left over. A
changed file gets a new name, so all files of the previous inventory stay unchanged until the next one is written. So
the mirror is complete as of its inventory at any time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import ludus
from ludus.errors import UserError
from ludus.runs import strict_json

FILENAME = "MIRROR.json"
SPARE = "MIRROR.spare.json"
"""Written before MIRROR.json. If files cannot be replaced atomically, one of the two always exists."""
FORMAT_VERSION = 1
MAX_BYTES = 256 * 2**20

_SHA256 = re.compile(r"[0-9a-f]{64}")


class DamagedInventory(UserError):
    """The inventory is damaged."""


@dataclass(frozen=True)
class Stored:
    """A file in the mirror. `name` is relative to the run's folder there; empty files have no name."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Identity:
    """The identity of a run. `created` distinguishes runs of the same name."""

    name: str
    env_id: str
    algorithm: str
    created: str


@dataclass(frozen=True)
class Inventory:
    """The content of one MIRROR.json. Not `whole`: when it was written, some files were not uploaded yet."""

    run: Identity
    files: dict[str, Stored]
    whole: bool
    written: str

    def as_json(self) -> str:
        content = {
            "format": FORMAT_VERSION,
            "ludus": ludus.__version__,
            "run": vars(self.run),
            "written": self.written,
            "whole": self.whole,
            "files": {path: vars(stored) for path, stored in sorted(self.files.items())},
        }
        return strict_json.dumps(content, indent=1) + "\n"

    @classmethod
    def parse(cls, data: bytes, where: str) -> Inventory:
        """Parse the output of `as_json`. DamagedInventory if it is invalid, or has paths outside the run's folder.

        UserError if a newer version of Ludus wrote it.
        """
        try:
            found = strict_json.loads(data.decode("utf-8"))
            if _typed(found["format"], int) > FORMAT_VERSION:
                raise UserError(
                    "the mirror was written by a newer version of Ludus", where=where, fix="update Ludus"
                )
            run = {key: _typed(found["run"][key], str) for key in Identity.__dataclass_fields__}
            files = {path: _stored(path, entry) for path, entry in found["files"].items()}
            written, whole = _typed(found["written"], str), _typed(found["whole"], bool)
            return cls(Identity(**run), files, whole, written)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedInventory(
                f"{FILENAME} is invalid ({type(error).__name__}: {str(error)[:200]})",
                where=where,
                fix="mirror the run again from its own machine: ludus mirror RUN URL",
            ) from error


def is_run_path(path: str) -> bool:
    """Return whether `path` may be a file inside a run: relative, forward slashes, not hidden, no `..`."""
    parts = path.split("/")
    return (
        path == str(PurePosixPath(path))
        and not any(part.startswith(".") or not part for part in parts)
        and re.search(r"[\\:\x00-\x1f]", path) is None
        and path not in ("run.lock", FILENAME, SPARE)
    )


def renamed(path: str, sha256: str) -> str:
    """Return another name for `path`, from its hash: `report.html` becomes `report.1f8b44c0a2d3.html`."""
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem}.{sha256[:12]}{pure.suffix}"))


def _stored(path: str, entry: dict[str, Any]) -> Stored:
    stored = Stored(_typed(entry["name"], str), _typed(entry["size"], int), _typed(entry["sha256"], str))
    # an inventory is untrusted input: it must not lead outside the run's folder
    if not is_run_path(path) or not (is_run_path(stored.name) or (stored.size == 0 and not stored.name)):
        raise ValueError(f"file name {path!r}")
    if stored.size < 0 or _SHA256.fullmatch(stored.sha256) is None:
        raise ValueError(f"size or hash of {path!r}")
    return stored


def _typed(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value
