"""Classes in the user's folders, found by name. Only the file that defines the class is run.

The folders are `models` and `rl_pipeline/models` below the current directory, or below the folder of the config that is
trained, with everything in them. For a run that a command uses they are opened only with the user's consent.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ludus.config.own_modules import (
    current_trust,
    foreign_folder,
    import_own_module,
    place,
    require_consent,
)
from ludus.errors import ConfigError, UnknownName

FOLDERS = ("models", "rl_pipeline/models")
_LARGEST_FILE = 1_000_000


def class_names() -> list[str]:
    """The classes that the folders define at the top level of a file."""
    if not current_trust().by_user:
        return []
    return sorted({name for path in _files() for name in _classes_in(path)})


def find_class(name: str, where: str) -> Any:
    """The class called `name` in one of the folders; None when no file defines it.

    ConfigError when several do, UserError without consent. What the file raises when it is imported passes through.
    """
    require_consent(f"the class '{name}'", name, where=where)
    files = [path for path in _files() if name in _classes_in(path)]
    if len(files) > 1:
        raise ConfigError(
            f"several files define a class '{name}': {', '.join(map(_shown, files))}",
            where=where,
            fix="rename one, or name it as 'module:Class'",
        )
    return getattr(_load(files[0], where), name) if files else None


def find_network(
    name: str, kind: str, known: list[str], *, where: str, fix: str, trusted_module: str | None = None
) -> type[nn.Module]:
    """Return the user's network called `name`: `module:Class`, or a class in one of the folders.

    `trusted_module` needs no consent. Raises UnknownName, which suggests one of `known`, and ConfigError for what
    is not a network of torch or cannot be found. What the user's code raises passes through.
    """
    module_name, colon, class_name = name.partition(":")
    found: Any
    if not colon:
        found, shown = find_class(name, where), f"'{name}'"
        if found is None:
            raise UnknownName(kind, name, [*known, *class_names()], where=where, fix=fix)
    else:
        try:
            module = import_own_module(
                module_name, name, where=where, known={trusted_module} if trusted_module else frozenset()
            )
        except ModuleNotFoundError as error:
            # Only the module that was asked for; one missing inside the user's code is the user's traceback.
            if error.name is None or not (module_name + ".").startswith(error.name + "."):
                raise
            raise ConfigError(
                f"the module '{module_name}' of {kind} '{name}' cannot be found",
                where=where,
                fix="install it, or run from the folder that holds it",
            ) from error
        found, shown = getattr(module, class_name, None), f"'{class_name}' in '{module_name}'"
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(
            f"{shown} is not a torch.nn.Module class",
            where=where,
            fix="write 'module:Class' with a class that inherits from torch.nn.Module",
        )
    return found


def _shown(path: Path) -> str:
    """Return the path from the working directory where it is below it."""
    return str(path.relative_to(os.getcwd()) if path.is_relative_to(os.getcwd()) else path)


def _files() -> list[Path]:
    found = [path for root in _roots() for folder in FOLDERS for path in Path(root, folder).rglob("*.py")]
    return sorted(path for path in dict.fromkeys(found) if path.is_file() and _may_be_run(path))


def _roots() -> list[str]:
    """The folders of the user's own; of a Python program the current directory."""
    return list(dict.fromkeys(map(os.path.abspath, current_trust().folders or (os.getcwd(),))))


def _may_be_run(path: Path) -> bool:
    """Return False for files inside a run or a download, which are not the user's own code."""
    return path.stat().st_size <= _LARGEST_FILE and foreign_folder(path) is None


def _classes_in(path: Path) -> set[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # a file with a syntax error defines no class
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
    root = next(root for root in _roots() if path.is_relative_to(root))
    place(called, os.path.realpath(root))
    sys.modules[called] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[called]
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("rl_pipeline"):
            raise ConfigError(
                f"{path} imports '{error.name}', which is not installed",
                where=where,
                fix="write: from ludus import BaseFeaturesExtractor",
            ) from error
        raise
    return module
