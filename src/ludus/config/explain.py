"""Turns a failed validation into one message: what was wrong, at which key, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES
from ludus.errors import ConfigError, nearest


def explain(error: ValidationError, model: type[BaseModel], prefix: Sequence[str] = ()) -> ConfigError:
    """The first failure of `error` as a ConfigError whose `key` is the dotted path, after `prefix`."""
    failures = error.errors()
    first = failures[0]
    location = [str(part) for part in first["loc"]]
    key = ".".join([*prefix, *location])
    more = (
        f"   (and {len(failures) - 1} more problem{'s' * (len(failures) > 2)})" if len(failures) > 1 else ""
    )
    if first["type"] == "extra_forbidden":
        known = _keys_at(model, location[:-1])
        suggestion = nearest(location[-1], known)
        parent = ".".join([*prefix, *location[:-1]])
        return ConfigError(
            f"unknown key '{location[-1]}'" + (f" in {parent}" if parent else "") + more,
            key=key,
            fix=f"did you mean '{suggestion}'?" if suggestion else f"known keys: {', '.join(sorted(known))}",
        )
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if "got " in message else f", got {first['input']!r:.80}"
    return ConfigError(f"{key}: {_lower_first(message)}{shown}{more}", key=key, fix=f"change '{key}'")


def _keys_at(model: type[BaseModel], location: Sequence[str]) -> set[str]:
    """The keys that the section of `model` at `location` accepts."""
    for part in location:
        field = model.model_fields.get(part)
        if field is None:
            continue  # a list index or a union branch
        nested = next((t for t in _types_in(field.annotation) if issubclass(t, BaseModel)), None)
        if nested is not None:
            model = nested
    keys = set(model.model_fields)
    if "ent_coef" in keys:
        keys |= set(HYPERPARAMETER_ALIASES)
    return keys


def _types_in(annotation: Any) -> list[type]:
    if isinstance(annotation, type):
        return [annotation]
    return [t for argument in getattr(annotation, "__args__", ()) for t in _types_in(argument)]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
