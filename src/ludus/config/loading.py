"""From a YAML file, a preset and `key=value` overrides to a TrainerConfig that knows where each value came from."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from ludus.config.hyperparameters import canonical_hyperparameter
from ludus.config.plain_yaml import MAX_BYTES, Key, parse_value, read_yaml, write_yaml
from ludus.config.schema import FIELD_ALIASES, TrainerConfig
from ludus.errors import NONE, ConfigError, UnknownName, UserError, require_types

if TYPE_CHECKING:
    from ludus.config.importers import Document, Imported, ImportOptions

__all__ = [
    "FREE_KEYS",
    "Key",
    "LoadedConfig",
    "check_seal",
    "config_hash",
    "dump_yaml",
    "learning_hash",
    "load_config",
    "plain_config",
    "read_yaml",
    "sealed",
]

_SEAL = re.compile(
    rb"# sha256 ([0-9a-f]{64}) of what follows\. Delete this line when you change the file\.\n"
)
"""The first line of a run's `config.yaml`: a checksum of what follows.

A flipped bit or a missing end leaves YAML that is often still valid, and would train something else. To change the file
on purpose, delete the line.
"""


@dataclass(frozen=True)
class LoadedConfig:
    """A config and, for each key that was written somewhere, the place it was written.

    `imported` describes a file of a foreign format: its format, and the settings without a counterpart.
    """

    config: TrainerConfig
    places: Mapping[Key, str] = field(default_factory=dict)
    preset: str | None = None
    imported: Imported | None = None

    def place(self, key: Key) -> str:
        """Return the origin of the value of `key`: a file and line, the command line, or default."""
        for written, place in self.places.items():
            if key in (written, _canonical(written)):
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


_SUFFIXES = (".yaml", ".yml", ".json", ".py")


def load_config(
    source: str | Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Read a config.

    `source` is a preset's name or a file: Ludus's own YAML or JSON, or a foreign format (see `importers`).
    `overrides` are `key=value` texts with dotted keys, as typed; `flags` are canonical dotted keys set by
    command-line options. Flags replace overrides, overrides replace the file. Raises ConfigError with the line, or
    UnknownName if the source is neither a file nor a preset.
    """
    require_types(
        "load_config",
        source=(source, (str, Path, NONE)),
        overrides=(overrides, (list, tuple)),
        flags=(flags, (Mapping, NONE)),
    )
    for text in overrides:
        require_types("load_config", overrides=(text, (str,)))
    data: dict[str, Any] = {}
    places: dict[Key, str] = {}
    preset, imported = None, None
    if source is not None:
        path, preset = _find_source(str(source))
        if path.name == "config.yaml" and (path.parent / "run.json").is_file():
            check_seal(path)
        from ludus.config.importers import import_foreign, read_document  # a config by flags needs none

        document = read_document(path)
        imported = import_foreign(document, _choice(overrides, flags or {}))
        data, places = _own(document) if imported is None else (imported.data, imported.places)
    for text in overrides:
        key, value = _parse_override(text)
        _set(data, places, key, value, f"command line: {text}")
    for dotted, value in (flags or {}).items():
        _set(data, places, tuple(dotted.split(".")), value, "command line")
    loaded = LoadedConfig(_validate(data, places), places, preset, imported)
    with loaded.locating_errors():
        loaded.config.typed_hyperparams()
    return loaded


def plain_config(config: TrainerConfig) -> dict[str, Any]:
    """`config` as plain data; of the hyperparameters only what was given, for the rest is the algorithm's."""
    data = config.model_dump(mode="json")
    hyperparams = config.hyperparams
    # algorithm_specific overrides the same name next to it, and only one of them can be read back
    beaten = {canonical_hyperparameter(key) for key in hyperparams.algorithm_specific}
    data["hyperparams"] = hyperparams.model_dump(mode="json", exclude_unset=True, exclude=beaten)
    if beaten:  # filled in place, it does not count as set
        data["hyperparams"]["algorithm_specific"] = to_jsonable_python(hyperparams.algorithm_specific)
    return data


