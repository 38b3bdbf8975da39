"""Local state of a run's mirror: its address, uploaded files, missing files and the last error.

`<run>/.mirror/state.json` is not mirrored. If it is lost, it is rebuilt from the inventory in the mirror.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ludus.plain_files import read_plain
from ludus.runs import atomic, strict_json
from ludus.runs.mirror.inventory import Stored

Stat = tuple[int, int, int]
"""Size, modification time and inode of a file."""

FOLDER = ".mirror"
FILENAME = "state.json"
_LARGEST = 64 << 20


@dataclass
class MirrorState:
    """State of a mirror. `at` is the address of the run's folder in it.

    `loose` files are uploaded and verified, but not listed in an inventory yet.

    `based_on` is the time of the inventory that precedes the loose files; None if there was none.
    """

    at: str
    mirrored: str | None = None
    """Time when the mirror was last complete, in ISO format."""
    missing: int = 0
    """Number of files that were missing in the mirror at the last check."""
    trouble: str | None = None
    """Message of the last error; None after a pass without errors."""
    based_on: str | None = None
    loose: dict[str, Stored] = field(default_factory=dict)
    seen: dict[str, Stat] = field(default_factory=dict)
    """Stats of the files when they were uploaded; an unchanged file is not read again."""

    @classmethod
    def load(cls, run: Path) -> MirrorState | None:
        """Load the state of the run directory `run`; None if it was never mirrored, or the file cannot be read."""
        try:
            return cls.parse(read_plain(run / FOLDER / FILENAME, _LARGEST).decode("utf-8"))
        except (OSError, ValueError):
            return None

    @classmethod
    def parse(cls, text: str) -> MirrorState:
        """Parse the content of a state file. ValueError if it is invalid."""
        try:
            data = strict_json.loads(text)
            state = cls(**data)
            state.loose = {str(path): Stored(**entry) for path, entry in data["loose"].items()}
            state.seen = {str(path): _stat(*entry) for path, entry in data["seen"].items()}
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"invalid state of a mirror: {error}") from None
        texts = (state.mirrored, state.trouble, state.based_on)
        if not isinstance(state.at, str) or not isinstance(state.missing, int):
            raise ValueError("invalid state of a mirror")
        if not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("invalid state of a mirror")
        return state

    def save(self, run: Path) -> None:
        """Write the state if possible: a full disk must not stop the mirror as well."""
        with contextlib.suppress(OSError):
            (run / FOLDER).mkdir(exist_ok=True)
            atomic.write_atomic(run / FOLDER / FILENAME, strict_json.dumps(asdict(self), indent=1) + "\n")

    @property
    def is_behind(self) -> bool:
        """True if the last pass failed, or files are missing."""
        return self.trouble is not None or self.missing > 0

    @property
    def condition(self) -> str:
        """Return the condition for display: `whole`, or the problem."""
        missing = f"{self.missing} file{'s are' if self.missing > 1 else ' is'} missing there"
        if self.trouble is not None:
            return f"{self.trouble}, {missing}" if self.missing else self.trouble
        return missing if self.missing else "whole"

    def in_words(self) -> str:
        """Return one line for display: the address and the condition."""
        return f"{self.at}: {self.condition}"

    def summary(self) -> dict[str, str | int | None]:
        """Return the state as data for `--json`."""
        return {
            "url": self.at,
            "mirrored": self.mirrored,
            "missing": self.missing,
            "trouble": self.trouble,
        }


def _stat(size: int, changed: int, inode: int) -> Stat:
    return size, changed, inode
