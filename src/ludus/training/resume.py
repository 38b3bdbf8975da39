"""What to resume a run from: the newest intact checkpoint whose files outside of it are unchanged.

Damage is reported, and something older is used instead: an earlier checkpoint for a damaged one, for metrics that were
changed and for a frozen version that is missing; the copy in a checkpoint for `config.yaml` and `run.json`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.config.loading import check_seal
from ludus.config.plain_yaml import read_yaml
from ludus.errors import CheckpointError, UserError
from ludus.runs import atomic, strict_json
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory, walk_runs
from ludus.runs.lock import RunLock
from ludus.runs.manifest import file_digest
from ludus.tracking.jsonl import Extent, check_extent

_log = logging.getLogger("ludus.training")
_CHANGING_KEYS = ("status", "pid", "steps", "seconds", "evaluation", "error", "reason")


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a run resumes from."""

    run: RunDirectory
    checkpoint: Checkpoint
    rows_changed: bool
    """Whether the metric rows differ from what the checkpoint knew, which only a checkpoint named by the user may."""
    known: list[tuple[int, str]]
    """The checkpoints that there were when this one was chosen."""

    @classmethod
    def at(cls, run: RunDirectory, checkpoint: Checkpoint, rows_changed: bool = False) -> ResumePoint:
        return cls(run, checkpoint, rows_changed, _checkpoints_of(run))

    def require_unchanged(self) -> None:
        """Raise UserError if another process has trained the run since."""
        if self.known != _checkpoints_of(self.run):
            raise UserError(
                "another process has trained this run since its checkpoints were looked at",
                where=str(self.run.path),
                fix="resume it once more",
            )


def find_resume_point(
    run: RunDirectory, checkpoint: str | int | None = None, *, exact: bool = False
) -> ResumePoint:
    """Choose the named `checkpoint`, or the newest intact (and exact) one. UserError when there is none."""
    rows_changed = False
    if checkpoint is not None:
        found: Checkpoint | None = CheckpointManager(run.checkpoints_dir).find(checkpoint)
        assert found is not None
        found.verify()
        if not found.resumable:
            raise UserError(
                f"checkpoint {found.name} holds a policy only and cannot be resumed",
                where=str(found.path),
                fix="leave --checkpoint out, or start a new run with pretrained_model",
            )
        try:
            check_rows(run, found.state())
        except CheckpointError as error:
            _log.warning("%s; the run goes on behind the rows that are there", error.what)
            rows_changed = True
    else:
        found = newest_resumable(run, exact_only=exact)
    if found is None:
        raise UserError(
            f"the run has no {'exact ' if exact else ''}checkpoint to resume from",
            where=str(run.path),
            fix="start it again: " + (run.info().get("command") or "ludus train"),
        )
    return ResumePoint.at(run, found, rows_changed)


def newest_resumable(run: RunDirectory, *, exact_only: bool = False) -> Checkpoint | None:
    """Return the newest intact checkpoint for which the run's other files are unchanged, too."""
    return CheckpointManager(run.checkpoints_dir).newest_intact(
        exact_only=exact_only, check=lambda checkpoint: check_files(run, checkpoint)
    )


def check_files(run: RunDirectory, checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for the first file outside `checkpoint` that was changed since it was saved."""
    state = checkpoint.state()
    with checkpoint.understood():
        check_versions(run.path / "league", state.get("roster", {}))
        check_rows(run, state)


def check_rows(run: RunDirectory, state: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless the metrics and episodes begin with the rows that the checkpoint knew."""
    for name, extent in extents_from(state["files"]).items():
        check_extent(run.path / Path(name).name, extent)


def check_versions(folder: Path, roster: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise CheckpointError unless every frozen version has its weights."""
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
    """Read the `files` of a checkpoint's state; older versions stored only sizes."""
    return {
        name: Extent(**known) if isinstance(known, dict) else Extent(int(known))
        for name, known in saved.items()
    }


def copies(run: RunDirectory, config: str) -> dict[str, Any]:
    """Return copies of the run's small files for a checkpoint; `repair_run_files` restores them."""
    try:
        info = run.info()
    except UserError:  # damaged while the run trains: earlier checkpoints have it
        return {"config.yaml": config}
    return {
        "config.yaml": config,
        "run.json": {name: value for name, value in info.items() if name not in _CHANGING_KEYS},
    }


def repair_run_files(run: RunDirectory) -> None:
    """Restore `config.yaml` and `run.json` from the newest checkpoint that has copies, where they are damaged.

    The damaged file is kept as `NAME.damaged`. Raises UserError where no checkpoint has a copy, or when another
    process trains the run.
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


def _checkpoints_of(run: RunDirectory) -> list[tuple[int, str]]:
    return [(one.step, one.created) for one in CheckpointManager(run.checkpoints_dir).list()]


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