def dump_yaml(config: TrainerConfig) -> str:
    """`config` as YAML that `load_config` reads back to the same config."""
    return write_yaml(plain_config(config))


# Sections that may be written as one text, and the key which that is.
_ONE_WORD = {"env": "id", "mirror": "url"}

# At its usual value a key that came later is left out of the hash: runs of older versions must still be found.
_KEYS_ADDED_LATER: tuple[tuple[str, str, Any], ...] = (
    ("", "precision", "auto"),
    ("evaluation", "seed", None),
    ("evaluation", "max_steps", None),
    ("video", "overlay", True),
    ("tracking.wandb", "tags", []),
    ("tracking.wandb", "checkpoints", "policy"),
    ("language.sampler", "vllm", {}),
    ("", "callbacks", []),
    ("policy", "network", None),
    ("policy", "network_kwargs", {}),
)


# Keys that do not change what a run has learnt so far: a run can be continued with others.
FREE_KEYS = (
    "name",
    "total_timesteps",
    "checkpoint",
    "evaluation",
    "early_stopping",
    "video",
    "tracking",
    "exports",
    "mirror",
    "save_dir",
    "timestamp",
    "run_dir",
    "resume",
    "tags",
    "sweep",
)


def config_hash(config: TrainerConfig) -> str:
    """Return a hash of the config, without the run's folder and `resume`."""
    return _digest(_asked_for(config))


def learning_hash(config: TrainerConfig) -> str:
    """Return a hash of what is learnt: `config_hash` without budget, names, intervals and trackers."""
    data = _asked_for(config)
    return _digest({name: value for name, value in data.items() if name not in FREE_KEYS})


def _digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _asked_for(config: TrainerConfig) -> dict[str, Any]:
    data = plain_config(config)
    del data["resume"], data["run_dir"], data["save_dir"], data["timestamp"], data["mirror"]
    del data["exports"]
    del data["tracking"]["tensorboard_dir"], data["tracking"]["monitor_dir"]
    data.pop("sweep", None)
    if data["scale"] is None:
        del data["scale"]
    else:  # where it runs, and how patiently, is not what is asked for
        for name in ("ray", "max_failures", "strategy"):
            del data["scale"][name]
        for name in [name for name in data["scale"] if name.startswith(("cpus_", "gpus_"))]:
            del data["scale"][name]
    if config.language is None:
        for name in ("language", "games", "league", "rewards", "guard", "warmup"):
            del data[name]
    for section, key, usual in _KEYS_ADDED_LATER:
        node = data
        for part in section.split(".") if section else ():
            node = node.get(part) or {}
        if node.get(key) == usual:
            node.pop(key, None)
    specific = data["hyperparams"].pop("algorithm_specific", {})
    data["hyperparams"] |= {canonical_hyperparameter(key): value for key, value in specific.items()}
    return data


def _find_source(source: str) -> tuple[Path, str | None]:
    path = Path(source)
    if path.is_file():
        return path, None
    if path.suffix in _SUFFIXES or "/" in source:
        raise UserError(f"there is no config file '{source}'", where=str(Path.cwd()), fix="check the path")
    from ludus.config.presets import preset_names, preset_path

    if source not in preset_names():
        raise UnknownName("preset or config file", source, preset_names(), fix="see `ludus presets`")
    return preset_path(source), source


def _own(document: Document) -> tuple[dict[str, Any], dict[Key, str]]:
    """Read the document as a config of Ludus."""
    if document.path.suffix.lower() == ".py":
        raise ConfigError(
            "a Python file can only hold settings of a known foreign format, and this one does not",
            where=str(document.path),
            fix="write a YAML config: ludus init; `ludus convert --help` names the formats",
        )
    return document.data, dict(document.places)


