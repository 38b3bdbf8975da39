"""Failing disks, and what a failed session leaves behind: evidence, `run.json`, and the command that resumes the run.

The first failures to write are logged, and the third in a row of one kind ends the run.
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ludus.algorithms.gradient_step import first_bad_weight
from ludus.errors import (
    CheckpointError,
    LudusError,
    NotFinite,
    SimulatorLost,
    StorageError,
    UserError,
    describe_error,
)
from ludus.secret_values import without_secrets
from ludus.tracking.logs import run_log

if TYPE_CHECKING:
    from ludus.training.session import Session

_log = logging.getLogger("ludus.training")
MAX_FAILURES = 3


def record_failure(session: Session, error: BaseException) -> None:
    """Write `error` to `run.json`, and add to it where its evidence is and how to resume."""
    if isinstance(error, SimulatorLost):  # only the env is lost; what was learned is complete
        with suppress(LudusError):  # report the first error, not this one
            session.preempt()
    note = _keep_evidence(session, error) if isinstance(error, LudusError) else ""
    if note:
        error.add_note(note)
    with suppress(OSError, UserError):  # a damaged run.json is repaired at resume; the error at hand counts
        session.directory.update_info(
            status="failed",
            steps=session.progress.steps,
            error=without_secrets(describe_error(error) + (f"\n{note}" if note else "")),
        )
    run_log.error("failed: %s", describe_error(error))
    hint = resume_hint(session)
    if hint and not isinstance(error, StorageError):  # which contains the hint itself
        error.add_note(f"Nothing saved is lost: {hint}")


def resume_hint(session: Session) -> str:
    """Return which checkpoint is intact and how to resume from it; empty without a usable checkpoint."""
    path = str(session.directory.path)
    command = f"ludus resume {shlex.quote(path)}"
    if session.config.env is None and session.config.language is None:
        command = f"create_trainer(env, config), then resume({path!r}) and train()"
    if not session.directory.info_path.is_file():
        return (
            f"{path} was removed or renamed. Resume the run under its new name, or put it back and: {command}"
        )
    try:
        newest = session.checkpoints.newest_intact()
    except CheckpointError:
        return ""
    except OSError as error:
        reason = error.strerror or error
        return f"its checkpoints cannot be read now ({reason}). Once they can, resume with: {command}"
    return "" if newest is None else f"checkpoint {newest.name} is intact. Resume with: {command}"


def after_a_full_disk(session: Session) -> str:
    """Return the command that resumes once the disk works again; if no checkpoint was saved, say so."""
    try:
        none_saved = session.checkpoints.newest_intact() is None
    except (CheckpointError, OSError):
        none_saved = False
    if none_saved and session.directory.info_path.is_file():
        return "no checkpoint was saved before: start the run again"
    return resume_hint(session) or f"its checkpoints are damaged, see {session.directory.checkpoints_dir}"


def _keep_evidence(session: Session, error: LudusError) -> str:
    """Keep the data that shows `error` in the run directory; return when it happened and where the data is.

    Empty where there is nothing to show.
    """
    arrays = error.evidence
    if arrays is None and isinstance(error, NotFinite) and session.unlearned is not None:
        arrays = session.unlearned.arrays()
    if arrays is None:
        return ""
    note = f"It was env step {session.num_timesteps:,}, update {session.progress.updates + 1:,}."
    if isinstance(error, NotFinite):
        learner = session.learner
        bad = first_bad_weight(learner.policy, learner.optimizers().values(), gradients=True)
        note += f" First bad value of the network: {bad}." if bad else ""
    about = {"error": str(error)[:4000], "when": note}
    try:
        from ludus.runs.evidence import keep_evidence

        path = keep_evidence(session.directory.faults_dir, session.num_timesteps, arrays, about)
    except OSError as problem:
        return f"{note} What shows it could not be kept: {problem}"
    return f"{note} What shows it is kept in {path}"


class Storage:
    """Counts failed writes to the run at `where`; `hint` says how to resume once the disk works again."""

    def __init__(self, where: Path, hint: Callable[[], str]) -> None:
        self._where = where
        self._hint = hint
        self._failures: Counter[str] = Counter()

    @contextmanager
    def tolerating(self, what: str, alarm: str) -> Iterator[None]:
        """Log an OSError as an alarm and continue training; the third in a row is a StorageError.

        `what` names the files that fail together, `alarm` says what is missing now and when it is tried again.
        """
        try:
            yield
        except OSError as error:
            self._failures[what] += 1
            if self._failures[what] >= MAX_FAILURES:
                raise self._ended(
                    f"{what} could not be saved {MAX_FAILURES} times in a row", error
                ) from error
            _log.error("ALARM: %s: %s. Training continues", alarm, error)
        else:
            del self._failures[what]

    @contextmanager
    def requiring(self, what: str) -> Iterator[None]:
        """Turn an OSError into a StorageError: without `what` the run cannot continue, or has not ended well."""
        try:
            yield
        except OSError as error:
            raise self._ended(f"{what} could not be saved", error) from error

    def _ended(self, what: str, error: OSError) -> StorageError:
        return StorageError(
            f"{what}: {error}\n  where: {self._where}\n  fix:   repair the disk or free space on it; {self._hint()}"
        )
