"""The fields of CDR messages: how runs of numbers, texts, arrays and messages inside are read and written.

Values pass in a flat order; `filler` and `flattener` turn it into the nested dicts that messages are, and back.
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
    """Bytes that are not the message they should be, or a value that does not fit its field."""


class Reader:
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


class CdrField(ABC):
    """One or several fields in a row; takes and gives their values in a flat order."""

    least = 1  # bytes that it needs at the least

    @abstractmethod
    def read(self, reader: Reader, values: list[Any]) -> None: ...

    @abstractmethod
    def write(self, out: bytearray, values: Any, name: str) -> None: ...


class Run(CdrField):
    """Plain numbers in a row as one struct, compiled for each offset (modulo 8) it may start at."""

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

    def then(self, other: Run) -> Run:
        """Both as one."""
        return Run(self._formats + other._formats, self._names + other._names)


class Text(CdrField):
    """Its length with the closing NUL, then UTF-8."""

    least = 4

    def __init__(self, field: str) -> None:
        self._field = field

    def read(self, reader: Reader, values: list[Any]) -> None:
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
        start = reader.take(count * size, size)  # aligned even where nothing follows, as Unity does it
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
                # as numbers of Python: NumPy would make floats of large integers beside small ones
                plain = value.tolist() if isinstance(value, np.ndarray) else list(value)
                array = np.array(plain, dtype=self._dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise CdrError(
                    f"{where}: numbers are wanted that fit into {self._dtype.name}: {error}"
                ) from None
            if self._dtype.kind in "iu" and array.tolist() != plain:
                raise CdrError(f"{where}: numbers that do not fit into {self._dtype.name}")
        if array.ndim != 1:
            raise CdrError(f"{where}: a list is wanted, not {array.ndim} dimensions")
        if self._count is not None and len(array) != self._count:
            raise CdrError(f"{where}: {len(array)} numbers, {self._count} are wanted")
        if self._bound is not None and len(array) > self._bound:
            raise CdrError(f"{where}: {len(array)} numbers, at most {self._bound} are allowed")
        return array


class Items(CdrField):
    """A sequence or fixed array of texts or messages."""

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
            self._flatten(item, flat, where)
            taken = iter(flat)
            for part in self._parts:
                part.write(out, taken, where)


@dataclass(frozen=True)
class Leaf:
    """One value in the flat order, and what it is when it is left out."""

    default: Callable[[], Any]


def joined(parts: list[CdrField]) -> list[CdrField]:
    """The same parts, runs of numbers that meet where a message inside begins or ends made one."""
    result: list[CdrField] = []
    for part in parts:
        if result and isinstance(part, Run) and isinstance(last := result[-1], Run):
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


def filler(shape: Any, start: int = 0) -> tuple[Callable[[list[Any]], Any], int]:
    """What makes a message of a flat list of values, its own beginning at `start`; and where those end."""
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
    """What adds the values of a message to a flat list, defaults for those that are left out."""
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
            raise CdrError(f"{where}: a message is wanted, not {message!r:.80}")
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
