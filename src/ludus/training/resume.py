"""Where a run goes on: from the newest checkpoint that is whole, with files that are what it knew of them.

What is damaged is named, and something older takes its place: an earlier checkpoint for a damaged one, for metrics
that were changed and for a frozen version that is gone; the copy in a checkpoint for `config.yaml` and `run.json`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ludus.config.plain_yaml import read_yaml
from ludus.config.seal import check_seal
from ludus.errors import CheckpointError, UserError
from ludus.runs import atomic, strict_json
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory, walk_runs
from ludus.runs.lock import RunLock
from ludus.runs.manifest import file_digest
from ludus.tracking.jsonl import Extent, check_extent

_log = logging.getLogger("ludus.training")
_OF_THE_MOMENT = ("status", "pid", "steps", "seconds", "evaluation", "error", "reason")


def newest_resumable(run: RunDirectory, *, exact_only: bool = False) -> Checkpoint | None:
    """As `CheckpointManager.newest_intact`, and the run's files are as that checkpoint knew them."""
    return CheckpointManager(run.checkpoints_dir).newest_intact(
        exact_only=exact_only, check=lambda checkpoint: check_files(run, checkpoint)
    )


def check_files(run: RunDirectory, checkpoint: Checkpoint) -> None:
    """CheckpointError naming the first file outside `checkpoint` that is not as it was when that was saved."""
    state = checkpoint.state()
    with checkpoint.understood():
        check_versions(run.path / "league", state.get("roster", {}))
        check_rows(run, state)


def check_rows(run: RunDirectory, state: Mapping[str, Any]) -> None:
    """CheckpointError unless the metrics and episodes begin with the rows that were there."""
    for name, extent in extents_from(state["files"]).items():
        check_extent(run.path / Path(name).name, extent)


def check_versions(folder: Path, roster: Mapping[str, Mapping[str, Any]]) -> None:
    """CheckpointError unless every frozen version has its weights."""
    for name, known in roster.items():
        path = folder / f"{Path(name).name}.safetensors"
        try:
            found = file_digest(path)
        except OSError as error:
            raise CheckpointError(
                f"the frozen version {path.name} cannot be read ({error.strerror})", where=str(path)
            ) from error
        if found != known["sha256"]:
            raise CheckpointError(
                f"the frozen version {path.name} is damaged: its hash is not the one that was saved",
                where=str(path),
            )


def extents_from(saved: Mapping[str, Any]) -> dict[str, Extent]:
    """The `files` of a checkpoint's state; those of older versions are sizes alone."""
    return {
        name: Extent(**known) if isinstance(known, dict) else Extent(int(known))
        for name, known in saved.items()
    }


def copies(run: RunDirectory, config: str) -> dict[str, Any]:
    """What of the run's small files a checkpoint keeps, so that they can be put back: see `repair_run_files`."""
    try:
        info = run.info()
    except UserError:  # damaged while the run trains: earlier checkpoints have it
        return {"config.yaml": config}
    return {
        "config.yaml": config,
        "run.json": {name: value for name, value in info.items() if name not in _OF_THE_MOMENT},
    }


def repair_run_files(run: RunDirectory) -> None:
    """Put `config.yaml` and `run.json` back from the newest checkpoint that has them, where they are damaged.

    What was there is kept beside it as `NAME.damaged`. Raises what is wrong with them where no checkpoint helps, and
    UserError if another process trains the run.
    """
    for path, trouble in (
        (run.config_path, _config_trouble(run.config_path)),
        (run.info_path, _info_trouble(run)),
    ):
        if trouble is None:
            continue
        with RunLock(run.path):
            source, copy = _find_copy(run, path.name)
            if source is None:
                raise trouble
            if path.exists():
                atomic.rename(path, path.with_name(f"{path.name}.damaged"))
            atomic.write_atomic(path, copy if isinstance(copy, str) else strict_json.dumps_sealed(copy))
        _log.warning(
            "%s; it is put back from checkpoint %s, and what was there is kept as %s.damaged",
            trouble.what,
            source.name,
            path.name,
        )


def repair_all_runs(root: Path | str) -> None:
    """Repair every run under `root` whose `run.json` is damaged, so that a search by config finds it.

    Raises UserError for a run that cannot be repaired: it may be the one the user searches for.
    """
    for run in walk_runs(Path(root)):
        if run.info_path.is_file() and _info_trouble(run) is not None:
            repair_run_files(run)


def _config_trouble(path: Path) -> UserError | None:
    try:
        check_seal(path)
        read_yaml(path)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"{path.name} cannot be read ({error.strerror})", where=str(path))
    return None


def _info_trouble(run: RunDirectory) -> UserError | None:
    try:
        run.info()
    except UserError as error:
        return error
    return None


def _find_copy(run: RunDirectory, name: str) -> tuple[Checkpoint | None, Any]:
    for checkpoint in reversed(CheckpointManager(run.checkpoints_dir).list()):
        try:
            state = checkpoint.state()
            with checkpoint.understood():
                kept = state.get("copies", {}).get(name)
        except CheckpointError:
            continue  # the one before may help
        if kept and isinstance(kept, str if name == "config.yaml" else dict):
            return checkpoint, kept
    return None, None