def _choice(overrides: Sequence[str], flags: Mapping[str, Any]) -> ImportOptions:
    """Return the options for reading a foreign file, from overrides and flags."""
    given = {".".join(_canonical(key)): value for key, value in map(_parse_override, overrides)}
    from ludus.config.importers import ImportOptions

    given |= flags
    env = given.get("env.id", given.get("env"))
    return ImportOptions(
        env=env if isinstance(env, str) else None,
        algorithm=given.get("algorithm"),
        engine=given.get("engine"),
    )


def _parse_override(text: str) -> tuple[Key, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"'{text}' is not an override", where="command line", fix="write key=value, as in seed=1"
        )
    try:
        parsed = parse_value(value)
    except ValueError:
        raise ConfigError(
            f"the value of '{key}' cannot be read as YAML: {value:.80}",
            where="command line",
            fix=f"quote it: {key}='\"…\"'",
        ) from None
    return tuple(key.strip().split(".")), parsed


def _set(data: dict[str, Any], places: dict[Key, str], key: Key, value: Any, place: str) -> None:
    key = FIELD_ALIASES.get(key[0], key) if len(key) == 1 else key
    for alias, canonical in FIELD_ALIASES.items():
        if canonical[: len(key)] == key and alias in data:
            del data[alias]
    _forget_other_spellings(data, places, key)
    node = data
    for depth, part in enumerate(key[:-1]):
        child = node.get(part)
        if child is None:
            child = {}
        elif part in _ONE_WORD and depth == 0 and isinstance(child, str):
            child = {_ONE_WORD[part]: child}
        if not isinstance(child, dict):
            raise ConfigError(f"'{'.'.join(key[: depth + 1])}' holds a value, not a section", where=place)
        node[part] = child
        node = child
    node[key[-1]] = value
    for stale in [k for k in places if k[: len(key)] == key]:
        del places[stale]
    places[key] = place


def _forget_other_spellings(data: dict[str, Any], places: dict[Key, str], key: Key) -> None:
    """Remove the earlier value of a hyperparameter that is set again, under any of its four keys."""
    hyperparams = data.get("hyperparams")
    if key[0] != "hyperparams" or len(key) == 1 or not isinstance(hyperparams, dict):
        return
    name = canonical_hyperparameter(key[-1])
    sections: list[tuple[Key, Any]] = [(("hyperparams",), hyperparams)]
    sections.append((("hyperparams", "algorithm_specific"), hyperparams.get("algorithm_specific")))
    for path, written in sections:
        for spelling in list(written) if isinstance(written, dict) else ():
            if canonical_hyperparameter(str(spelling)) == name and (*path, spelling) != key:
                del written[spelling]
                places.pop((*path, str(spelling)), None)


def _validate(data: dict[str, Any], places: Mapping[Key, str]) -> TrainerConfig:
    try:
        return TrainerConfig.model_validate(data)
    except ValidationError as error:
        from ludus.config.explain import explain_config

        problem = explain_config(error, data)
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
            if prefix in (written, _canonical(written)):
                return place
    return None


def _canonical(key: Key) -> Key:
    """Return the canonical key of a key as the user wrote it."""
    if len(key) == 1:
        return FIELD_ALIASES.get(key[0], key)
    if key[0] == "hyperparams" and len(key) - (key[1] == "algorithm_specific") == 2:
        return ("hyperparams", canonical_hyperparameter(key[-1]))
    return key


def sealed(text: str) -> str:
    """`text` with its checksum before it."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"# sha256 {digest} of what follows. Delete this line when you change the file.\n{text}"


def check_seal(path: Path) -> None:
    """Raise ConfigError if the run's config at `path` does not match its seal; without a seal it passes."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return  # who reads it refuses it for its size
    line = _SEAL.match(data)
    if line is None and data.strip() and not data.startswith(b"#"):
        return
    if line is None or hashlib.sha256(data[line.end() :]).hexdigest() != line[1].decode():
        raise ConfigError(
            f"{path.name} is damaged: it is not what the run wrote",
            where=str(path),
            fix="`ludus resume` restores it from a checkpoint; if you changed it, delete its first line",
        )
