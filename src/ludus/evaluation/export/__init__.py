"""Exports a policy to a file that other programs can run. Each module of this folder is one target.

Plugins add targets. A target has `FILENAME`, the default name of its file, and `export(policy, path) -> Exported`.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus import plugins
from ludus.errors import NONE, UnknownName, UserError, require_types
from ludus.evaluation.load import LoadedPolicy

_LANGUAGE_TARGET = "peft"  # the only target for language runs


@dataclass(frozen=True)
class Exported:
    """The files written, and notes for the user, one sentence each.

    If the file was loaded back and compared, `differences` holds the largest difference of each output.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    differences: dict[str, float] = field(default_factory=dict)


def export_targets() -> dict[str, str]:
    """Return the targets of `export_policy` and their modules."""
    own = {module.name: f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)}
    return dict(sorted((plugins.references("exports") | own).items()))


def export_policy(policy: LoadedPolicy, target: str, path: str | Path | None = None) -> Exported:
    """Write `policy` for `target` to `path`, by default to a file named after the target in the current folder.

    Raises UnknownName, MissingExtra, and UserError if the target does not support this policy or the file exists.
    """
    require_types(
        "export_policy",
        policy=(policy, (LoadedPolicy,)),
        target=(target, (str,)),
        path=(path, (str, Path, NONE)),
    )
    known = export_targets()
    if target not in known:
        raise UnknownName("target", target, known, where="--to", fix=f"one of {', '.join(known)}")
    if policy.config is None:
        raise UserError(f"'{policy.name}' has no network to export", fix="give a run")
    if (policy.config.language is not None) != (target == _LANGUAGE_TARGET):
        kind = "a language model" if policy.config.language is not None else "not a language model"
        others = [name for name in known if name != _LANGUAGE_TARGET]
        raise UserError(
            f"'{policy.name}' is {kind} and cannot be exported to {target}",
            where="--to",
            fix=f"use {_LANGUAGE_TARGET if policy.config.language is not None else ' or '.join(others)}",
        )
    module: Any = plugins.load(known[target])
    path = Path(module.FILENAME if path is None else path)
    if path.exists():
        raise UserError(f"'{path}' already exists", where=str(path.absolute()), fix="use another --out")
    if not path.parent.is_dir():
        raise UserError(
            f"folder not found: '{path.parent}'", where=str(path.absolute()), fix="create it first"
        )
    exported: Exported = module.export(policy, path)
    return exported
