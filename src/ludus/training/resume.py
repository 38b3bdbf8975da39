"""Choose the checkpoint to resume a run from: the newest intact one whose files outside of it are unchanged.

Damage is reported, and something older is used instead: an earlier checkpoint for a damaged one, for metrics that were
changed and for a frozen version that is missing; the copy in a checkpoint for `config.yaml` and `run.json`.
"""

from __future__ import annotations

import logging
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.config.loading import check_seal
from ludus.config.plain_yaml import read_yaml
from ludus.errors import CheckpointError, UserError
from ludus.plain_files import is_refusal
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
    """True if the metric rows differ from the checkpoint's record. Allowed only for a checkpoint the user named."""
    chosen: bool
    """True if the user chose this checkpoint: later ones are then set aside, not deleted."""
    known: list[tuple[int, str]]
    """The checkpoints that there were when this one was chosen."""

    @classmethod
    def at(
        cls, run: RunDirectory, checkpoint: Checkpoint, rows_changed: bool = False, chosen: bool = False
    ) -> ResumePoint:
        return cls(run, checkpoint, rows_changed, chosen, _checkpoints_of(run))

    def require_unchanged(self) -> None:
        """Raise UserError if another process has trained the run since."""
        if self.known != _checkpoints_of(self.run):
            raise UserError(
                "another process has trained this run since its checkpoints were read",
                where=str(self.run.path),
                fix="resume it once more",
            )


def find_resume_point(
    run: RunDirectory, checkpoint: str | int | None = None, *, exact: bool = False
) -> ResumePoint:
    """Choose the named `checkpoint`, or the newest intact (and exact) one. UserError when there is none."""
    with readable_checkpoints(run):
        return _find_resume_point(run, checkpoint, exact)


@contextmanager
def readable_checkpoints(run: RunDirectory) -> Iterator[None]:
    """Turn an OSError about the checkpoints into a UserError: there may be some, and none is lost by it."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the run's checkpoints cannot be read: {error.strerror or error}",
            where=str(error.filename or run.checkpoints_dir),
            fix="nothing was lost: make the folder readable (rights, `ulimit -n`, the disk), then resume",
        ) from error


def _find_resume_point(run: RunDirectory, checkpoint: str | int | None, exact: bool) -> ResumePoint:
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
            _log.warning("%s; the run continues after the rows that are there", error.what)
            rows_changed = True
    else:
        found = newest_resumable(run, exact_only=exact)
    if found is None:
        raise UserError(
            f"the run has no {'exact ' if exact else ''}checkpoint to resume from",
            where=str(run.path),
            fix="start it again: " + (run.info().get("command") or "ludus train"),
        )
    return ResumePoint.at(run, found, rows_changed, chosen=exact or checkpoint is not None)


def set_aside(run: RunDirectory, step: int) -> None:
    """Move the checkpoints later than `step` into a folder inside `run`, which can be used as a run like any other."""
    manager = CheckpointManager(run.checkpoints_dir)
    later = manager.movable_after(step)
    if not later:
        return
    folder, number = run.path / "set_aside" / f"after-{step}", 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"after-{step}-{number}")
    folder.mkdir(parents=True)
    kept = RunDirectory(folder)
    for path in (run.config_path, run.info_path, run.metrics_path, run.episodes_path):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    manager.move_after(step, kept.checkpoints_dir)
    _log.warning(
        "%d checkpoints later than step %d were moved to %s. To use them, give this folder as the run: ludus resume %s",
        len(later),
        step,
        folder,
        shlex.quote(str(folder)),
    )


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
            if is_refusal(error):
                raise
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
                raise UserError(
                    f"{trouble.what}, and no checkpoint has a copy of it",
                    where=str(path),
                    fix="restore the file from a backup, or remove the run: "
                    f"ludus runs rm {shlex.quote(str(run.path))}",
                ) from trouble
            if path.exists():
                atomic.rename(path, path.with_name(f"{path.name}.damaged"))
            atomic.write_atomic(path, copy if isinstance(copy, str) else strict_json.dumps_sealed(copy))
        _log.warning(
            "%s; it is put back from checkpoint %s, and what was there is kept as %s.damaged",
            trouble.what,
            source.name,
            path.name,
        )


def repair_all_runs(root: Path | str) -> list[tuple[RunDirectory, UserError]]:
    """Repair every run under `root` whose `run.json` is damaged, so that a search by config finds it.

    Returns those that could not be repaired, and why. OSError or UserError where the machine refuses to read now.
    """
    unrepaired = []
    for run in walk_runs(Path(root)):
        if not run.info_path.is_file() or _info_trouble(run) is None:
            continue
        try:
            with readable_checkpoints(run):
                repair_run_files(run)
        except UserError as error:
            if error.__cause__ is not None and is_refusal(error.__cause__):
                raise  # nothing is known of the run: it may be the one the user searches for
            unrepaired.append((run, error))
    return unrepaired


def _config_trouble(path: Path) -> UserError | None:
    try:
        check_seal(path)
        read_yaml(path)
    except UserError as error:
        return _unless_refused(error)
    except OSError as error:
        if is_refusal(error):
            raise
        return UserError(f"{path.name} cannot be read ({error.strerror})", where=str(path))
    return None


def _info_trouble(run: RunDirectory) -> UserError | None:
    try:
        run.info()
    except UserError as error:
        return _unless_refused(error)
    return None


def _unless_refused(error: UserError) -> UserError:
    """Return `error`, unless the file was only refused to us: then it is not damaged, and must not be put back."""
    if error.__cause__ is not None and is_refusal(error.__cause__):
        raise error.__cause__
    return error


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
