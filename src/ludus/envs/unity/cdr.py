"""Messages as bytes: a CDR codec (ROS 2, little-endian) compiled from descriptions of the messages.

A description maps field names to types: `float32`, `string`, another message by its name, `T[]` for a sequence,
`T[<=N]` for a bounded one, `T[N]` for a fixed array. A message is a nested dict; arrays of numbers are NumPy arrays,
`uint8[]` is bytes. Numbers are aligned to their size, counted after the four bytes of the header.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ludus.errors import ConfigError, nearest

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
_MOST_FIELDS = 2_000
_PADDING = 8  # bytes of zeros that a writer may leave at the end
_COUNT = struct.Struct("<I")


class CdrError(ValueError):
    """Bytes that are not the message they should be, or a value that does not fit its field."""


class Codec:
    """Encodes and decodes one message type. Build it with `compile_messages`."""

    def __init__(self, name: str, parts: list[_Part], shape: dict[str, Any]) -> None:
        self.name = name
        self._parts = parts
        self._shape = shape

    def decode(self, data: bytes) -> Message:
        """The message in `data`; CdrError when it is cut short, too long, or not CDR. Allocates no more than `data`."""
        if data[:4] != HEADER:
            shown = data[:4].hex(" ") or "nothing"
            raise CdrError(f"{self.name}: the message begins with {shown} instead of {HEADER.hex(' ')}")
        reader = _Reader(memoryview(data)[4:], self.name)
        values: list[Any] = []
        for part in self._parts:
            part.read(reader, values)
        rest = bytes(reader.data[reader.at :])
        if len(rest) >= _PADDING or any(rest):
            raise CdrError(
                f"{self.name}: {len(rest)} bytes are left over: its description has too few fields"
            )
        message: Message = _fill(self._shape, iter(values))
        return message

    def encode(self, message: Mapping[str, Any]) -> bytes:
        """The bytes of `message`; fields that are left out are zero or empty. CdrError for what does not fit."""
        out = bytearray()
        values: list[Any] = []
        _flatten(self._shape, message, values, self.name)
        taken = iter(values)
        for part in self._parts:
            part.write(out, taken, self.name)
        return HEADER + bytes(out)

    def empty(self) -> Message:
        """The message with every field zero or empty."""
        return self.decode(self.encode({}))

    def has(self, path: str) -> bool:
        """Whether the message has a field at the dotted `path`; a message or sequence counts too."""
        node: Any = self._shape
        for name in path.split("."):
            if not isinstance(node, dict) or name not in node:
                return False
            node = node[name]
        return True

    def paths(self) -> list[str]:
        """Dotted paths of all fields, messages inside left out."""
        return list(_paths(self._shape, ""))


def compile_messages(descriptions: Mapping[str, Mapping[str, str]]) -> dict[str, Codec]:
    """A codec for each described message. ConfigError for an unknown type, a cycle or an empty message."""
    return {name: _Compiler(descriptions).codec(name) for name in descriptions}


# Reading and writing


class _Reader:
    """Where a decode has come to. Every read is checked against what is there before anything is allocated."""

    __slots__ = ("at", "data", "name")

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0

    def take(self, size: int, alignment: int) -> int:
        """The offset of `size` aligned bytes, which are now read."""
        start = self.at + -self.at % alignment
        if size > len(self.data) - start:
            raise CdrError(
                f"{self.name}: the message is cut short: {size} bytes wanted at offset {start} of {len(self.data)}"
            )
        self.at = start + size
        return start

    def count(self, item_size: int, bound: int | None) -> int:
        """The length of a sequence, which cannot hold more than the bytes that follow."""
        found: int = _COUNT.unpack_from(self.data, self.take(4, 4))[0]
        if found * item_size > len(self.data) - self.at:
            raise CdrError(f"{self.name}: a sequence of {found:,} items does not fit into the message")
        if bound is not None and found > bound:
            raise CdrError(f"{self.name}: a sequence of {found:,} items, at most {bound:,} are allowed")
        return found


class _Part(ABC):
    """One or several fields in a row; takes and gives their values in a flat order."""

    least = 1  # bytes that it needs at the least

    @abstractmethod
    def read(self, reader: _Reader, values: list[Any]) -> None: ...

    @abstractmethod
    def write(self, out: bytearray, values: Any, name: str) -> None: ...


class _Run(_Part):
    """Plain numbers in a row as one struct, compiled for each offset (modulo 8) it may start at."""

    def __init__(self, formats: list[str], names: list[str]) -> None:
        self._names = names
        self._formats = formats
        self._structs = [_aligned(formats, start) for start in range(8)]
        self.least = sum(struct.calcsize("<" + code) for code in formats)

    def read(self, reader: _Reader, values: list[Any]) -> None:
        layout = self._structs[reader.at % 8]
        values.extend(layout.unpack_from(reader.data, reader.take(layout.size, 1)))

    def write(self, out: bytearray, values: Any, name: str) -> None:
        given = [next(values) for _ in self._formats]
        try:
            out += self._structs[len(out) % 8].pack(*given)
        except (struct.error, OverflowError, TypeError):
            for code, field, value in zip(self._formats, self._names, given, strict=True):
                try:
                    struct.pack("<" + code, value)
                except (struct.error, OverflowError, TypeError) as error:
                    raise CdrError(f"{name}.{field}: {value!r:.80} does not fit: {error}") from None
            raise

    def then(self, other: _Run) -> _Run:
        """Both as one."""
        return _Run(self._formats + other._formats, self._names + other._names)


class _Text(_Part):
    """Its length with the closing NUL, then UTF-8."""

    least = 4

    def __init__(self, field: str) -> None:
        self._field = field

    def read(self, reader: _Reader, values: list[Any]) -> None:
        size = reader.count(1, None)
        start = reader.take(size, 1)
        raw = bytes(reader.data[start : start + size])
        if size and raw[-1]:
            raise CdrError(f"{reader.name}.{self._field}: a text that does not end with NUL")
        try:
            values.append(raw[:-1].decode("utf-8"))
        except UnicodeDecodeError:
            raise CdrError(f"{reader.name}.{self._field}: a text that is not UTF-8") from None

    def write(self, out: bytearray, values: Any, name: str) -> None:
        value = next(values)
        if not isinstance(value, str):
            raise CdrError(f"{name}.{self._field}: a text is wanted, not {value!r:.80}")
        try:
            raw = value.encode("utf-8") + b"\0"
        except UnicodeEncodeError as error:
            raise CdrError(f"{name}.{self._field}: {error}") from None
        _align(out, 4)
        out += _COUNT.pack(len(raw)) + raw


class _Numbers(_Part):
    """A sequence or fixed array of numbers."""

    def __init__(self, code: str, count: int | None, bound: int | None, field: str) -> None:
        self._dtype = np.dtype("<" + code)
        self._raw = code == "B"
        self._count = count
        self._bound = bound
        self._field = field
        self.least = 4 if count is None else count * self._dtype.itemsize

    def read(self, reader: _Reader, values: list[Any]) -> None:
        size = self._dtype.itemsize
        count = reader.count(size, self._bound) if self._count is None else self._count
        start = reader.take(count * size, size) if count else reader.at  # nothing follows: nothing is aligned
        if self._raw:
            values.append(bytes(reader.data[start : start + count]))
        elif self._dtype.kind == "b":
            values.append(np.frombuffer(reader.data, np.uint8, count, start) != 0)
        else:
            values.append(np.frombuffer(reader.data, self._dtype, count, start).copy())

    def write(self, out: bytearray, values: Any, name: str) -> None:
        value = next(values)
        array = self._as_array(value, f"{name}.{self._field}")
        if self._count is None:
            _align(out, 4)
            out += _COUNT.pack(len(array))
        if len(array):
            _align(out, self._dtype.itemsize)
            out += array.tobytes()

    def _as_array(self, value: Any, where: str) -> np.ndarray[Any, np.dtype[Any]]:
        if isinstance(value, bytes | bytearray) and self._raw:
            array = np.frombuffer(value, np.uint8)
        else:
            try:
                given = np.asarray(value)
                array = given.astype(self._dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise CdrError(f"{where}: numbers are wanted: {error}") from None
            if self._dtype.kind in "iu" and given.size and not np.array_equal(given, array):
                raise CdrError(f"{where}: numbers that do not fit into {self._dtype.name}")
        if array.ndim != 1:
            raise CdrError(f"{where}: a list is wanted, not {array.ndim} dimensions")
        if self._count is not None and len(array) != self._count:
            raise CdrError(f"{where}: {len(array)} numbers, {self._count} are wanted")
        if self._bound is not None and len(array) > self._bound:
            raise CdrError(f"{where}: {len(array)} numbers, at most {self._bound} are allowed")
        return array


class _Items(_Part):
    """A sequence or fixed array of texts or messages."""

    def __init__(
        self, parts: list[_Part], shape: Any, count: int | None, bound: int | None, field: str
    ) -> None:
        self._parts = parts
        self._shape = shape
        self._count = count
        self._bound = bound
        self._field = field
        self._item_least = sum(part.least for part in parts)
        self.least = 4 if count is None else count * self._item_least

    def read(self, reader: _Reader, values: list[Any]) -> None:
        count = reader.count(self._item_least, self._bound) if self._count is None else self._count
        items = []
        for _ in range(count):
            found: list[Any] = []
            for part in self._parts:
                part.read(reader, found)
            items.append(_fill(self._shape, iter(found)))
        values.append(items)

    def write(self, out: bytearray, values: Any, name: str) -> None:
        items = next(values)
        where = f"{name}.{self._field}"
        if not isinstance(items, list | tuple):
            raise CdrError(f"{where}: a list is wanted, not {items!r:.80}")
        if self._count is not None:
            if items and len(items) != self._count:
                raise CdrError(f"{where}: {len(items)} items, {self._count} are wanted")
            items = items or [None] * self._count
        else:
            if self._bound is not None and len(items) > self._bound:
                raise CdrError(f"{where}: {len(items)} items, at most {self._bound} are allowed")
            _align(out, 4)
            out += _COUNT.pack(len(items))
        for item in items:
            flat: list[Any] = []
            _flatten(self._shape, item, flat, where)
            taken = iter(flat)
            for part in self._parts:
                part.write(out, taken, where)


# Compiling


@dataclass(frozen=True)
class _Leaf:
    """One value in the flat order, and what it is when it is left out."""

    default: Callable[[], Any]


class _Compiler:
    def __init__(self, descriptions: Mapping[str, Mapping[str, str]]) -> None:
        self._descriptions = descriptions
        self._fields = 0

    def codec(self, name: str) -> Codec:
        parts, shape = self._message(name, (), "")
        return Codec(name, parts, shape)

    def _message(self, name: str, inside: tuple[str, ...], prefix: str) -> tuple[list[_Part], dict[str, Any]]:
        where = f"messages.{name}"
        if name in inside:
            raise ConfigError(
                f"the message '{name}' contains itself ({' in '.join((name, *reversed(inside)))})",
                key=where,
                fix="describe a tree of messages",
            )
        fields = self._descriptions[name]
        if not fields:
            raise ConfigError(f"the message '{name}' has no fields", key=where, fix="give at least one field")
        parts: list[_Part] = []
        shape: dict[str, Any] = {}
        formats: list[str] = []
        names: list[str] = []

        def end_run() -> None:
            if formats:
                parts.append(_Run(list(formats), list(names)))
                formats.clear()
                names.clear()

        for field, kind in fields.items():
            key = f"{where}.{field}"
            path = f"{prefix}{field}"
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise ConfigError(f"more than {_MOST_FIELDS:,} fields in one message", key=key)
            if not _NAME.fullmatch(str(field)):
                raise ConfigError(
                    f"'{field}' is not a name for a field", key=key, fix="letters, digits and _"
                )
            item, count, bound, is_array = self._parse(str(kind), key)
            if is_array:
                end_run()
                part, leaf = self._array(item, count, bound, (*inside, name), path)
                parts.append(part)
                shape[field] = leaf
            elif item in _FORMATS:
                formats.append(_FORMATS[item])
                names.append(path)
                shape[field] = _Leaf(bool if item == "bool" else float if "float" in item else int)
            elif item == "string":
                end_run()
                parts.append(_Text(path))
                shape[field] = _Leaf(str)
            else:
                end_run()
                inner, shape[field] = self._message(item, (*inside, name), f"{path}.")
                parts += inner
        end_run()
        return _joined(parts), shape

    def _array(
        self, item: str, count: int | None, bound: int | None, inside: tuple[str, ...], path: str
    ) -> tuple[_Part, _Leaf]:
        if item in _FORMATS:
            raw, size = _FORMATS[item] == "B", count or 0
            code = _FORMATS[item]
            default: Callable[[], Any] = (lambda: bytes(size)) if raw else (lambda: np.zeros(size))
            return _Numbers(code, count, bound, path), _Leaf(default)
        if item == "string":
            return _Items([_Text(path)], _Leaf(str), count, bound, path), _Leaf(list)
        parts, shape = self._message(item, inside, f"{path}.")
        return _Items(parts, shape, count, bound, path), _Leaf(list)

    def _parse(self, kind: str, key: str) -> tuple[str, int | None, int | None, bool]:
        """Item type, fixed count, bound, and whether it is an array at all."""
        found = _TYPE.fullmatch(kind.replace(" ", ""))
        known = [*_FORMATS, "string", *self._descriptions]
        item = found["item"] if found is not None else kind
        if found is None or item not in known:
            suggestion = nearest(item, known)
            raise ConfigError(
                f"unknown type '{kind}'",
                key=key,
                fix=f"did you mean '{suggestion}'?" if suggestion else "a number type, string, or a message",
            )
        if found["array"] is None:
            return item, None, None, False
        number = int(found["count"]) if found["count"] else None
        if (found["bound"] and number is None) or (number is not None and not 0 < number <= _LARGEST_ARRAY):
            raise ConfigError(
                f"'{kind}' has no usable length",
                key=key,
                fix=f"T[], T[N] or T[<=N], N up to {_LARGEST_ARRAY:,}",
            )
        return (item, None, number, True) if found["bound"] else (item, number, None, True)


def _joined(parts: list[_Part]) -> list[_Part]:
    """The same parts, runs of numbers that meet where a message inside begins or ends made one."""
    result: list[_Part] = []
    for part in parts:
        if result and isinstance(part, _Run) and isinstance(last := result[-1], _Run):
            result[-1] = last.then(part)
        else:
            result.append(part)
    return result


def _aligned(formats: list[str], start: int) -> struct.Struct:
    """The formats as one struct with the padding they need when the first byte has offset `start`."""
    at, layout = start, "<"
    for code in formats:
        size = struct.calcsize("<" + code)
        padding = -at % size
        layout += "x" * padding + code
        at += padding + size
    return struct.Struct(layout)


def _align(out: bytearray, alignment: int) -> None:
    out += bytes(-len(out) % alignment)


def _fill(shape: Any, values: Any) -> Any:
    if isinstance(shape, dict):
        return {
            name: _fill(inner, values) if isinstance(inner, dict) else next(values)
            for name, inner in shape.items()
        }
    return next(values)


def _flatten(shape: Any, message: Any, values: list[Any], where: str) -> None:
    if not isinstance(shape, dict):
        values.append(shape.default() if message is None else message)
        return
    if message is None:
        message = {}
    if not isinstance(message, Mapping):
        raise CdrError(f"{where}: a message is wanted, not {message!r:.80}")
    for name in message:
        if name not in shape:
            raise CdrError(f"{where} has no field '{name}'")
    for name, inner in shape.items():
        _flatten(inner, message.get(name), values, f"{where}.{name}")


def _paths(shape: dict[str, Any], prefix: str) -> Any:
    for name, inner in shape.items():
        if isinstance(inner, dict):
            yield from _paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
