"""Turns a failed validation into one message: what was wrong, at which key, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES
from ludus.errors import ConfigError, nearest


def explain(
    error: ValidationError, model: type[BaseModel], prefix: Sequence[str] = (), aliases: Iterable[str] = ()
) -> ConfigError:
    """The first failure of `error` as a ConfigError whose `key` is the dotted path, after `prefix`.

    `aliases` are keys that `model` accepts at its top besides its fields.
    """
    failures = error.errors(include_url=False)
    first = failures[0]
    location = _location(first, model)
    key = ".".join([*prefix, *location])
    others = len({tuple(_location(failure, model)) for failure in failures}) - 1
    more = f"   (and {others} more problem{'s' * (others > 1)})" if others else ""
    if first["type"] == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        if len(location) == 1:
            known |= set(aliases)
        suggestion = nearest(location[-1], known)
        parent = ".".join([*prefix, *location[:-1]])
        return ConfigError(
            f"unknown key '{location[-1]}'" + (f" in {parent}" if parent else "") + more,
            key=key,
            fix=f"did you mean '{suggestion}'?" if suggestion else f"known keys: {', '.join(sorted(known))}",
        )
    message = " or ".join(
        _lower_first(failure["msg"].removeprefix("Value error, "))
        for failure in failures
        if _location(failure, model) == location
    )
    shows_it = first["type"] == "value_error" and "got " in message
    shown = "" if shows_it else f", got {_shortened(first['input'])}"
    return ConfigError(f"{key}: {message}{shown}{more}", key=key, fix=f"change '{key}'")


def _location(failure: ErrorDetails, model: type[BaseModel]) -> list[str]:
    """Where a failure is, without what pydantic adds to tell the branches of a union apart."""
    location: list[str] = []
    section: type[BaseModel] | None = model
    for part in failure["loc"]:
        if section is None and isinstance(part, str):
            break
        location.append(str(part))
        section = None if section is None else _section_at(section, str(part))
    return location


def _keys_at(model: type[BaseModel], location: Sequence[str]) -> set[str]:
    """The keys that the section of `model` at `location` accepts."""
    for part in location:
        model = _section_at(model, part) or model
    keys = set(model.model_fields)
    if "ent_coef" in keys:
        keys |= set(HYPERPARAMETER_ALIASES)
    return keys


def _section_at(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The model of the section `key` of `model`; None where it is a value."""
    field = model.model_fields.get(key)
    types = [] if field is None else _types_in(field.annotation)
    return next((t for t in types if issubclass(t, BaseModel)), None)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _types_in(annotation: Any) -> list[type]:
    if isinstance(annotation, type):
        return [annotation]
    return [t for argument in getattr(annotation, "__args__", ()) for t in _types_in(argument)]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
