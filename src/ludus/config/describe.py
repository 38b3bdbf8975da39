"""Config values as text, for the reference and for error messages: "integer from 1 to 1_000 or null"."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ludus.config.schedule import Bounds, Schedule, bounds_in
from ludus.config.when import When

_NUMERIC = {int: "integer", float: "number", Schedule: "number", When: "when"}
_PLAIN = {str: "text", bool: "true, false", type(None): "null"}


def describe(field: FieldInfo) -> str:
    """Return the values that a config accepts for `field`, as text."""
    return _described(field.annotation, tuple(field.metadata))


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The model of the section that a key of this type holds, also in a list; None where it holds values."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
        if get_origin(part) in (list, Annotated):
            return section_in(get_args(part)[0])
    return None


def numbers_in(annotation: Any, metadata: Sequence[Any] = ()) -> Iterator[tuple[type, Bounds | None]]:
    """Every numeric type in an annotation, and its bounds: int, float, `Schedule`, `When`."""
    if annotation in _NUMERIC:
        yield annotation, bounds_in(metadata)
    elif get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        yield from numbers_in(inner, (*metadata, *_constraints(own)))
    elif get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from numbers_in(part, metadata)


def _described(annotation: Any, metadata: Sequence[Any]) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in _NUMERIC:
        bounds = bounds_in(metadata)
        described = _NUMERIC[annotation] + (f" {bounds}" if bounds else "")
        return f"{described}, or a schedule" if annotation is Schedule else described
    if section_in(annotation) is not None:
        return "section" + (" or null" if type(None) in args else "")
    if origin is Annotated:
        return _described(args[0], (*metadata, *_constraints(args[1:])))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_described(part, metadata) for part in args))
    if origin in (list, tuple):
        inner = _described(args[0], metadata)
        noun, space, rest = inner.partition(" ")
        return "list" if " or " in inner else f"list of {noun}s{space}{rest}"
    return "mapping" if origin is dict else _PLAIN.get(annotation, "any")


def _constraints(metadata: Sequence[Any]) -> tuple[Any, ...]:
    """Return the metadata of an annotated type, with that of a `Field` in it expanded."""
    return tuple(
        part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else (item,))
    )
