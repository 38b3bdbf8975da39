"""Ready configs by name: the YAML files in `configs/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ludus.config.plain_yaml import read_yaml
from ludus.plugins import folders

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside an installed package; next to `src/` in a clone.
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parents[1] / "configs")


def preset_folders() -> tuple[Path, ...]:
    """Return the folders that are searched for presets and for the schema that ships with them."""
    return _FOLDERS


@cache
def _presets() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in (*_FOLDERS, *folders("presets")):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def preset_names() -> list[str]:
    return sorted(_presets())


def preset_path(name: str) -> Path:
    """Return the YAML file of a preset. KeyError if it does not exist."""
    return _presets()[name]


def preset_summary(name: str) -> str:
    """The first comment line of the preset's file: what it trains."""
    with preset_path(name).open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def presets_of_env(env_id: str) -> dict[str, str]:
    """Return the preset of each algorithm that trains on `env_id`, by the algorithm's name in capitals.

    Of several, the one that is named after its algorithm, else the one with the shortest name.
    """
    found: dict[str, list[str]] = {}
    for name in preset_names():
        data, _ = read_yaml(preset_path(name))
        env = data.get("env")
        named = env.get("id") if isinstance(env, dict) else env
        if named == env_id and data.get("engine", "native") == "native":
            found.setdefault(str(data.get("algorithm", "PPO")).upper(), []).append(name)
    return {
        algorithm: min(names, key=lambda name: (not name.endswith(f"-{algorithm.lower()}"), len(name), name))
        for algorithm, names in found.items()
    }
