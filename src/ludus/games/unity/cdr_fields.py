"""Fields of CDR messages: reading and writing of numbers, strings, arrays and nested messages.

Values are processed in a flat order; `filler` and `flattener` convert it to the nested dicts of messages, and back.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_COUNT = struct.Struct("<I")


class CdrError(ValueError):
    """Invalid bytes of a message, or a value that does not fit its field."""


class Reader:
    """The position of a decoder in its data. Every read is checked against the data before memory is allocated."""

    __slots__ = ("at", "data", "name")

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0

    def take(self, size: int, alignment: int) -> int:
        """Advance past `size` aligned bytes and return their offset."""
        start = self.at + -self.at % alignment
        if size > len(self.data) - start:
            raise CdrError(
                f"{self.name}: the message is too short: expected {size} bytes at offset {start} of {len(self.data)}"
            )
        self.at = start + size
        return start

    def count(self, item_size: int, bound: int | None) -> int:
        """Read the length of a sequence, and check that the remaining bytes can hold it."""
        found: int = _COUNT.unpack_from(self.data, self.take(4, 4))[0]
        if found * item_size > len(self.data) - self.at:
            raise CdrError(f"{self.name}: a sequence of {found:,} items does not fit into the message")
        if bound is not None and found > bound:
            raise CdrError(f"{self.name}: a sequence of {found:,} items, expected at most {bound:,}")
        return found


class CdrField(ABC):
    """One or several consecutive fields; reads and writes their values in a flat order."""

    least = 1  # minimum size in bytes

    @abstractmethod
    def read(self, reader: Reader, values: list[Any]) -> None: ...

    @abstractmethod
    def write(self, out: bytearray, values: Any, name: str) -> None: ...


class NumberStruct(CdrField):
    """Consecutive numbers as one struct, compiled for each offset (modulo 8) it may start at."""

    def __init__(self, formats: list[str], names: list[str]) -> None:
        self._names = names
        self._formats = formats
        self._structs = [_aligned(formats, start) for start in range(8)]
        self.least = sum(struct.calcsize("<" + code) for code in formats)

    def read(self, reader: Reader, values: list[Any]) -> None:
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

    def then(self, other: NumberStruct) -> NumberStruct:
        """Return both as one struct."""
        return NumberStruct(self._formats + other._formats, self._names + other._names)


class Text(CdrField):
    """A string: its length with the final NUL, then UTF-8."""

    least = 4

    def __init__(self, field: str) -> None:
        self._field = field

    def read(self, reader: Reader, values: list[Any]) -> None:
        size = reader.count(1, None)
        start = reader.take(size, 1)
        raw = bytes(reader.data[start : start + size])
        if size and raw[-1]:
            raise CdrError(f"{reader.name}.{self._field}: the string does not end with NUL")
        try:
            values.append(raw[:-1].decode("utf-8"))
        except UnicodeDecodeError:
            raise CdrError(f"{reader.name}.{self._field}: the string is not UTF-8") from None

    def write(self, out: bytearray, values: Any, name: str) -> None:
        value = next(values)
        if not isinstance(value, str):
            raise CdrError(f"{name}.{self._field}: expected a string, got {value!r:.80}")
        try:
            raw = value.encode("utf-8") + b"\0"
        except UnicodeEncodeError as error:
            raise CdrError(f"{name}.{self._field}: {error}") from None
        _align(out, 4)
        out += _COUNT.pack(len(raw)) + raw


class Numbers(CdrField):
    """A sequence or fixed array of numbers."""

    def __init__(self, code: str, count: int | None, bound: int | None, field: str) -> None:
        self._dtype = np.dtype("<" + code)
        self._raw = code == "B"
        self._count = count
        self._bound = bound
        self._field = field
        self.least = 4 if count is None else count * self._dtype.itemsize

    def read(self, reader: Reader, values: list[Any]) -> None:
        size = self._dtype.itemsize
        count = reader.count(size, self._bound) if self._count is None else self._count
        start = reader.take(count * size, size)  # aligned even if the sequence is empty, as in Unity
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
        _align(out, self._dtype.itemsize)
        out += array.tobytes()

    def _as_array(self, value: Any, where: str) -> np.ndarray[Any, np.dtype[Any]]:
        if isinstance(value, bytes | bytearray) and self._raw:
            array = np.frombuffer(value, np.uint8)
        else:
            try:
                # convert to Python numbers first: NumPy converts a mix of large and small integers to floats
                plain = value.tolist() if isinstance(value, np.ndarray) else list(value)
                array = np.array(plain, dtype=self._dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise CdrError(f"{where}: expected numbers of type {self._dtype.name}: {error}") from None
            if self._dtype.kind in "iu" and array.tolist() != plain:
                raise CdrError(f"{where}: numbers that do not fit into {self._dtype.name}")
        if array.ndim != 1:
            raise CdrError(f"{where}: expected a list, got {array.ndim} dimensions")
        if self._count is not None and len(array) != self._count:
            raise CdrError(f"{where}: expected {self._count} numbers, got {len(array)}")
        if self._bound is not None and len(array) > self._bound:
            raise CdrError(f"{where}: expected at most {self._bound} numbers, got {len(array)}")
        return array


class Items(CdrField):
    """A sequence or fixed array of strings or messages."""

    def __init__(
        self, parts: list[CdrField], shape: Any, count: int | None, bound: int | None, field: str
    ) -> None:
        self._parts = parts
        self._fill, _ = filler(shape)
        self._flatten = flattener(shape)
        self._count = count
        self._bound = bound
        self._field = field
        self._item_least = sum(part.least for part in parts)
        self.least = 4 if count is None else count * self._item_least

    def read(self, reader: Reader, values: list[Any]) -> None:
        count = reader.count(self._item_least, self._bound) if self._count is None else self._count
        items = []
        for _ in range(count):
            found: list[Any] = []
            for part in self._parts:
                part.read(reader, found)
            items.append(self._fill(found))
        values.append(items)

    def write(self, out: bytearray, values: Any, name: str) -> None:
        items = next(values)
        where = f"{name}.{self._field}"
        if not isinstance(items, list | tuple):
            raise CdrError(f"{where}: expected a list, got {items!r:.80}")
        if self._count is not None:
            if items and len(items) != self._count:
                raise CdrError(f"{where}: expected {self._count} items, got {len(items)}")
            items = items or [None] * self._count
        else:
            if self._bound is not None and len(items) > self._bound:
                raise CdrError(f"{where}: expected at most {self._bound} items, got {len(items)}")
            _align(out, 4)
            out += _COUNT.pack(len(items))
        for item in items:
            flat: list[Any] = []
            self._flatten(item, flat, where)
            taken = iter(flat)
            for part in self._parts:
                part.write(out, taken, where)


@dataclass(frozen=True)
class Leaf:
    """One value in the flat order, and its default if it is missing."""

    default: Callable[[], Any]


def joined(parts: list[CdrField]) -> list[CdrField]:
    """Join consecutive number structs, which nested messages had separated."""
    result: list[CdrField] = []
    for part in parts:
        if result and isinstance(part, NumberStruct) and isinstance(last := result[-1], NumberStruct):
            result[-1] = last.then(part)
        else:
            result.append(part)
    return result


def _aligned(formats: list[str], start: int) -> struct.Struct:
    """Return the formats as one struct with the padding for a first byte at offset `start`."""
    at, layout = start, "<"
    for code in formats:
        size = struct.calcsize("<" + code)
        padding = -at % size
        layout += "x" * padding + code
        at += padding + size
    return struct.Struct(layout)


def _align(out: bytearray, alignment: int) -> None:
    out += bytes(-len(out) % alignment)


def filler(shape: Any, start: int = 0) -> tuple[Callable[[list[Any]], Any], int]:
    """Return a function that makes a message of a flat list of values, from index `start` on; and the end index."""
    if not isinstance(shape, dict):
        return lambda values: values[start], start + 1
    if not any(isinstance(inner, dict) for inner in shape.values()):
        names, stop = tuple(shape), start + len(shape)
        return lambda values: dict(zip(names, values[start:stop], strict=True)), stop
    parts: list[tuple[str, Callable[[list[Any]], Any]]] = []
    at = start
    for name, inner in shape.items():
        part, at = filler(inner, at)
        parts.append((name, part))
    return lambda values: {name: part(values) for name, part in parts}, at


def flattener(shape: Any) -> Callable[[Any, list[Any], str], None]:
    """Return a function that appends the values of a message to a flat list, with defaults for missing fields."""
    if not isinstance(shape, dict):
        default = shape.default
        return lambda message, values, where: values.append(default() if message is None else message)
    names = shape.keys()
    leaves = [(name, inner.default) for name, inner in shape.items() if not isinstance(inner, dict)]
    only_leaves = len(leaves) == len(shape)
    ordered = [(name, flattener(inner)) for name, inner in shape.items()]

    def flatten(message: Any, values: list[Any], where: str) -> None:
        if message is None:
            message = {}
        if not isinstance(message, Mapping):
            raise CdrError(f"{where}: expected a message, got {message!r:.80}")
        if not message.keys() <= names:
            unknown = next(name for name in message if name not in names)
            raise CdrError(f"{where} has no field '{unknown}'")
        if only_leaves:
            values.extend(
                default() if (value := message.get(name)) is None else value for name, default in leaves
            )
            return
        for name, part in ordered:
            part(message.get(name), values, where)

    return flatten
