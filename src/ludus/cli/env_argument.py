"""`ludus train CartPole-v1`: the config that an env id alone means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.cli.output import Output
from ludus.errors import UnknownName


def config_of_env(
    source: str | None, assignments: Sequence[str], flags: Mapping[str, Any], output: Output
) -> tuple[str | None, dict[str, Any]]:
    """Return `source` and `flags` as they are, unless `source` is the id of an env.

    Then return the preset of that env and its algorithm, or no source and flags with the env and its algorithm. The
    algorithm is the one that was given, else `choose_algorithm`. UnknownName if it is neither a file nor a preset nor
    an env.
    """
    from ludus.config.importers import SUFFIXES
    from ludus.config.presets import preset_names, presets_of_env

    if source is None or Path(source).is_file() or Path(source).suffix.lower() in SUFFIXES:
        return source, dict(flags)
    if source in preset_names():
        return source, dict(flags)
    _require_env(source)
    from ludus.config.loading import load_config
    from ludus.training.env_algorithm import choose_algorithm

    given = {**flags, "env.id": source}
    config = load_config(None, assignments, given).config
    asked = "algorithm" in config.model_fields_set or config.engine != "native"
    algorithm, reason = (config.algorithm, "as given") if asked else choose_algorithm(config)
    preset = None if config.engine != "native" else presets_of_env(source).get(algorithm.upper())
    if preset is not None:
        output.print(f"{source}: preset {preset} ({algorithm}: {reason})")
        return preset, {name: value for name, value in flags.items() if name != "algorithm"}
    output.print(f"{source}: {algorithm} ({reason}), defaults for {config.total_timesteps} steps; no preset")
    return None, {**given, "algorithm": algorithm}


def _require_env(name: str) -> None:
    """Raise UnknownName, with the nearest name of any kind, unless `name` is an env; else what the env lacks."""
    from ludus.config.presets import preset_names
    from ludus.envs.catalog import check_env_exists, known_env_ids, newest_version

    try:
        check_env_exists(name)
    except UnknownName:
        newest = newest_version(name)
        raise UnknownName(
            "config file, preset or env",
            name,
            [newest] if newest else [*preset_names(), *known_env_ids()],
            where="command line",
            fix="`ludus presets` and `ludus envs` list the known names",
        ) from None
