"""A config file of any format: plain data and the line of every key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.config.importers.literals import read_python
from ludus.config.plain_yaml import Key, read_yaml

SUFFIXES = (".yaml", ".yml", ".json", ".py")


@dataclass(frozen=True)
class Document:
    """The content of `path`. `ignorable` are top-level names that only served to spell other values."""

    path: Path
    data: dict[str, Any]
    places: Mapping[Key, str]
    ignorable: frozenset[str] = frozenset()
    skipped_lines: list[int] = field(default_factory=list)

    def place(self, key: Key) -> str:
        """File and line of `key`, with the key itself; of the section around it when its own is not known."""
        for length in range(len(key), 0, -1):
            # the line of a merged key is that of the merge
            for written in (key[:length], (*key[: length - 1], "<<", key[length - 1])):
                if written in self.places:
                    return f"{self.places[written]} ({'.'.join(key)})"
        return f"{self.path} ({'.'.join(key)})" if key else str(self.path)


def read_document(path: Path) -> Document:
    """Read YAML, JSON, or the literals of a Python file. Raises ConfigError."""
    if path.suffix.lower() != ".py":
        data, places = read_yaml(path)
        return Document(path, data, places)
    found = read_python(path)
    return Document(path, found.data, found.places, frozenset(found.used), found.skipped_lines)
