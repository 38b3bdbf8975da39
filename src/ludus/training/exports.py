"""`exports`: the policy at the end of a run, written into its folder for other programs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from ludus import plugins
from ludus.errors import LudusError, UnknownName, UserError, describe_error
from ludus.evaluation.export import export_policy, export_targets
from ludus.evaluation.load import load
from ludus.runs.checkpoints import Checkpoint

_log = logging.getLogger("ludus.training")


def require_known_targets(targets: Sequence[str]) -> None:
    """Raise UnknownName for a target that `ludus export` does not have."""
    known = export_targets()
    for target in targets:
        if target not in known:
            raise UnknownName(
                "export target", target, known, where="exports", fix=f"one of {', '.join(known)}"
            )


def write_exports(targets: Sequence[str], folder: Path, checkpoint: Checkpoint) -> None:
    """Write the policy of `checkpoint` for each target, in place of an older file. Says what cannot be written.

    The run is complete without these files.
    """
    for target in targets:
        name = f"the export to {target}"
        try:
            name = str(plugins.load(export_targets()[target]).FILENAME)
            (folder / name).unlink(missing_ok=True)
            export_policy(load(checkpoint.path), target, folder / name)
        except UserError as error:
            hint = f" ({error.fix})" if error.fix else ""
            _log.warning("%s was not written: %s%s", name, error.what, hint)
        except (LudusError, OSError) as error:
            _log.warning("%s was not written: %s", name, describe_error(error))
        else:
            _log.info("%s is in %s", name, folder)
