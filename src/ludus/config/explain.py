"""Turns a failed validation into one message: what was wrong, at which key, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ludus.config.describe import describe, section_in
from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES, HyperparameterConfig
from ludus.config.registry import LANGUAGE, find_algorithm
from ludus.config.when import EXPECTED
from ludus.errors import ConfigError, UserError, nearest, shortened, similarity


def explain_config(error: ValidationError, data: Mapping[str, Any]) -> ConfigError:
    """`explain` for a whole config, given as `data`."""
    from ludus.config.schema import FIELD_ALIASES, FIELD_SWITCHES, TrainerConfig

    aliases = [*FIELD_ALIASES, *FIELD_SWITCHES]
    return explain(error, TrainerConfig, aliases=aliases, elsewhere=lambda: known_keys(_model_of(data)))


def explain(
    error: ValidationError,
    model: type[BaseModel],
    prefix: Sequence[str] = (),
    aliases: Iterable[str] = (),
    elsewhere: Callable[[], Mapping[str, list[str]]] = dict,
) -> ConfigError:
    """Return the first failure of `error` as a ConfigError whose `key` is the dotted path, after `prefix`.

    `aliases` are keys that `model` accepts at its top besides its fields. `elsewhere` gives the keys of other sections,
    by their last name.
    """
    failures = error.errors(include_url=False)
    first = failures[0]
    location = _location(first, model)
    key = ".".join([*prefix, *location])
    others = len({tuple(_location(failure, model)) for failure in failures}) - 1
    more = f"   (and {others} more problem{'s' * (others > 1)})" if others else ""
    if first["type"] in ("extra_forbidden", "no_such_attribute"):
        known = _keys_at(model, location[:-1])
        if len(location) == 1:
            known |= set(aliases)
        parent = ".".join([*prefix, *location[:-1]])
        return ConfigError(
            f"unknown key '{location[-1]}'" + (f" in {parent}" if parent else "") + more,
            key=key,
            fix=_suggestion(location[-1], known, elsewhere(), parent),
        )
    message = " or ".join(
        _lower_first(failure["msg"].removeprefix("Value error, "))
        for failure in failures
        if _location(failure, model) == location
    )
    shows_it = first["type"] == "value_error" and "got " in message
    shown = "" if shows_it else f", got {shortened(first['input'])}"
    return ConfigError(f"{key}: {message}{shown}{more}", key=key, fix=_fix(key, location, model))


def known_keys(hyperparameters: type[BaseModel]) -> dict[str, list[str]]:
    """Every key of a config by its last name: `every` is that of checkpoint, evaluation, video and tracking."""
    from ludus.config.schema import TrainerConfig

    found: dict[str, list[str]] = {}

    def add(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            found.setdefault(name, []).append(f"{prefix}{name}")
            section = section_in(field.annotation)
            if section is not None and name != "hyperparams":
                add(section, f"{prefix}{name}.")

    add(hyperparameters, "hyperparams.")
    add(TrainerConfig, "")
    return found


def _model_of(data: Mapping[str, Any]) -> type[BaseModel]:
    """Return the hyperparameters of the config's algorithm; the common ones if the algorithm is unknown."""
    name, engine = data.get("algorithm", "PPO"), data.get("engine", "native")
    try:
        found = find_algorithm(str(name), LANGUAGE if data.get("language") else str(engine)).hyperparameters
    except UserError:
        found = None
    return found or HyperparameterConfig


_EVERY = {"interval", "freq", "frequency", "period"}
_SURELY_MEANT = 0.8  # similarity of a key in another section than the one that was named


def _suggestion(name: str, known: Iterable[str], elsewhere: Mapping[str, list[str]], parent: str) -> str:
    """Suggest a key: one of the same name in another section, or of a similar name in this or another section.

    `parent` is the section that was named, empty at the top.
    """
    known = sorted(known)
    if name in _EVERY and "every" in known:
        return f"did you mean '{parent}.every'?"
    if name in elsewhere:  # hyperparameters come first, and are meant
        keys = elsewhere[name]
        keys = keys[:1] if keys[0].startswith("hyperparams.") else keys[:4]
        return f"did you mean {' or '.join(repr(key) for key in keys)}?"
    here, there = nearest(name, known), nearest(name, elsewhere)
    if there is not None and parent and similarity(name, there) < _SURELY_MEANT:
        there = None
    if there is not None and (here is None or similarity(name, there) > similarity(name, here)):
        return f"did you mean '{elsewhere[there][0]}'?"
    return f"did you mean '{here}'?" if here else f"known keys: {', '.join(known)}"


def _fix(key: str, location: Sequence[str], model: type[BaseModel]) -> str:
    """Return the values that the key accepts, from its type, its bounds and its description."""
    field: FieldInfo | None = None
    for part in location:
        found = model.model_fields.get(part)
        if found is None:
            continue  # an entry of a list, or of a mapping
        field, model = found, section_in(found.annotation) or model
    if field is None:
        return "see docs/reference/configuration.md"
    accepted = re.sub(r"\bwhen\b", EXPECTED, describe(field).replace("`", ""))
    return f"'{key}' accepts: {accepted}" + (f"; {field.description}" if field.description else "")


def _location(failure: ErrorDetails, model: type[BaseModel]) -> list[str]:
    """Return the location of a failure, without the names that pydantic adds for the branches of a union."""
    location: list[str] = []
    section: type[BaseModel] | None = model
    for part in failure["loc"]:
        if section is None and isinstance(part, str):
            break
        location.append(str(part))
        if isinstance(part, str):  # else the number of an entry in a list of sections
            section = None if section is None else _section_at(section, part)
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
    return None if field is None else section_in(field.annotation)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
