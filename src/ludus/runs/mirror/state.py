"""What this machine knows of a run's mirror: where it is, what went up, what is missing and why.

`<run>/.mirror/state.json` is not mirrored itself. Losing it costs time, never truth: the inventory there says the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ludus.runs import atomic, strict_json
from ludus.runs.mirror.inventory import Stored

Stat = tuple[int, int, int]
"""Size, time of the last change and inode of a file."""

FOLDER = ".mirror"
FILENAME = "state.json"


@dataclass
class MirrorState:
    """`at` is the run's own folder in the mirror. `loose` files are there, verified, but in no inventory yet.

    `based_on` is when the inventory was written that the loose ones were to follow; None: there was none.
    """

    at: str
    mirrored: str | None = None
    """When the mirror last had everything, in ISO form."""
    missing: int = 0
    """How many files of the run were not there at the last look."""
    trouble: str | None = None
    based_on: str | None = None
    loose: dict[str, Stored] = field(default_factory=dict)
    seen: dict[str, Stat] = field(default_factory=dict)
    """The files that are there as they were then; one that still looks the same is not read again."""

    @classmethod
    def load(cls, run: Path) -> MirrorState | None:
        """The state of the run directory `run`; None where it was never mirrored, or nothing can be read of it."""
        try:
            return cls.parse((run / FOLDER / FILENAME).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    @classmethod
    def parse(cls, text: str) -> MirrorState:
        """The state that a file holds; ValueError where it holds none."""
        try:
            found = strict_json.loads(text)
            state = cls(**found)
            state.loose = {str(path): Stored(**entry) for path, entry in found["loose"].items()}
            state.seen = {str(path): _stat(*entry) for path, entry in found["seen"].items()}
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"no state of a mirror: {error}") from None
        words = (state.mirrored, state.trouble, state.based_on)
        if not isinstance(state.at, str) or not isinstance(state.missing, int):
            raise ValueError("no state of a mirror")
        if not all(word is None or isinstance(word, str) for word in words):
            raise ValueError("no state of a mirror")
        return state

    def save(self, run: Path) -> None:
        """Best effort: a disk that is full must not be the mirror's trouble as well."""
        with contextlib.suppress(OSError):
            (run / FOLDER).mkdir(exist_ok=True)
            atomic.write_atomic(run / FOLDER / FILENAME, strict_json.dumps(asdict(self), indent=1) + "\n")

    @property
    def is_behind(self) -> bool:
        """Whether it is in trouble, or lacks files."""
        return self.trouble is not None or self.missing > 0

    @property
    def condition(self) -> str:
        """How it is, for people: `whole`, or what is wrong."""
        missing = f"{self.missing} file{'s are' if self.missing > 1 else ' is'} missing there"
        if self.trouble is not None:
            return f"{self.trouble}, {missing}" if self.missing else self.trouble
        return missing if self.missing else "whole"

    def in_words(self) -> str:
        """One line for people: where it is, and how."""
        return f"{self.at}: {self.condition}"

    def summary(self) -> dict[str, str | int | None]:
        """For `--json`."""
        return {
            "url": self.at,
            "mirrored": self.mirrored,
            "missing": self.missing,
            "trouble": self.trouble,
        }


def _stat(size: int, changed: int, inode: int) -> Stat:
    return size, changed, inode
