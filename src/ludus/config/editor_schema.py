"""The JSON schema of a config file, with which editors complete and check YAML as it is typed."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES, HyperparameterConfig
from ludus.config.presets import preset_folders
from ludus.config.registry import LANGUAGE, algorithm_names, find_algorithm
from ludus.config.schedule import Schedule
from ludus.config.schema import FIELD_ALIASES, FIELD_SWITCHES, TrainerConfig

_FILENAME = "schema.json"
_NULLABLE = ("checkpoint", "evaluation", "video", "early_stopping", "policy", "tracking")


_SCHEDULE: dict[str, Any] = TypeAdapter(Schedule).json_schema()


def editor_schema() -> dict[str, Any]:
    """Everything `load_config` accepts: the model, the short forms, the aliases, every algorithm's own keys."""
    schema = TrainerConfig.model_json_schema()
    definitions, properties = schema["$defs"], schema["properties"]
    for name in ("env", "mirror"):
        properties[name] = _or(properties[name], {"type": "string"})
    for name in _NULLABLE:
        properties[name] = _or(properties[name], {"type": "null"})
    for alias, path in FIELD_ALIASES.items():
        properties[alias] = {"description": f"the same as {'.'.join(path)}"}
    for switch in FIELD_SWITCHES:
        properties[switch] = {"type": "boolean"}
    properties["algorithm"]["examples"] = sorted({*algorithm_names(), *algorithm_names(LANGUAGE)})
    common = definitions.pop("HyperparameterConfig")["properties"]
    properties["hyperparams"] = {
        "description": "the algorithm's own; what is left out takes its default",
        "type": "object",
    }
    # what SB3 takes depends on the version installed, and is checked when the config is read
    schema["if"] = {"properties": {"engine": {"const": "sb3"}}, "required": ["engine"]}
    accepted = [
        _hyperparameters(name, kind, common, definitions)
        for kind in ("native", LANGUAGE)
        for name in algorithm_names(kind)
    ]
    schema["else"] = {"properties": {"hyperparams": {"anyOf": accepted}}}
    tidied = _tidied({key: value for key, value in schema.items() if key != "required"})
    tidied["$defs"]["Schedule"] = _SCHEDULE
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ludus config", **tidied}


def shipped_schema_uri() -> str | None:
    """Return the URI of the schema that is installed with Ludus, for editors; None if it is not installed."""
    for folder in preset_folders():
        if (folder / _FILENAME).is_file():
            return (folder / _FILENAME).as_uri()
    return None


def _hyperparameters(
    name: str, kind: str, common: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    model = find_algorithm(name, kind).hyperparameters
    if kind == LANGUAGE:
        name = f"{name} for language models"
    if model is None:
        return {"description": name, "type": "object"}
    schema = model.model_json_schema()
    definitions.update(schema.pop("$defs", {}))
    own = schema["properties"]
    # common ones that this algorithm lacks are accepted, and ignored with a warning
    merged = {**{key: common[key] for key in HyperparameterConfig.model_fields}, **own}
    for alias, canonical in HYPERPARAMETER_ALIASES.items():
        merged[alias] = {"description": f"the same as {canonical}"}
    return {"description": name, "type": "object", "properties": merged, "additionalProperties": False}


def _tidied(node: Any) -> Any:
    """Shorten the schema: no titles that repeat the key, schedules by reference, defaults as written."""
    if isinstance(node, list):
        return [_tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidied = {key: _tidied(value) for key, value in node.items() if not _is_title(key, value)}
    if "default" in tidied:
        tidied["default"] = _as_written(node["default"])
    if tidied.get("anyOf") == _SCHEDULE["anyOf"]:
        del tidied["anyOf"]
        return {"$ref": "#/$defs/Schedule", **tidied}
    return tidied


def _is_title(key: str, value: Any) -> bool:
    return key == "title" and isinstance(value, str)


def _as_written(default: Any) -> Any:
    """Return a schedule in the short form of a config; pydantic dumps its fields."""
    if isinstance(default, dict) and default.keys() == {"start", "end", "shape", "points"}:
        return Schedule(**default).plain()
    return default


def _or(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    alternatives = schema.get("anyOf")
    if alternatives is not None:
        return {**schema, "anyOf": [*alternatives, other]}
    described = ("default", "description")
    outer = {key: value for key, value in schema.items() if key in described}
    inner = {key: value for key, value in schema.items() if key not in described}
    return {"anyOf": [inner, other], **outer}
