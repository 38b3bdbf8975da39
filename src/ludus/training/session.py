"""A training in progress: what it has done, what is due next, and when it ends."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ludus.algorithms.gradient_step import optimizer_norms
from ludus.algorithms.learner import AnyLearner, StoppableLearner, UpdateStopped
from ludus.config.schema import TrainerConfig
from ludus.config.when import When
from ludus.evaluation.evaluate import EvaluationResult, EvaluationStopped
from ludus.rollout.collector import Collector
from ludus.rollout.experience import Experience
from ludus.runs.checkpoints import Checkpoint
from ludus.runs.directory import RunDirectory
from ludus.runs.signals import StopSignals
from ludus.runs.streams import Streams
from ludus.tracking.logs import run_log
from ludus.tracking.tracker import MetricsLog
from ludus.training.checkpointing import ReturnPoint, SessionCheckpoints
from ludus.training.failure import Storage, after_a_full_disk
from ludus.training.metric_rows import MetricRows
from ludus.types import Metrics, Progress

if TYPE_CHECKING:
    from ludus.tracking.progress import ProgressDisplay

LONG_UPDATE = 2.0
"""Seconds. A stop signal waits for the end of an update that is shorter."""
_log = logging.getLogger("ludus.training")


@dataclass(kw_only=True, eq=False)
class Session:
    """A training in progress. `training/loop.py` shows when each of its methods is called."""

    config: TrainerConfig
    directory: RunDirectory
    learner: AnyLearner
    collector: Collector
    streams: Streams
    log: MetricsLog
    signals: StopSignals
    evaluate: Callable[[], EvaluationResult]
    record_video: Callable[[int], None] | None = None
    display: ProgressDisplay | None = None
    callback: Any = None
    callback_metrics: Callable[[], Metrics] = dict

    def __post_init__(self) -> None:
        self.progress = Progress()
        self.last_evaluation: EvaluationResult | None = None
        self.stop_reason: str | None = None
        self.unlearned: Experience | None = None
        """Experience that was collected and not yet learned from."""
        self.storage = Storage(self.directory.path, lambda: after_a_full_disk(self))
        self.rows = MetricRows(self.directory, self.log, self.storage, self.config.device)
        self.checkpoints = SessionCheckpoints(self.config, self.directory, self.storage)
        self._before = Progress()
        """Progress after the last update: an interval that ended since then is due."""
        self._steps_in_collection = 0
        self._return_point: ReturnPoint | None = None
        """The state before the collection, where the update may be so long that a stop signal ends it."""
        self._collecting_since: float | None = None
        """When the open collection began; None between collections."""
        self._counted_at = 0.0
        self._update_seconds = math.inf
        """Duration of the last update, with its collection where the games of a collection are saved."""
        self._evaluated_at = -1
        self._waiting = False
        """True while training waits for an evaluation or a video."""
        self._work_stopped = False
        self._started = time.monotonic()
        self._seconds_before = 0.0
        self._steps_before = 0
        self.collector.step_hook = self._after_step
        if isinstance(self.learner, StoppableLearner):
            self.learner.before_step = self._raise_if_update_stops
        total = self.config.total_timesteps
        self.collector.steps_left = self._steps_left if total.unit == "steps" else None

    @property
    def done(self) -> bool:
        return self.stop_reason is not None or self.fraction_done >= 1.0

    @property
    def stop_requested(self) -> bool:
        """Return True if a signal asked the process to stop."""
        return self.signals.received is not None

    @property
    def collecting(self) -> bool:
        """Return True while a collection is open."""
        return self._collecting_since is not None

    @property
    def fraction_done(self) -> float:
        return self.config.total_timesteps.fraction(self.progress)

    @property
    def num_timesteps(self) -> int:
        """Env steps so far, the open collection included."""
        return self.progress.steps + self._steps_in_collection

    def progress_now(self) -> tuple[float, int]:
        """Return the fraction done and the env steps, the open collection included. Another thread may call it."""
        steps = self.num_timesteps
        return self.config.total_timesteps.fraction(replace(self.progress, steps=steps)), steps

    @property
    def seconds(self) -> float:
        """Wall-clock time of this session, without the sessions before it."""
        return time.monotonic() - self._started

    @property
    def fps(self) -> float:
        return (self.progress.steps - self._steps_before) / max(self.seconds, 1e-9)

    def begin(self, checkpoint: Checkpoint | None = None) -> None:
        """Start at step 0, or resume where `checkpoint` was saved."""
        if checkpoint is not None:
            self.checkpoints.restore(self, checkpoint)
            if self.directory.info().get("status") == "stopped":
                self.stop_reason = None  # it had ended there, and the user resumes it
        self.collector.barrier(self.checkpoints.barriers)
        self._started = time.monotonic()
        self._seconds_before = self.progress.seconds
        self._steps_before = self.progress.steps
        self.rows.start_clock(self.progress.steps)
        self._before = replace(self.progress)

    # Called by the loop

    def before_collect(self) -> None:
        """Keep the state to return to if the update that follows is stopped in the middle."""
        stops = isinstance(self.learner, StoppableLearner) and self.learner.stops_between_steps
        self._return_point = None
        self._collecting_since = time.monotonic()
        if stops and self._update_seconds > LONG_UPDATE:
            self._return_point = self.checkpoints.return_point(self)

    def count(self, experience: Experience) -> None:
        """Count the steps and episodes of `experience`."""
        self._steps_in_collection = 0
        self._counted_at = time.monotonic()
        if self.collector.saves_games and self._collecting_since is not None:
            self._counted_at = (
                self._collecting_since
            )  # such a collection is not stopped without a return point
        self._collecting_since = None
        self.unlearned = experience
        self.progress.steps += experience.steps
        self.progress.episodes += len(experience.episodes)
        self.rows.add_episodes(self.progress.steps, experience.episodes)

    def after_collect(self, experience: Experience) -> None:
        """Called between collecting and learning."""
        self._note("learning")
        if self.callback is not None:
            self.callback.on_rollout_end()

    def after_learn(self, metrics: Metrics) -> Metrics:
        """Called between learning and publishing; return the metrics to record."""
        return metrics

    def record(self, experience: Experience, metrics: Metrics) -> None:
        """Record the metrics of an update; a row is written when `tracking.every` steps have passed."""
        self.unlearned = None
        self._update_seconds = time.monotonic() - self._counted_at
        self.progress.updates += 1
        self.progress.seconds = self._seconds_before + self.seconds
        self.rows.add_update(metrics | self.callback_metrics())
        row = None
        if self._due(When(self.config.tracking.every)) or self.done:
            row = self._write_row()
        self._show(row)

    def run_due_work(self) -> None:
        """Evaluate, record a video and save a checkpoint where one is due. EvaluationStopped on a stop signal."""
        if self._due(self.config.evaluation.every):
            self.run_evaluation()
        if self.record_video is not None and self._due(self.config.video.every):
            with self._stoppable_work("recording a video"):
                self.record_video(self.progress.steps)
        self._stop_early()
        every = self.config.checkpoint.every
        if self._due(every):
            at_barrier = self.collector.seeded and every is not None and not every.is_wall_clock
            self.checkpoints.try_save(self, exact=self.collector.saves_games or at_barrier)
            self.collector.barrier(self.checkpoints.barriers)
        elif self.checkpoints.best.is_new:
            self.checkpoints.try_save(self, resumable=False)
        self._before = replace(self.progress)
        if self.callback is not None and not self.done and not self.stop_requested:
            self.callback.on_rollout_start()

    def preempt(self) -> str:
        """Save a checkpoint after a stop request. It is exact only when it holds the open games."""
        point = self._return_point
        unfinished = self.unlearned is not None or (self.collector.saves_games and self.collecting)
        self._collecting_since = None
        if point is not None and unfinished and self.stop_requested:
            with self.storage.requiring("the last checkpoint"):
                self.checkpoints.return_to(point, self)
            self.unlearned, self._steps_in_collection = None, 0
        elif self.progress.steps > self.checkpoints.saved_at:
            with self.storage.requiring("the last checkpoint"):
                complete = self._steps_in_collection == 0 and not self._work_stopped
                self.checkpoints.save(self, exact=self.collector.saves_games and complete)
        return "interrupted" if self.stop_requested else "stopped"

    def finish(self) -> str:
        """Write the last row, evaluation and checkpoint."""
        if self.rows.pending:  # training may end between two rows
            self._write_row()
        if self.config.evaluation.every is not None and self._evaluated_at != self.progress.steps:
            self.run_evaluation()
        with self.storage.requiring("the last checkpoint"):
            if self.checkpoints.saved_at != self.progress.steps:
                self.checkpoints.save(self, exact=self.collector.saves_games)
            elif self.checkpoints.best.is_new:
                self.checkpoints.save(self, resumable=False)  # marks the existing checkpoint of this step
        return "finished" if self.stop_reason is None else "stopped"

    # Called by the trainer

    def save_start(self) -> None:
        """Save a checkpoint before the first step, for a session that may have to return to it."""
        self.checkpoints.barriers -= 1  # the checkpoint belongs to the barrier of `begin`
        with self.storage.requiring("the first checkpoint"):
            self.checkpoints.save(self, exact=self.collector.seeded)

    def raise_if_stopping(self) -> None:
        """Called between the steps of an evaluation or a video: EvaluationStopped when training is asked to stop.

        A stop signal leaves seconds to a process; an evaluation may take many minutes.
        """
        if self._waiting and self.stop_requested:
            self._work_stopped = True
            raise EvaluationStopped

    def run_evaluation(self) -> None:
        """Evaluate the policy and write the result as a row."""
        with self._stoppable_work("evaluating"):
            result = self.evaluate()
        if result.capped:
            _log.warning(
                "%d of %d evaluation episodes did not end and were cut (evaluation.max_steps)",
                result.capped,
                len(result.episodes),
            )
        if not result.episodes:
            _log.warning("no episode of this evaluation could be played to its end: it has no result")
        self.last_evaluation = result
        self._evaluated_at = self.progress.steps
        metrics = result.metrics()
        run_log.info(
            "evaluation at step %s: reward %s", f"{self.progress.steps:,}", f"{result.mean_reward:.6g}"
        )
        self.checkpoints.best.compare(metrics)
        row = self.rows.write(self.progress, metrics)
        self.checkpoints.best.evaluations_since += 1
        self._show(row)

    def state_dict(self) -> dict[str, Any]:
        """Return the session's own part of `state.json`."""
        return self.rows.state_dict() | {"evaluated_at": self._evaluated_at, "stop_reason": self.stop_reason}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = Progress.of(state["progress"])
        self.rows.load_state_dict(state)
        self._evaluated_at = int(state["evaluated_at"])
        self.stop_reason = state["stop_reason"]

    def _steps_left(self) -> int:
        return int(self.config.total_timesteps.amount) - self.progress.steps

    def _due(self, every: When | None) -> bool:
        return every is not None and every.count(self.progress) > every.count(self._before)

    def _write_row(self) -> dict[str, Any]:
        metrics = (
            self.rows.take(self.progress)
            | optimizer_norms(self.learner.optimizers().values())
            | self.collector.take_metrics()
        )
        self.checkpoints.best.compare(metrics)
        return self.rows.write(self.progress, metrics)

    def _show(self, row: dict[str, Any] | None) -> None:
        if self.display is not None:
            self.display.update(self.fraction_done, self.progress.steps, row)

    def _stop_early(self) -> None:
        rule = self.config.early_stopping
        evaluation = self.last_evaluation if self._evaluated_at == self.progress.steps else None
        threshold = rule.reward_threshold
        if evaluation is not None and threshold is not None and evaluation.mean_reward >= threshold:
            self.stop_reason = f"eval/mean_reward reached {evaluation.mean_reward:.2f}"
        if rule.patience is not None and self.checkpoints.best.evaluations_since >= rule.patience:
            self.stop_reason = f"no better evaluation in {rule.patience}"
        if rule.time is not None and rule.time.fraction(self.progress) >= 1.0:
            self.stop_reason = f"ran for {rule.time}"

    @contextmanager
    def _stoppable_work(self, note: str) -> Iterator[None]:
        self._waiting = True
        self._note(note)
        try:
            yield
        finally:
            self._waiting = False
            self._note(None)

    def _note(self, note: str | None) -> None:
        if self.display is not None:
            self.display.note(note)

    def _raise_if_update_stops(self) -> None:
        """Called by the learner between two gradient steps."""
        if self.signals.received is not None and self._return_point is not None:
            raise UpdateStopped

    def _after_step(self, steps: int) -> bool:
        """Called by the collector after every vector step."""
        self._steps_in_collection = steps
        if self.signals.received is not None and (
            self._return_point is not None or not self.collector.saves_games
        ):
            return False  # games that are saved are played to the end of a short collection: nothing is lost
        if self.callback is not None:
            self.callback.update_locals(self.collector.step_locals())
            if self.callback.on_step() is False:
                self.stop_reason = "a callback asked for it"
                return False
        return True
