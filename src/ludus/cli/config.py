"""`ludus config`: print the resolved config and the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, examples
from ludus.cli.foreign import remark_as_dict, remarks_as_comments
from ludus.cli.output import Output, emit_json

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ludus.config.loading import Key, LoadedConfig

_COMMENT_COLUMN = 48  # maximum; after a longer value, only that comment moves to the right


EXAMPLES = examples(
    "ludus config cartpole-ppo",
    "ludus config my.yaml seed=7",
    "ludus config --algo sac --env Pendulum-v1",
)


def config(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG|PRESET", help="A YAML file, or a preset's name.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Config keys to set.")
    ] = None,
    algo: Annotated[str | None, typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN, SAC, …")] = None,
    env: EnvId = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="Training loop: native or sb3.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of config files, for editors.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the resolved config, and where each value came from."""
    from ludus.cli.train import split_source

    if schema:
        _print_schema(json)
        return
    from ludus.config.loading import load_config

    output = Output(json, listing=True)
    source, assignments = split_source(config, overrides)
    flags = {"algorithm": algo, "env.id": env, "engine": engine}
    loaded = load_config(
        source, assignments, {key: value for key, value in flags.items() if value is not None}
    )
    lines = list(_lines(loaded))
    column = min(_COMMENT_COLUMN, max(len(text) for text, _, _ in lines) + 2)
    for text, _, origin in lines:
        output.print(text if origin is None else f"{text.ljust(column)}  # {origin}")
    origins = {".".join(key): origin for _, key, origin in lines if origin is not None}
    data: dict[str, Any] = {"config": _resolved(loaded), "origins": origins}
    if loaded.imported is not None:
        for line in remarks_as_comments(loaded.imported):
            output.print(line)
        data["lost"] = [remark_as_dict(remark) for remark in loaded.imported.lost]
    output.result(data)


def _print_schema(as_one_line: bool) -> None:
    import json

    from ludus.config.editor_schema import editor_schema

    if as_one_line:
        emit_json(editor_schema())
    else:
        print(json.dumps(editor_schema(), indent=2, ensure_ascii=False))


def _resolved(loaded: LoadedConfig) -> dict[str, Any]:
    """Return the config as plain data, with the algorithm's defaults filled in."""
    data = loaded.config.model_dump(mode="json")
    data["algorithm"] = loaded.config.algorithm_entry().name
    data["hyperparams"] = loaded.config.typed_hyperparams().model_dump(mode="json")
    data["normalize_reward"] = loaded.config.normalizes_reward()
    data["evaluation"] = loaded.config.resolved_evaluation().model_dump(mode="json")
    return data


def _lines(loaded: LoadedConfig) -> Iterator[tuple[str, Key, str | None]]:
    """Yield the lines of the YAML: text, key, and the value's origin (None for the head of a section)."""
    config = loaded.config.model_copy(update={"evaluation": loaded.config.resolved_evaluation()})
    for name in type(config).model_fields:
        if name == "hyperparams":
            yield "hyperparams:", (name,), None
            yield from _hyperparameter_lines(loaded)
        else:
            yield from _field_lines(loaded, config, (name,))


def _field_lines(loaded: LoadedConfig, section: BaseModel, key: Key) -> Iterator[tuple[str, Key, str | None]]:
    from pydantic import BaseModel

    name, indent = key[-1], "  " * (len(key) - 1)
    value = getattr(section, name)
    if isinstance(value, BaseModel):
        yield f"{indent}{name}:", key, None
        for child in type(value).model_fields:
            yield from _field_lines(loaded, value, (*key, child))
        return
    if key == ("algorithm",):
        value = loaded.config.algorithm_entry().name
    if key == ("normalize_reward",):
        value = loaded.config.normalizes_reward()
    yield f"{indent}{name}: {inline_yaml(value)}", key, _field_origin(loaded, section, key)


def _field_origin(loaded: LoadedConfig, section: BaseModel, key: Key) -> str:
    from ludus.config.schema import UNUSED_BY_LANGUAGE

    config, name = loaded.config, key[-1]
    if config.language is not None and (key[0] in UNUSED_BY_LANGUAGE or key == ("evaluation", "max_steps")):
        return "no effect in a language run"
    if name not in section.model_fields_set:
        return "default"
    if key[0] == "evaluation" and name not in config.evaluation.model_fields_set:
        return "default of language runs"
    return _origin(loaded, key)


def _hyperparameter_lines(loaded: LoadedConfig) -> Iterator[tuple[str, Key, str | None]]:
    from ludus.config.hyperparameters import HYPERPARAMETER_ALIASES

    given = loaded.config.hyperparams.given()
    for name, value in loaded.config.typed_hyperparams():
        aliases = [alias for alias, canonical in HYPERPARAMETER_ALIASES.items() if canonical == name]
        candidates: list[Key] = [("hyperparams", word) for word in (name, *aliases)]
        candidates += [("hyperparams", "algorithm_specific", word) for word in (name, *aliases)]
        origin = f"default of {loaded.config.algorithm_entry().name}"
        if name in given:
            origin = next(
                (_short_location(loaded, key) for key in candidates if key in loaded.places), "given"
            )
        yield f"  {name}: {inline_yaml(value)}", ("hyperparams", name), origin


def _origin(loaded: LoadedConfig, key: Key) -> str:
    """Return the origin of a value that was set: its own key, an alias, or the section that contains it."""
    if loaded.place(key) != "default":
        return _short_location(loaded, key)
    if key == ("policy", "features_dim") and ("hyperparams", "features_dim") in loaded.places:
        return _short_location(loaded, ("hyperparams", "features_dim"))
    for length in range(len(key) - 1, 0, -1):
        if key[:length] in loaded.places:
            return _short_location(loaded, key[:length])
    return "follows from another key"


def _short_location(loaded: LoadedConfig, key: Key) -> str:
    """Return the origin of a value, with the path of a file as short as possible."""
    location = loaded.place(key)
    path, comma, line = location.rpartition(", ")
    if not comma or not line.startswith("line "):
        return location
    if loaded.preset is not None:
        return f"preset {loaded.preset}, {line}"
    relative = os.path.relpath(path) if Path(path).is_absolute() else path
    return f"{min(relative, path, key=len)}, {line}"


def inline_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    import yaml
    from pydantic_core import to_jsonable_python

    if hasattr(value, "plain"):  # a Schedule or a When
        value = value.plain()
    text = yaml.safe_dump(to_jsonable_python(value), default_flow_style=True, width=10**6, allow_unicode=True)
    return text.strip().removesuffix("...").strip()
