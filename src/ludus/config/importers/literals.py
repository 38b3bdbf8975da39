"""Read Python literals from the syntax tree of a text. Nothing is run, called, imported or looked up.

`dict(net_arch=[64, 64])` becomes a dict. `nn.ReLU` and `SpaceTypes.DISCRETE` become symbols: text with the name.
A file may also use names that it assigned, subscripts of those, and arithmetic on numbers.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.config.plain_yaml import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Key
from ludus.errors import ConfigError

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LARGEST = 10**18  # a larger number is not a setting, and could exhaust memory


class Symbol(str):
    """A dotted name of an object in some library, as text; the object is never looked up."""

    __slots__ = ()


@dataclass(frozen=True)
class Unreadable:
    """Source text of a value that cannot be read without running the file."""

    text: str


@dataclass
class PythonFile:
    """The assignments of a file: their values, their locations, and the lines of statements that were skipped."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)
    """File and line of each key."""
    used: set[str] = field(default_factory=set)
    skipped_lines: list[int] = field(default_factory=list)


def unreadable_in(value: Any) -> Unreadable | None:
    """Return the first part of `value` that could not be read; None if all of it was read."""
    if isinstance(value, Unreadable):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((part for part in map(unreadable_in, parts) if part is not None), None)


class _NotLiteral(ValueError):
    """The expression is not a literal."""


def parse_literal(text: str, *, where: str, key: str) -> Any:
    """Return the value of a Python expression; ConfigError for anything that would have to be run."""
    try:
        if len(text) > MAX_BYTES:
            raise _NotLiteral("the text is too long")
        return _Reader({}).value(ast.parse(text.strip(), mode="eval").body)
    except (_NotLiteral, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        shown = str(error) if isinstance(error, _NotLiteral) else f"{text:.60}"
        raise ConfigError(
            f"{key} is not plain data: {shown}",
            where=where,
            fix="write literals only, as in dict(net_arch=[64, 64], activation_fn=nn.ReLU); code is never run",
        ) from None


def read_python(path: Path) -> PythonFile:
    """Return the top-level assignments of a Python file; ConfigError if it is not Python.

    A value that cannot be read without running the file becomes Unreadable.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(
            f"{path.name} is larger than a config can be ({MAX_BYTES:,} bytes)",
            where=str(path),
            fix="check that this file is a config, and store data elsewhere",
        )
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError(
            f"not valid Python: {getattr(error, 'msg', None) or error}",
            where=str(path) if line is None else f"{path}, line {line}",
            fix="correct the file",
        ) from None
    file = PythonFile()
    for statement in tree.body:
        _read_statement(statement, file, path)
    return file


def _read_statement(statement: ast.stmt, file: PythonFile, path: Path) -> None:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=node)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as node)
        ):
            reader = _Reader(dict(file.data))
            try:
                # entry by entry: a call makes one entry unreadable, not the whole dict
                file.data[name] = reader.entries(node) if isinstance(node, ast.Dict) else reader.value(node)
            except (_NotLiteral, RecursionError) as error:
                file.data[name] = Unreadable(str(error))
            file.used |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & file.data.keys()
            file.places[(name,)] = f"{path}, line {statement.lineno}"
            _record_lines(node, (name,), path, file.places)
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()) | ast.Pass():
            pass  # settings cannot depend on these
        case _:
            file.skipped_lines.append(statement.lineno)


def _record_lines(node: ast.expr, prefix: Key, path: Path, places: dict[Key, str]) -> None:
    if not isinstance(node, ast.Dict) or len(prefix) > MAX_DEPTH:
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant):
            places[(*prefix, str(key.value))] = f"{path}, line {key.lineno}"
            _record_lines(value, (*prefix, str(key.value)), path, places)


class _Reader:
    """Reader of one expression. `names` are values that the file assigned before."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self._values = 0

    def entries(self, node: ast.Dict) -> dict[Any, Any]:
        """Return a dict; values that cannot be read become `Unreadable`."""
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise _NotLiteral(_text(node))
            try:
                read = self.entries(value) if isinstance(value, ast.Dict) else self.value(value)
            except _NotLiteral as error:
                read = Unreadable(str(error))
            result[self._key(key)] = read
        return result

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of `node`. _NotLiteral, with its text, if it is not a literal."""
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            raise _NotLiteral(_text(node))
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return constant
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.value(part, depth + 1) for part in parts]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self._key(key): self.value(value, depth + 1) for key, value in pairs if key}
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(
                k.arg for k in keywords
            ):
                return {str(k.arg): self.value(k.value, depth + 1) for k in keywords}
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self._number(operand, depth)
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return self._arithmetic(node, type(op), self._number(left, depth), self._number(right, depth))
            case ast.Name(id=name) if name in self.names:
                return self._readable(self.names[name], node)
            case ast.Name() | ast.Attribute():
                return Symbol(_dotted(node))
            case ast.Subscript(value=container, slice=index):
                return self._item(node, self.value(container, depth + 1), self.value(index, depth + 1))
        raise _NotLiteral(_text(node))

    def _key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
            return node.value
        raise _NotLiteral(_text(node))

    def _number(self, node: ast.expr, depth: int) -> Any:
        number = self.value(node, depth + 1)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _NotLiteral(_text(node))
        return number

    def _arithmetic(self, node: ast.expr, op: type[ast.operator], left: Any, right: Any) -> Any:
        try:
            result = _ARITHMETIC[op](left, right)
        except (ArithmeticError, ValueError):
            raise _NotLiteral(_text(node)) from None
        if abs(result) > _LARGEST:
            raise _NotLiteral(_text(node))
        return result

    def _item(self, node: ast.expr, container: Any, index: Any) -> Any:
        try:
            item = container[index] if isinstance(container, dict | list) else None
        except (KeyError, IndexError, TypeError):
            item = None
        if item is None:
            raise _NotLiteral(_text(node))
        return self._readable(item, node)

    def _readable(self, value: Any, node: ast.expr) -> Any:
        if isinstance(value, Unreadable):
            raise _NotLiteral(value.text)
        # a name that is used ten times counts ten times: nested lists could grow exponentially
        self._values += _size(value)
        if self._values > MAX_VALUES:
            raise _NotLiteral(_text(node))
        return value


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise _NotLiteral(_text(node))
    return ".".join([node.id, *reversed(parts)])


def _text(node: ast.expr) -> str:
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "an expression too deep to show"
    return text if len(text) <= 60 else f"{text[:57]}..."
