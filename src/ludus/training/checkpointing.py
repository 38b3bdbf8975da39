"""The checkpoints of a session: what they hold, which is best, and how a session is restored from one."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ludus.algorithms.learner import AnyLearner, with_prefix
from ludus.algorithms.norms import first_bad_weight
from ludus.config.loading import dump_yaml, sealed
from ludus.config.schema import TrainerConfig
from ludus.errors import CheckpointError, NotFinite
from ludus.policies.base import load_policy_tensors
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.failure import Storage
from ludus.training.resume import copies, extents_from
from ludus.types import Metrics, Progress

if TYPE_CHECKING:
    from ludus.training.session import Session

_log = logging.getLogger("ludus.training")


@dataclass
class BestPolicy:
    """The best value of `checkpoint.best_metric` so far, and the checkpoint that is marked best."""

    metric: str
    value: float | None = None
    is_new: bool = False
    """Whether the policy as it is now is the best one and is not saved yet."""
    mark: dict[str, Any] | None = None
    """Step and value of the checkpoint that is marked best."""
    evaluations_since: int = 0

    def compare(self, metrics: Metrics) -> None:
        """Note a new best value, if `metrics` has one."""
        value = metrics.get(self.metric)
        if value is not None and np.isfinite(value) and (self.value is None or value > self.value):
            self.value, self.is_new = value, True
            self.evaluations_since = -1  # the evaluation that is counted next makes it 0


class SessionCheckpoints:
    """Saves the state of a session and restores it. `barriers` counts the resumable checkpoints."""

    def __init__(self, config: TrainerConfig, directory: RunDirectory, storage: Storage) -> None:
        self.manager = CheckpointManager(directory.checkpoints_dir, keep=config.checkpoint.keep)
        self.best = BestPolicy(config.checkpoint.best_metric)
        self.barriers = 0
        self.saved_at = -1
        self.keep_changed_rows = False
        """At resume: continue after the metric rows on disk, also where they differ from what the checkpoint knew."""
        self._config = config
        self._directory = directory
        self._storage = storage
        self._usable = True
        """False while a checkpoint is being restored, and after that failed."""

    def save(self, session: Session, *, exact: bool = False, resumable: bool = True) -> Checkpoint:
        """Write a checkpoint of this moment, and mark it best if it is. Raises OSError, and NotFinite."""
        require_finite(session.learner)
        if resumable:
            self.barriers += 1
        policy, best, step = session.learner.policy, self.best, session.progress.steps
        tensors = {"policy": dict(policy.state_dict())}
        state = policy_state(policy, session.progress)
        state["reward_scale"] = session.collector.reward_scale
        if resumable:
            tensors["learner"], training = self._training_state(session)
            state |= training
        mark = best.mark
        if best.is_new and best.value is not None:
            mark = {"step": step, "value": best.value}
        state["best_mark"] = mark
        checkpoint = self.manager.save(step, tensors, state, exact=exact, resumable=resumable)
        if resumable:
            self.saved_at = step
        best.is_new, best.mark = False, mark
        self._mark_best()  # also one that a failing disk did not take before
        return checkpoint

    def try_save(self, session: Session, *, exact: bool = False, resumable: bool = True) -> None:
        """Save; training continues when the disk fails, since it may work again at the next checkpoint.

        StorageError after three failures in a row.
        """
        next_one = f"after {self._config.checkpoint.every}" if resumable else "with the next evaluation"
        step = f"{session.progress.steps:,}"
        with self._storage.tolerating(
            "checkpoints",
            f"the checkpoint of step {step} could not be saved (the next one is due {next_one})",
        ):
            try:
                self.save(session, exact=exact, resumable=resumable)
            except OSError:
                self.best.is_new = False  # a later policy must not be saved as this one
                raise

    def restore(self, session: Session, checkpoint: Checkpoint) -> None:
        """Bring `session` to the state that `checkpoint` holds. Raises CheckpointError."""
        self._usable = False
        with checkpoint.understood():
            self._restore(session, checkpoint)
        self._usable = True

    def newest_intact(self) -> Checkpoint | None:
        """Return the newest intact checkpoint; None without one, or when the last one could not be restored."""
        try:
            return self.manager.newest_intact() if self._usable else None
        except (CheckpointError, OSError):
            return None

    def _training_state(self, session: Session) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        learner, collector = session.learner, session.collector
        stream_values, stream_tensors = session.streams.state_dict()
        tensors = {f"learner.{key}": value for key, value in learner.tensors().items()}
        tensors |= {f"streams.{key}": value for key, value in stream_tensors.items()}
        tensors |= collector.tensors()
        state = {
            "barriers": self.barriers,
            "learner": learner.values(),
            "streams": stream_values,
            "best": self.best.value,
            "evaluations_since_best": self.best.evaluations_since,
            "files": {name: asdict(extent) for name, extent in session.log.extents().items()},
            "copies": copies(self._directory, self._config_text),
        }
        return tensors, state | session.state_dict() | collector.values()

    def _restore(self, session: Session, checkpoint: Checkpoint) -> None:
        state, tensors = checkpoint.state(), checkpoint.tensors("learner")
        load_policy_tensors(session.learner.policy, checkpoint)
        session.learner.load(with_prefix(tensors, "learner"), state["learner"])
        session.collector.load(tensors, state)
        session.load_state_dict(state)
        self.barriers = int(state["barriers"])
        self.best.value = state["best"]
        self.best.evaluations_since = int(state["evaluations_since_best"])
        self.best.mark = state.get("best_mark")
        self.saved_at = session.progress.steps
        session.log.rewind(extents_from(state["files"]), whatever_they_hold=self.keep_changed_rows)
        for damage in self.manager.damaged_hints():
            _log.warning("%s", damage)
        self.manager.truncate_after(checkpoint.step)
        self._mark_best()
        # last: building networks and envs above may have drawn from the global generators
        session.streams.load_state_dict(state["streams"], with_prefix(tensors, "streams"))

    def _mark_best(self) -> None:
        mark = self.best.mark
        if mark is not None:
            self.manager.renew_best(mark["step"], self.best.metric, mark["value"])

    @cached_property
    def _config_text(self) -> str:
        return sealed(dump_yaml(self._config))


def require_finite(learner: AnyLearner) -> None:
    """Raise NotFinite when a weight or an optimizer's state is not finite; such a learner must not be saved."""
    bad = first_bad_weight(learner.policy, learner.optimizers().values())
    if bad:
        raise NotFinite(
            f"what was learnt is not finite: {bad}; it is not saved\n"
            "  where: the learner\n"
            "  fix:   lower hyperparams.learning_rate, and go on from the last checkpoint"
        )


def policy_state(policy: Any, progress: Progress) -> dict[str, Any]:
    """Return the part of `state.json` that playing with the policy needs."""
    return {"progress": progress.as_dict(), **policy.description()}
