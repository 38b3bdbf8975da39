"""The user's own modules, named in configs as `module:Class`; never those that came along with somebody else's files.

A run, or a model that was downloaded, is data. Its config may name any module, and it may bring Python files: were
one of them importable from here, to play the run would be to run its code.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from ludus.errors import ConfigError

DOWNLOADED = ".ludus-download"
"""An empty file of this name marks a folder with everything in it as fetched from elsewhere."""


def import_own_module(name: str) -> ModuleType:
    """As `importlib.import_module`; ConfigError for a module among the files of a run or of a download."""
    for entry in sys.path:
        folder = Path(entry)
        for part in name.split("."):
            if is_foreign(folder) and _holds(folder, part):
                kind = "a download" if (folder / DOWNLOADED).is_file() else "a run"
                raise ConfigError(
                    f"the module '{name}' lies in {kind}, and what comes with one is never run",
                    where=str(folder),
                    fix="if it is your own code, move it to a folder of its own",
                )
            folder = folder / part
    return importlib.import_module(name)


def is_foreign(folder: Path) -> bool:
    """Whether `folder` is a run, or was downloaded."""
    if (folder / DOWNLOADED).is_file():
        return True
    return (folder / "run.json").is_file() and (folder / "config.yaml").is_file()


def _holds(folder: Path, module: str) -> bool:
    """Whether Python would find a module of that name in `folder`: a package, a file, a compiled one."""
    return any(path.name.partition(".")[0] == module for path in folder.iterdir())
