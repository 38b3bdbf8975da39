"""Translate a foreign document to Ludus's keys. Every key is accounted for: none is dropped silently."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ludus.config.importers.document import Document
from ludus.config.importers.literals import Symbol, unreadable_in
from ludus.config.plain_yaml import Key
from ludus.errors import ConfigError, printable

SB3_DEFAULT = "default of Stable-Baselines3"


@dataclass(frozen=True)
class ImportOptions:
    """Choice on the command line among the settings of a file, which may contain those of many envs."""

    env: str | None = None
    algorithm: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Remark:
    """A foreign key without a counterpart. `lost`: the run will differ; else `why` says that it is not needed."""

    key: str
    place: str
    value: Any
    why: str
    lost: bool

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.why}")


@dataclass(frozen=True)
class PlaySection:
    """The part of a foreign config about playing: a run by name, and which of its models."""

    experiment: str
    model: str
    place: str
    model_place: str


@dataclass(frozen=True)
class Imported:
    """A foreign config in Ludus's terms: data for TrainerConfig, the place of each key, and what was left.

    `chosen` are the options it takes to choose the same settings from the file again.
    """

    kind: str
    data: dict[str, Any]
    places: dict[Key, str]
    remarks: list[Remark] = field(default_factory=list)
    play: PlaySection | None = None
    chosen: tuple[str, ...] = ()

    @property
    def lost(self) -> list[Remark]:
        return [remark for remark in self.remarks if remark.lost]

    @property
    def notes(self) -> list[Remark]:
        return [remark for remark in self.remarks if not remark.lost]


class Translation:
    """Takes keys from a document and puts them where Ludus has them.

    `reserved` are keys with a meaning in the format itself, in addition to the arguments of an algorithm.
    """

    def __init__(self, document: Document, kind: str) -> None:
        self.document = document
        self.kind = kind
        self.data: dict[str, Any] = {}
        self.places: dict[Key, str] = {}
        self.remarks: list[Remark] = []
        self.play: PlaySection | None = None
        self.chosen: tuple[str, ...] = ()
        self.reserved: set[str] = set()
        self._taken: set[Key] = set()
        self._asked: dict[Key, set[str]] = {}

    # Reading

    def has(self, *key: str) -> bool:
        return self._find(key) is not _MISSING

    def take(self, *key: str, default: Any = None) -> Any:
        """Return the value of a foreign key and mark the key as used; the text 'None' is None."""
        self._asked.setdefault(key[:-1], set()).add(key[-1])
        value = self._find(key)
        if value is _MISSING:
            return default
        self._taken.add(key)
        unreadable = unreadable_in(value)
        if unreadable is not None:
            raise self.error(
                f"{'.'.join(key)} is not a literal: {unreadable.text}",
                key,
                "write its value; the file is never run",
            )
        return _without_none_texts(value)

    def section(self, *key: str) -> dict[str, Any]:
        """Return a section of the document, whose keys are still to be read; empty if it is missing."""
        self._asked.setdefault(key[:-1], set()).add(key[-1])
        value = self._find(key)
        if value is _MISSING or _without_none_texts(value) is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(
                f"{'.'.join(key)} is a section, not {value!r}", key, "write keys and values below it"
            )
        return value

    def integer(self, *key: str, default: int | None = None) -> int | None:
        """A whole number, also written as 1e6 or '1e6'; ConfigError for anything else."""
        value = self.take(*key, default=default)
        if value is None:
            return None
        try:
            number = float(value)
            if isinstance(value, bool) or number != int(number):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise self.error(
                f"{'.'.join(key)} is a whole number, not {value!r}", key, "write a number"
            ) from None
        return int(number)

    # Writing

    def put(self, target: str, value: Any, *source: str, place: str = "") -> None:
        """Set the dotted Ludus key `target`, which came from the foreign key `source` (or from `place`)."""
        path = tuple(target.split("."))
        node = self.data
        for part in path[:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = _plain(value)
        self.places[path] = self.document.place(source) if source else place

    def lose(self, why: str, *key: str) -> None:
        """Record a key that Ludus does not support."""
        self._remark(why, key, lost=True)

    def note(self, why: str, *key: str) -> None:
        """Record a key that needs no counterpart in Ludus."""
        self._remark(why, key, lost=False)

    def remark_at(self, key: str, place: str, value: Any, why: str) -> None:
        """Record a note about a setting of Ludus that no single foreign key caused."""
        self.remarks.append(Remark(key, place, value, why, lost=False))

    def error(self, what: str, key: Sequence[str], fix: str) -> ConfigError:
        return ConfigError(what, where=self.document.place(tuple(key)), fix=fix)

    def finish(self) -> Imported:
        """Record every unused key as lost; ConfigError for a key that looks like a misspelt known one."""
        for key, value in self._rest(self.document.data, ()):
            known = self._asked.get(key[:-1], set()) - set(self._siblings(key))
            close = difflib.get_close_matches(key[-1], known, n=1, cutoff=0.8)
            if close:
                raise self.error(
                    f"unknown key '{key[-1]}'" + (f" in {'.'.join(key[:-1])}" if len(key) > 1 else ""),
                    key,
                    f"did you mean '{close[0]}'?",
                )
            unreadable = unreadable_in(value)
            if unreadable is not None:
                self.lose(f"not a literal, and the file is never run: {unreadable.text}", *key)
            else:
                self.lose("Ludus has no such key", *key)
        if self.document.skipped_lines:
            lines = ", ".join(map(str, self.document.skipped_lines))
            where = f"{self.document.path}, line {lines}"
            self.remarks.append(Remark("", where, None, "code, which is never run", lost=False))
        return Imported(self.kind, self.data, self.places, self.remarks, self.play, self.chosen)

    # Within

    def _remark(self, why: str, key: Key, *, lost: bool) -> None:
        self._taken.add(key)
        value = self._find(key)
        unreadable = unreadable_in(value)
        shown = _plain(value) if unreadable is None else unreadable.text
        self.remarks.append(Remark(".".join(key), self.document.place(key), shown, why, lost))

    def _find(self, key: Key) -> Any:
        node: Any = self.document.data
        for part in key:
            if not isinstance(node, dict) or part not in node:
                return _MISSING
            node = node[part]
        return node

    def _siblings(self, key: Key) -> Iterator[str]:
        parent = self._find(key[:-1]) if len(key) > 1 else self.document.data
        yield from map(str, parent)

    def _rest(self, node: dict[str, Any], prefix: Key) -> Iterator[tuple[Key, Any]]:
        """Return the unused keys, those of sections one by one."""
        for name, value in node.items():
            key = (*prefix, str(name))
            partly = any(taken[: len(key)] == key for taken in self._taken) or key in self._asked
            if key in self._taken or (not partly and len(key) == 1 and name in self.document.ignorable):
                continue
            if isinstance(value, dict) and value and partly:
                yield from self._rest(value, key)
            elif not (isinstance(value, dict) and not value):
                yield key, value


_MISSING = object()


def _without_none_texts(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _plain(value: Any) -> Any:
    """Return `value` with symbols as text, for YAML."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Symbol) else value
