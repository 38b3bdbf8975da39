"""Classes that users drop into a folder: found by name, without running any file but the one that defines it.

The folders are `models` and `rl_pipeline/models` below the current directory, with everything in them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ludus.config.own_modules import is_foreign
from ludus.errors import ConfigError

FOLDERS = ("models", "rl_pipeline/models")
_LARGEST_FILE = 1_000_000


def class_names() -> list[str]:
    """The classes that the folders define at the top level of a file."""
    return sorted({name for path in _files() for name in _classes_in(path)})


def find_class(name: str, where: str) -> Any:
    """The class called `name` in one of the folders; None when no file defines it.

    ConfigError when several do. What the file raises when it is imported passes through.
    """
    files = [path for path in _files() if name in _classes_in(path)]
    if len(files) > 1:
        raise ConfigError(
            f"several files define a class '{name}': {', '.join(map(str, files))}",
            where=where,
            fix="rename one, or name it as 'module:Class'",
        )
    return getattr(_load(files[0], where), name) if files else None


def _files() -> list[Path]:
    found = [path for folder in FOLDERS for path in Path(folder).rglob("*.py")]
    return sorted(path for path in found if path.is_file() and _may_be_run(path))


def _may_be_run(path: Path) -> bool:
    """Not what came along with a run or a download, which may have been put there too."""
    return path.stat().st_size <= _LARGEST_FILE and not any(map(is_foreign, path.parents))


def _classes_in(path: Path) -> set[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # a file that is no Python yet defines nothing
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def _load(path: Path, where: str) -> ModuleType:
    """Import a file by its path, once; files of the same name in other folders stay apart."""
    resolved = path.resolve()
    digest = hashlib.sha256(str(resolved).encode()).hexdigest()[:8]
    called = f"ludus_own_models.{path.stem}_{digest}"
    if called in sys.modules:
        return sys.modules[called]
    spec = importlib.util.spec_from_file_location(called, resolved)
    assert spec is not None and spec.loader is not None  # a .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[called] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[called]
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("rl_pipeline"):
            raise ConfigError(
                f"{path} imports '{error.name}', which is not here",
                where=where,
                fix="write: from ludus import BaseFeaturesExtractor",
            ) from error
        raise
    return module
