"""Messages about an imported config: its format, and the settings that have no counterpart in Ludus."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ludus.cli.output import Output
from ludus.errors import install_command

if TYPE_CHECKING:
    from ludus.config.importers import Imported, Remark
    from ludus.config.loading import LoadedConfig


def without_missing_wandb(loaded: LoadedConfig, output: Output | None = None) -> LoadedConfig:
    """Turn W&B off if it is not installed, with a note to `output`: an imported config must train here too.

    A config of Ludus's own that asks for W&B means it, and fails without it.
    """
    tracking = loaded.config.tracking
    if loaded.imported is None or tracking.wandb is None or find_spec("wandb") is not None:
        return loaded
    if output is not None:
        output.print(f"W&B is not installed, so metrics stay in the run ({install_command('wandb')})")
    without = tracking.model_copy(update={"wandb": None})
    return replace(loaded, config=loaded.config.model_copy(update={"tracking": without}))


def print_import(imported: Imported, source: str | None, output: Output) -> None:
    """Print the format and each key that is lost; keys that need no counterpart are only counted."""
    output.print(f"{source}: {imported.kind}")
    if imported.lost:
        output.print(f"{_counted(len(imported.lost), 'key has', 'keys have')} no equivalent:")
        for remark in imported.lost:
            output.print(f"  {remark}")
    if imported.notes:
        command = shlex.join(["ludus", "convert", str(source), *imported.chosen])
        what = _counted(len(imported.notes), "key needs", "keys need")
        output.print(f"{what} no equivalent; `{command}` says why")


def remarks_as_comments(imported: Imported) -> list[str]:
    """Return all remarks as comment lines of a YAML file."""
    lines = []
    for title, remarks in (
        ("Keys that have no equivalent", imported.lost),
        ("Keys that need no equivalent", imported.notes),
    ):
        if remarks:
            lines += [f"# {title}:", *(f"#   {remark}" for remark in remarks)]
    return lines


def remark_as_dict(remark: Remark) -> dict[str, Any]:
    """For `--json`."""
    return {"key": remark.key, "place": remark.place, "value": remark.value, "why": remark.why}


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
