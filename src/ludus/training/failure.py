"""What a failed session leaves behind: evidence, the error in `run.json`, and the command that resumes the run."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from ludus.algorithms.norms import first_bad_weight
from ludus.errors import LudusError, NotFinite, SimulatorLost, StorageError
from ludus.runs.evidence import keep_evidence
from ludus.secret_values import without_secrets

if TYPE_CHECKING:
    from ludus.training.session import Session


def record_failure(session: Session, error: BaseException) -> None:
    """Write `error` to `run.json`, and add to it where its evidence is and how to resume."""
    if isinstance(error, SimulatorLost):  # only the env is lost; what was learned is complete
        with suppress(LudusError):  # report the first error, not this one
            session.preempt()
    note = _keep_evidence(session, error) if isinstance(error, LudusError) else ""
    if note:
        error.add_note(note)
    with suppress(OSError):
        session.directory.update_info(
            status="failed",
            steps=session.progress.steps,
            error=without_secrets(f"{type(error).__name__}: {error}" + (f"\n{note}" if note else "")),
        )
    hint = resume_hint(session)
    if hint and not isinstance(error, StorageError):  # which contains the hint itself
        error.add_note(f"Nothing saved is lost: {hint}")


def resume_hint(session: Session) -> str:
    """Return which checkpoint is intact and how to resume from it; empty without a usable checkpoint."""
    newest = session.checkpoints.newest_intact()
    if newest is None:
        return ""
    path = str(session.directory.path)
    command = f"ludus resume {shlex.quote(path)}"
    if session.config.env is None and session.config.language is None:
        command = f"create_trainer(env, config), then resume({path!r}) and train()"
    return f"checkpoint {newest.name} is intact. Go on with: {command}"


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
        path = keep_evidence(session.directory.faults_dir, session.num_timesteps, arrays, about)
    except OSError as problem:
        return f"{note} What shows it could not be kept: {problem}"
    return f"{note} What shows it is kept in {path}"
