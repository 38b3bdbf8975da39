"""Ready configs by name: the YAML files in `configs/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

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
