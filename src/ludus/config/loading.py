"""From a YAML file, a preset and `key=value` overrides to a TrainerConfig that knows where each value came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ludus.config.explain import explain
from ludus.config.presets import preset_names, preset_path
from ludus.config.schema import FIELD_ALIASES, TrainerConfig
from ludus.errors import ConfigError, UnknownName, UserError

Key = tuple[str, ...]
MAX_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True)
class LoadedConfig:
    """A config and, for each key that was written somewhere, the place it was written."""

    config: TrainerConfig
    places: Mapping[Key, str] = field(default_factory=dict)
    preset: str | None = None

    def place(self, key: Key) -> str:
        """Where the value of `key` came from: a file and line, the command line, or default."""
        for written, place in self.places.items():
            canonical = FIELD_ALIASES.get(written[0], written) if len(written) == 1 else written
            if key in (written, canonical):
                return place
        return "default"

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Adds file and line to a ConfigError or UnknownName about one of this config's keys."""
        try:
            yield
        except (ConfigError, UnknownName) as error:
            error.where = _locate(getattr(error, "key", "") or error.where, self.places) or error.where
            raise


def load_config(
    source: str | Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Read a config.

    `source` is a YAML file or a preset's name; `overrides` are `key=value` texts with dotted keys, as typed;
    `flags` are canonical dotted keys set by command-line options. Later ones win. Raises ConfigError with the
    line at fault, or UnknownName when the source is neither a file nor a preset.
    """
    data: dict[str, Any] = {}
    places: dict[Key, str] = {}
    preset = None
    if source is not None:
        path, preset = _find_source(str(source))
        data, places = read_yaml(path)
    for text in overrides:
        key, value = _parse_override(text)
        _set(data, places, key, value, f"command line: {text}")
    for dotted, value in (flags or {}).items():
        _set(data, places, tuple(dotted.split(".")), value, "command line")
    loaded = LoadedConfig(_validate(data, places), places, preset)
    with loaded.locating_errors():
        loaded.config.typed_hyperparams()
    return loaded


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Key, str]]:
    """The mapping in a YAML file, and the line of every key in it. Only plain data is accepted."""
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise ConfigError(
            f"{path.name} is larger than a config can be ({MAX_CONFIG_BYTES:,} bytes)", where=str(path)
        )
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        places: dict[Key, str] = {}
        if node is not None:
            _record_lines(node, (), path, places)
        data = yaml.safe_load(text) or {}
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(
            f"not valid YAML: {problem}", where=f"{path}{line}", fix="correct the file"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError("a config is a mapping of keys to values", where=str(path), fix="see `ludus init`")
    return data, places


def plain_config(config: TrainerConfig) -> dict[str, Any]:
    """`config` as plain data; of the hyperparameters only what was given, for the rest is the algorithm's."""
    data = config.model_dump(mode="json")
    data["hyperparams"] = config.hyperparams.model_dump(mode="json", exclude_unset=True)
    return data


def dump_yaml(config: TrainerConfig) -> str:
    """`config` as YAML that `load_config` reads back to the same config."""
    text: str = yaml.safe_dump(_plain(plain_config(config)), sort_keys=False, allow_unicode=True)
    return text


def config_hash(config: TrainerConfig) -> str:
    """Identifies what is asked for, wherever the run is put and whether it resumes."""
    data = plain_config(config)
    del data["resume"], data["run_dir"]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _find_source(source: str) -> tuple[Path, str | None]:
    path = Path(source)
    if path.is_file():
        return path, None
    if path.suffix in {".yaml", ".yml"} or "/" in source:
        raise UserError(f"there is no config file '{source}'", where=str(Path.cwd()), fix="check the path")
    if source not in preset_names():
        raise UnknownName("preset or config file", source, preset_names(), fix="see `ludus presets`")
    return preset_path(source), source


def _record_lines(node: yaml.Node, prefix: Key, path: Path, places: dict[Key, str], depth: int = 0) -> None:
    if depth > 20:
        raise ConfigError("the YAML is nested deeper than a config can be", where=str(path))
    if not isinstance(node, yaml.MappingNode):
        return
    for key_node, value_node in node.value:
        key = (*prefix, str(key_node.value))
        place = f"{path}, line {key_node.start_mark.line + 1}"
        if key in places:
            raise ConfigError(
                f"the key '{'.'.join(key)}' is given twice",
                where=f"{place} (first: {places[key].rsplit(', ', 1)[-1]})",
                fix="keep one",
            )
        places[key] = place
        _record_lines(value_node, key, path, places, depth + 1)


def _parse_override(text: str) -> tuple[Key, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"'{text}' is not an override", where="command line", fix="write key=value, as in seed=1"
        )
    try:
        parsed = yaml.safe_load(value) if value else None
    except yaml.YAMLError:
        raise ConfigError(f"the value of '{key}' is not valid YAML: {value}", where="command line") from None
    return tuple(key.strip().split(".")), parsed


def _set(data: dict[str, Any], places: dict[Key, str], key: Key, value: Any, place: str) -> None:
    key = FIELD_ALIASES.get(key[0], key) if len(key) == 1 else key
    for alias, canonical in FIELD_ALIASES.items():
        if canonical == key and alias in data:
            del data[alias]
    node = data
    for depth, part in enumerate(key[:-1]):
        child = node.get(part)
        if child is None:
            child = {}
        elif part == "env" and depth == 0 and isinstance(child, str):
            child = {"id": child}
        if not isinstance(child, dict):
            raise ConfigError(f"'{'.'.join(key[: depth + 1])}' holds a value, not a section", where=place)
        node[part] = child
        node = child
    node[key[-1]] = value
    for stale in [k for k in places if k[: len(key)] == key]:
        del places[stale]
    places[key] = place


def _validate(data: dict[str, Any], places: Mapping[Key, str]) -> TrainerConfig:
    try:
        return TrainerConfig.model_validate(data)
    except ValidationError as error:
        problem = explain(error, TrainerConfig)
    except (ConfigError, UnknownName) as error:
        problem = error  # type: ignore[assignment]  # both carry `where`
    problem.where = _locate(getattr(problem, "key", "") or problem.where, places) or problem.where
    raise problem


def _locate(key: str, places: Mapping[Key, str]) -> str | None:
    """The place of the longest written prefix of a dotted `key`, also under its alias."""
    path = tuple(key.split("."))
    for length in range(len(path), 0, -1):
        prefix = path[:length]
        for written, place in places.items():
            if prefix == written or (len(written) == 1 and FIELD_ALIASES.get(written[0]) == prefix):
                return place
    return None


def _plain(value: Any) -> Any:
    """Only what YAML writes natively."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
