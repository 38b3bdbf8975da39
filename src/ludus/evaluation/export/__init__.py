"""A policy in a form that other programs run. Each module of this folder is one target, called by its name.

A target has `FILENAME`, the name of what it writes unless told otherwise, and `export(policy, path) -> Exported`.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.errors import UnknownName, UserError
from ludus.evaluation.load import LoadedPolicy

_OF_LANGUAGE = "peft"  # the one target for the adapters of language runs


@dataclass(frozen=True)
class Exported:
    """What was written, and what whoever uses it should know, in a sentence each.

    `differences`: where the file was loaded back and compared, how far each output is from the original.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    differences: dict[str, float] = field(default_factory=dict)


def export_targets() -> list[str]:
    """The names that `export_policy` knows."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def export_policy(policy: LoadedPolicy, target: str, path: Path | None = None) -> Exported:
    """Write `policy` for `target`, to `path` or a file named after the target in this folder.

    Raises UnknownName, MissingExtra, and UserError when the target has no words for this policy or a file is there.
    """
    known = export_targets()
    if target not in known:
        raise UnknownName("target", target, known, where="--to", fix=f"one of {', '.join(known)}")
    if policy.config is None:
        raise UserError(f"'{policy.name}' has no network to export", fix="name a run")
    if (policy.config.language is not None) != (target == _OF_LANGUAGE):
        speaks = "a language model" if policy.config.language is not None else "no language model"
        others = [name for name in known if name != _OF_LANGUAGE]
        raise UserError(
            f"'{policy.name}' is {speaks} and cannot be written as {target}",
            where="--to",
            fix=f"use {_OF_LANGUAGE if policy.config.language is not None else ' or '.join(others)}",
        )
    module: Any = importlib.import_module(f"{__name__}.{target}")
    path = Path(module.FILENAME) if path is None else path
    if path.exists():
        raise UserError(f"'{path}' already exists", where=str(path.absolute()), fix="give another --out")
    if not path.parent.is_dir():
        raise UserError(
            f"there is no folder '{path.parent}'", where=str(path.absolute()), fix="make it first"
        )
    exported: Exported = module.export(policy, path)
    return exported
