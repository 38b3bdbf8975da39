"""The checkpoints of a session: what they hold, which is best, and how a session is restored from one."""

from __future__ import annotations

import copy
import logging
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ludus.algorithms.gradient_step import first_bad_weight
from ludus.algorithms.learner import AnyLearner, with_prefix
from ludus.config.loading import dump_yaml, sealed
from ludus.config.schema import TrainerConfig
from ludus.errors import NotFinite
from ludus.policies.base import load_policy_tensors
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.tracking.logs import run_log
from ludus.training.failure import Storage
from ludus.training.resume import copies, extents_from, set_aside
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
    """True if the current policy is the best one and is not saved yet."""
    mark: dict[str, Any] | None = None
    """Step and value of the checkpoint that is marked best."""
    evaluations_since: int = 0

    def compare(self, metrics: Metrics) -> None:
        """Note a new best value, if `metrics` has one."""
        value = metrics.get(self.metric)
        if value is not None and np.isfinite(value) and (self.value is None or value > self.value):
            self.value, self.is_new = value, True
            self.evaluations_since = -1  # the evaluation that is counted next makes it 0


@dataclass(frozen=True)
class ReturnPoint:
    """Content of a checkpoint of one moment, in memory."""

    progress: Progress
    tensors: dict[str, dict[str, torch.Tensor]]
    state: dict[str, Any]


class SessionCheckpoints:
    """Saves the state of a session and restores it. `barriers` counts the resumable checkpoints."""

    def __init__(self, config: TrainerConfig, directory: RunDirectory, storage: Storage) -> None:
        self.manager = CheckpointManager(directory.checkpoints_dir, keep=config.checkpoint.keep)
        self.best = BestPolicy(config.checkpoint.best_metric)
        self.barriers = 0
        self.saved_at = -1
        self.keep_changed_rows = False
        """At resume: continue after the metric rows on disk, also where they differ from what the checkpoint knew."""
        self.set_later_aside = False
        """At resume: keep checkpoints that are later than the one restored, instead of deleting them."""
        self._config = config
        self._directory = directory
        self._storage = storage
        self._usable = True
        """False while a checkpoint is being restored, and after that failed."""

    def save(self, session: Session, *, exact: bool = False, resumable: bool = True) -> Checkpoint:
        """Write a checkpoint of this moment, and mark it best if it is. Raises OSError, and NotFinite."""
        require_finite(session.learner)
        session.log.require_in_place()  # in a run that was removed or renamed nobody would find it
        if resumable:
            self.barriers += 1
        tensors, state = self._contents(session, resumable)
        checkpoint = self._write(session.progress.steps, tensors, state, exact=exact, resumable=resumable)
        self.best.is_new = False
        return checkpoint

    def return_point(self, session: Session) -> ReturnPoint:
        """Return what a checkpoint of this moment would hold."""
        self.barriers += 1
        tensors, state = self._contents(session, resumable=True)
        self.barriers -= 1
        copied = {
            # in main memory, since a GPU may have no room for a second copy
            part: {name: tensor.detach().to("cpu", copy=True) for name, tensor in values.items()}
            for part, values in tensors.items()
        }
        return ReturnPoint(replace(session.progress), copied, copy.deepcopy(state))

    def return_to(self, point: ReturnPoint, session: Session) -> None:
        """Give the policy and the progress of `point` back to `session`, and save `point` as the last checkpoint."""
        session.progress = point.progress
        session.learner.policy.load_state_dict(point.tensors["policy"])
        if point.progress.steps > self.saved_at:
            self.barriers += 1
            exact = session.collector.saves_games
            self._write(point.progress.steps, point.tensors, point.state, exact=exact, resumable=True)

    def _contents(
        self, session: Session, resumable: bool
    ) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]]:
        policy, best = session.learner.policy, self.best
        tensors = {"policy": dict(policy.state_dict())}
        state = policy_state(policy, session.progress)
        state["reward_scale"] = session.collector.reward_scale
        if resumable:
            tensors["learner"], training = self._training_state(session)
            state |= training
        state["best_mark"] = best.mark
        if best.is_new and best.value is not None:
            state["best_mark"] = {"step": session.progress.steps, "value": best.value}
        return tensors, state

    def _write(
        self,
        step: int,
        tensors: dict[str, dict[str, torch.Tensor]],
        state: dict[str, Any],
        *,
        exact: bool,
        resumable: bool,
    ) -> Checkpoint:
        checkpoint = self.manager.save(step, tensors, state, exact=exact, resumable=resumable)
        run_log.info("checkpoint %s saved%s", checkpoint.name, "" if resumable else ", policy only")
        if resumable:
            self.saved_at = step
        self.best.mark = state["best_mark"]
        self._mark_best()  # also one that a failing disk did not take before
        return checkpoint

    def try_save(self, session: Session, *, exact: bool = False, resumable: bool = True) -> None:
        """Save; training continues when the disk fails, since it may work again at the next checkpoint.

        StorageError after three failures in a row.
        """
        every = self._config.checkpoint.every
        next_one = f"after {every.in_words()}" if resumable and every else "with the next evaluation"
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
        """Return the newest intact checkpoint; None without one, or when the last one could not be restored.

        CheckpointError if all are damaged, OSError if they cannot be read.
        """
        return self.manager.newest_intact() if self._usable else None

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
        if self.set_later_aside:
            set_aside(self._directory, checkpoint.step)
            self.set_later_aside = False
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
            "  fix:   lower hyperparams.learning_rate, and resume from the last checkpoint"
        )


def policy_state(policy: Any, progress: Progress) -> dict[str, Any]:
    """Return the part of `state.json` that playing with the policy needs."""
    return {"progress": progress.as_dict(), **policy.description()}
