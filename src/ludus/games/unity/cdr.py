"""Messages as bytes: a CDR codec (ROS 2, little-endian) compiled from descriptions of the messages.

A description maps field names to types: `float32`, `string`, another message by its name, `T[]` for a sequence,
`T[<=N]` for a bounded one, `T[N]` for a fixed array. A message is a nested dict; arrays of numbers are NumPy arrays,
`uint8[]` is bytes. Numbers are aligned to their size, counted after the four bytes of the header. Unity's connector
also aligns before the numbers of an empty sequence, unlike ROS itself; this codec does the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ludus.errors import ConfigError, nearest
from ludus.games.unity.cdr_fields import (
    CdrError,
    CdrField,
    Items,
    Leaf,
    Numbers,
    NumberStruct,
    Reader,
    Text,
    filler,
    flattener,
    joined,
)

__all__ = ["HEADER", "CdrCodec", "CdrError", "Message", "compile_messages"]

HEADER = b"\x00\x01\x00\x00"
Message = dict[str, Any]

_FORMATS = {
    "bool": "?",
    "byte": "B",
    "char": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
_TYPE = re.compile(r"(?P<item>[A-Za-z][A-Za-z0-9_/]*)(?P<array>\[(?P<bound><=)?(?P<count>[0-9]*)\])?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LARGEST_ARRAY = 1 << 20
_MAX_FIELDS = 2_000
_PADDING = 8  # bytes of zeros that a writer may add at the end


class CdrCodec:
    """Encodes and decodes one message type. Build it with `compile_messages`."""

    def __init__(self, name: str, parts: list[CdrField], shape: dict[str, Any]) -> None:
        self.name = name
        self._parts = parts
        self._shape = shape
        self._fill, _ = filler(shape)
        self._flatten = flattener(shape)

    def decode(self, data: bytes) -> Message:
        """Decode `data`. CdrError if it is too short, too long or not CDR. Allocates at most the size of `data`."""
        if data[:4] != HEADER:
            shown = data[:4].hex(" ") or "nothing"
            raise CdrError(f"{self.name}: invalid header: expected {HEADER.hex(' ')}, got {shown}")
        reader = Reader(memoryview(data)[4:], self.name)
        values: list[Any] = []
        for part in self._parts:
            part.read(reader, values)
        rest = bytes(reader.data[reader.at :])
        if len(rest) >= _PADDING or any(rest):
            raise CdrError(f"{self.name}: {len(rest)} bytes left over: the description has too few fields")
        message: Message = self._fill(values)
        return message

    def encode(self, message: Mapping[str, Any]) -> bytes:
        """Encode `message`; missing fields are zero or empty. CdrError for a value that does not fit its field."""
        out = bytearray()
        values: list[Any] = []
        self._flatten(message, values, self.name)
        taken = iter(values)
        for part in self._parts:
            part.write(out, taken, self.name)
        return HEADER + bytes(out)

    def empty(self) -> Message:
        """Return the message with every field zero or empty."""
        return self.decode(self.encode({}))

    def has(self, path: str) -> bool:
        """Return whether the message has a field at the dotted `path`; nested messages and sequences count too."""
        node: Any = self._shape
        for name in path.split("."):
            if not isinstance(node, dict) or name not in node:
                return False
            node = node[name]
        return True

    def paths(self) -> list[str]:
        """Return the dotted paths of all fields, without the nested messages themselves."""
        return list(_paths(self._shape, ""))


def compile_messages(descriptions: Mapping[str, Mapping[str, str]]) -> dict[str, CdrCodec]:
    """Return a codec for each described message. ConfigError for an unknown type, a cycle or an empty message."""
    return {name: _Compiler(descriptions).codec(name) for name in descriptions}


class _Compiler:
    def __init__(self, descriptions: Mapping[str, Mapping[str, str]]) -> None:
        self._descriptions = descriptions
        self._fields = 0

    def codec(self, name: str) -> CdrCodec:
        parts, shape = self._message(name, (), "")
        return CdrCodec(name, parts, shape)

    def _message(
        self, name: str, inside: tuple[str, ...], prefix: str
    ) -> tuple[list[CdrField], dict[str, Any]]:
        where = f"messages.{name}"
        if name in inside:
            raise ConfigError(
                f"the message '{name}' contains itself ({' in '.join((name, *reversed(inside)))})",
                key=where,
                fix="describe messages that do not contain each other in a cycle",
            )
        fields = self._descriptions[name]
        if not fields:
            raise ConfigError(f"the message '{name}' has no fields", key=where, fix="give at least one field")
        parts: list[CdrField] = []
        shape: dict[str, Any] = {}
        formats: list[str] = []
        names: list[str] = []

        def end_run() -> None:
            if formats:
                parts.append(NumberStruct(list(formats), list(names)))
                formats.clear()
                names.clear()

        for field, kind in fields.items():
            key = f"{where}.{field}"
            path = f"{prefix}{field}"
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise ConfigError(f"more than {_MAX_FIELDS:,} fields in one message", key=key)
            if not _NAME.fullmatch(str(field)):
                raise ConfigError(f"invalid field name '{field}'", key=key, fix="use letters, digits and _")
            item, count, bound, is_array = self._parse(str(kind), key)
            if is_array:
                end_run()
                part, leaf = self._array(item, count, bound, (*inside, name), path)
                parts.append(part)
                shape[field] = leaf
            elif item in _FORMATS:
                formats.append(_FORMATS[item])
                names.append(path)
                shape[field] = Leaf(bool if item == "bool" else float if "float" in item else int)
            elif item == "string":
                end_run()
                parts.append(Text(path))
                shape[field] = Leaf(str)
            else:
                end_run()
                inner, shape[field] = self._message(item, (*inside, name), f"{path}.")
                parts += inner
        end_run()
        return joined(parts), shape

    def _array(
        self, item: str, count: int | None, bound: int | None, inside: tuple[str, ...], path: str
    ) -> tuple[CdrField, Leaf]:
        if item in _FORMATS:
            raw, size = _FORMATS[item] == "B", count or 0
            code = _FORMATS[item]
            default: Callable[[], Any] = (lambda: bytes(size)) if raw else (lambda: np.zeros(size))
            return Numbers(code, count, bound, path), Leaf(default)
        if item == "string":
            return Items([Text(path)], Leaf(str), count, bound, path), Leaf(list)
        parts, shape = self._message(item, inside, f"{path}.")
        return Items(parts, shape, count, bound, path), Leaf(list)

    def _parse(self, kind: str, key: str) -> tuple[str, int | None, int | None, bool]:
        """Return item type, fixed count, bound, and whether it is an array."""
        found = _TYPE.fullmatch(kind.replace(" ", ""))
        known = [*_FORMATS, "string", *self._descriptions]
        item = found["item"] if found is not None else kind
        if found is None or item not in known:
            suggestion = nearest(item, known)
            raise ConfigError(
                f"unknown type '{kind}'",
                key=key,
                fix=f"did you mean '{suggestion}'?"
                if suggestion
                else "use a number type, string, or a message",
            )
        if found["array"] is None:
            return item, None, None, False
        number = int(found["count"]) if found["count"] else None
        if (found["bound"] and number is None) or (number is not None and not 0 < number <= _LARGEST_ARRAY):
            raise ConfigError(
                f"invalid array length in '{kind}'",
                key=key,
                fix=f"write T[], T[N] or T[<=N], N up to {_LARGEST_ARRAY:,}",
            )
        return (item, None, number, True) if found["bound"] else (item, number, None, True)


def _paths(shape: dict[str, Any], prefix: str) -> Any:
    for name, inner in shape.items():
        if isinstance(inner, dict):
            yield from _paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
