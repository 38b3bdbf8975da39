"""A run while it trains: its progress, and what falls due on the way (rows, evaluations, checkpoints, videos)."""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ludus.algorithms.learner import AnyLearner, with_prefix
from ludus.algorithms.norms import first_bad_weight, optimizer_norms
from ludus.config.loading import dump_yaml
from ludus.config.schema import TrainerConfig
from ludus.config.seal import sealed
from ludus.config.when import When
from ludus.errors import CheckpointError, LudusError, NotFinite
from ludus.evaluation.evaluate import EvaluationResult, EvaluationStopped
from ludus.evaluation.load import load_policy_tensors
from ludus.rollout.collector import Collector
from ludus.rollout.experience import Experience
from ludus.runs.atomic import write_atomic
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.evidence import keep_evidence
from ludus.runs.signals import StopSignals
from ludus.runs.streams import Streams
from ludus.tracking.machine import MachineLoad
from ludus.tracking.progress import ProgressDisplay
from ludus.tracking.tracker import MetricsLog
from ludus.training.resume import copies, extents_from
from ludus.training.statistics import EpisodeWindow, GameWindow, MeanMetrics
from ludus.training.storage import Storage
from ludus.types import Metrics, Progress

_log = logging.getLogger("ludus.training")


@dataclass(frozen=True)
class SessionParts:
    """The parts of a trainer that a run saves, drives and asks."""

    config: TrainerConfig
    streams: Streams
    collector: Collector
    learner: AnyLearner
    evaluate: Callable[[], EvaluationResult] | None
    record_video: Callable[[int], None] | None
    callback: Any
    extra_metrics: Callable[[], Metrics]


class Session:
    """Drives everything around collect and update. The loop only asks it `done`, `stopping` and the like."""

    def __init__(
        self,
        directory: RunDirectory,
        crew: SessionParts,
        log: MetricsLog,
        signals: StopSignals,
        display: ProgressDisplay | None,
        total: When,
    ) -> None:
        self.directory = directory
        self.crew = crew
        self.log = log
        self.signals = signals
        self.display = display
        self.total = total
        self.progress = Progress()
        self.checkpoints = CheckpointManager(directory.checkpoints_dir, keep=crew.config.checkpoint.keep)
        self.last_evaluation: EvaluationResult | None = None
        self.stop_reason: str | None = None
        self.take_rows_as_they_are = False
        """At resume: go on behind the metrics that are there, also where they are not what the checkpoint knew."""
        self.storage = Storage(directory.path, self.resume_hint)
        self._steps_in_collection = 0
        self._in_hand: Experience | None = None
        """What was collected and not yet learnt from."""
        self._before = Progress()
        self._window = EpisodeWindow()
        self._games = GameWindow()
        self._means = MeanMetrics()
        self._load = MachineLoad(crew.config.device)
        self._best: float | None = None
        self._evaluations_since_best = 0
        self._new_best = False
        self._best_mark: dict[str, Any] | None = None
        """Step and value of the checkpoint that is marked best."""
        self._evaluated_at = -1
        self._saved_at = -1
        self._barriers = 0
        self._waiting = False
        """While the run does nothing but wait for an evaluation or a film."""
        self._broken_off = False
        self._in_use = True
        """False while a checkpoint is taken up, and where that failed."""
        self._row_step = 0
        self._row_time = self._started = time.monotonic()
        self._seconds_before = 0.0
        self._steps_before = 0
        crew.collector.step_hook = self._after_step

    # What the loop asks

    @property
    def done(self) -> bool:
        return self.stop_reason is not None or self.total.fraction(self.progress) >= 1.0

    @property
    def stopping(self) -> bool:
        return self.signals.received is not None

    @property
    def fraction_done(self) -> float:
        return self.total.fraction(self.progress)

    @property
    def num_timesteps(self) -> int:
        """Env steps so far, the open collection included."""
        return self.progress.steps + self._steps_in_collection

    @property
    def seconds(self) -> float:
        """Wall-clock time of this session."""
        return time.monotonic() - self._started

    @property
    def fps(self) -> float:
        return (self.progress.steps - self._steps_before) / max(self.seconds, 1e-9)

    # What the loop tells

    def begin(self, checkpoint: Checkpoint | None = None) -> None:
        """Start anew, or go on where `checkpoint` was saved."""
        if checkpoint is not None:
            self._in_use = False
            with checkpoint.understood():
                self._restore(checkpoint)
            self._in_use = True
            if self.directory.info().get("status") == "stopped":
                self.stop_reason = None  # it had ended there, and is asked to go on all the same
        self.crew.collector.barrier(self._barriers)
        self._started = self._row_time = time.monotonic()
        self._seconds_before = self.progress.seconds
        self._steps_before = self._row_step = self.progress.steps
        self._before = replace(self.progress)

    def count(self, experience: Experience) -> None:
        """Take note of what was collected."""
        self._steps_in_collection = 0
        self._in_hand = experience
        self.progress.steps += experience.steps
        self.progress.episodes += len(experience.episodes)
        self._window.extend(experience.episodes)
        self._games.extend(experience.episodes)
        for episode in experience.episodes:
            self.log.episode(self.progress.steps, episode)
        if self.crew.callback is not None:
            self.crew.callback.on_rollout_end()

    def record(self, metrics: Metrics) -> None:
        """Take note of an update; a row is written when `tracking.every` steps have passed."""
        self._in_hand = None
        self.progress.updates += 1
        self.progress.seconds = self._seconds_before + self.seconds
        self._means.add(metrics | self.crew.extra_metrics())
        row: dict[str, Any] | None = None
        if self._due(When(self.crew.config.tracking.every)) or self.done:
            row = self._write_row()
        if self.display is not None:
            self.display.update(self.fraction_done, self.progress.steps, row)

    def evaluate_if_due(self) -> None:
        """Raises EvaluationStopped when the run is asked to stop meanwhile."""
        if self._due(self.crew.config.evaluation.every):
            self._evaluate()

    def go_on(self) -> None:
        """Called between the steps of an evaluation or a film: EvaluationStopped where the run waits and is to stop.

        Who stops a run by a signal gives it seconds; an evaluation may take many minutes.
        """
        if self._waiting and self.stopping:
            self._broken_off = True
            raise EvaluationStopped

    def checkpoint_if_due(self) -> None:
        """Save what is due, then look at the clock: from here the next interval counts."""
        if self.crew.record_video is not None and self._due(self.crew.config.video.every):
            with self._waiting_for_it():
                self.crew.record_video(self.progress.steps)
        self._consider_stopping()
        every = self.crew.config.checkpoint.every
        if self._due(every):
            collector = self.crew.collector
            at_a_barrier = collector.seeded and every is not None and not every.is_wall_clock
            self._try_to_save(exact=collector.saves_games or at_a_barrier)
            self.crew.collector.barrier(self._barriers)
        elif self._new_best:
            self._try_to_save(resumable=False)
        self._before = replace(self.progress)
        if self.crew.callback is not None and not self.done and not self.stopping:
            self.crew.callback.on_rollout_start()

    def preempted(self) -> str:
        """Asked to stop: save where we are. Exact only with the open games: nobody else has a barrier here."""
        if self.progress.steps > self._saved_at:
            with self.storage.requiring("the last checkpoint"):
                whole = self._steps_in_collection == 0 and not self._broken_off
                self.save(exact=self.crew.collector.saves_games and whole)
        return "interrupted" if self.stopping else "stopped"

    def finished(self) -> str:
        if self._means.waiting:  # an early end may come between two rows
            self._write_row()
        wanted = self.crew.config.evaluation.every is not None
        if wanted and self._evaluated_at != self.progress.steps:
            self._evaluate()
        with self.storage.requiring("the last checkpoint"):
            if self._saved_at != self.progress.steps:
                self.save(exact=self.crew.collector.saves_games)
            elif self._new_best:
                self.save(
                    resumable=False
                )  # the whole checkpoint of this step stands already: it is marked best
        return "finished" if self.stop_reason is None else "stopped"

    # Checkpoints

    def save(self, *, exact: bool = False, resumable: bool = True) -> Checkpoint:
        """Write a checkpoint of this moment, and mark it best if it is. Raises OSError, and NotFinite."""
        require_finite(self.crew.learner)
        if resumable:
            self._barriers += 1
        tensors = {"policy": dict(self.crew.learner.policy.state_dict())}
        state = policy_state(self.crew.learner.policy, self.progress)
        state["reward_scale"] = self.crew.collector.reward_scale
        if resumable:
            tensors["learner"], training = self._training_state()
            state |= training
        if self._new_best and self._best is not None:
            mark: dict[str, Any] | None = {"step": self.progress.steps, "value": self._best}
        else:
            mark = self._best_mark
        state["best_mark"] = mark
        checkpoint = self.checkpoints.save(
            self.progress.steps, tensors, state, exact=exact, resumable=resumable
        )
        if resumable:
            self._saved_at = self.progress.steps
        self._new_best, self._best_mark = False, mark
        if mark is not None:  # also one that a failing disk did not take before
            self.checkpoints.renew_best(mark["step"], self.crew.config.checkpoint.best_metric, mark["value"])
        return checkpoint

    def save_start(self) -> None:
        """A checkpoint before the first step, for a run that may have to go back: of the barrier it has come to."""
        self._barriers -= 1
        with self.storage.requiring("the first checkpoint"):
            self.save(exact=self.crew.collector.seeded)

    def resume_hint(self) -> str:
        """Which checkpoint is intact and how to go on from it; empty when there is none, or it could not be used."""
        if not self._in_use:
            return ""
        try:
            newest = self.checkpoints.newest_intact()
        except (CheckpointError, OSError):
            newest = None
        if newest is None:
            return ""
        path = str(self.directory.path)
        command = f"ludus resume {shlex.quote(path)}"
        if self.crew.config.env is None and self.crew.config.language is None:
            command = f"create_trainer(env, config), then resume({path!r}) and train()"
        return f"checkpoint {newest.name} is intact. Go on with: {command}"

    def keep_evidence(self, error: LudusError) -> str:
        """Keep what shows `error` in the run's directory; returns when it happened and where it is kept, in words.

        Empty where there is nothing to show.
        """
        arrays = error.evidence
        if arrays is None and isinstance(error, NotFinite) and self._in_hand is not None:
            arrays = self._in_hand.arrays()
        if arrays is None:
            return ""
        told = f"It was env step {self.num_timesteps:,}, update {self.progress.updates + 1:,}."
        if isinstance(error, NotFinite):
            learner = self.crew.learner
            bad = first_bad_weight(learner.policy, learner.optimizers().values(), gradients=True)
            told += f" First bad value of the network: {bad}." if bad else ""
        about = {"error": str(error)[:4000], "when": told}
        try:
            path = keep_evidence(self.directory.faults_dir, self.num_timesteps, arrays, about)
        except OSError as problem:
            return f"{told} What shows it could not be kept: {problem}"
        return f"{told} What shows it is kept in {path}"

    def _try_to_save(self, *, exact: bool = False, resumable: bool = True) -> None:
        """Save; a disk that fails now may work again at the next checkpoint, so training goes on for a while.

        StorageError after three failures in a row.
        """
        next_one = f"after {self.crew.config.checkpoint.every}" if resumable else "with the next evaluation"
        step = f"{self.progress.steps:,}"
        with self.storage.tolerating(
            "checkpoints",
            f"the checkpoint of step {step} could not be saved (the next one is due {next_one})",
        ):
            try:
                self.save(exact=exact, resumable=resumable)
            except OSError:
                self._new_best = False  # a later policy must not be saved as this one
                raise

    def _training_state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        crew = self.crew
        stream_values, stream_tensors = crew.streams.state_dict()
        tensors = {f"learner.{key}": value for key, value in crew.learner.tensors().items()}
        tensors |= {f"streams.{key}": value for key, value in stream_tensors.items()}
        tensors |= crew.collector.tensors()
        state = {
            "barriers": self._barriers,
            "learner": crew.learner.values(),
            "streams": stream_values,
            "window": self._window.state_dict(),
            "games": self._games.state_dict(),
            "means": self._means.state_dict(),
            "best": self._best,
            "evaluations_since_best": self._evaluations_since_best,
            "evaluated_at": self._evaluated_at,
            "stop_reason": self.stop_reason,
            "files": {name: asdict(extent) for name, extent in self.log.extents().items()},
            "copies": copies(self.directory, self._config_text),
        }
        return tensors, state | crew.collector.values()

    def _restore(self, checkpoint: Checkpoint) -> None:
        crew = self.crew
        state = checkpoint.state()
        tensors = checkpoint.tensors("learner")
        load_policy_tensors(crew.learner.policy, checkpoint)
        crew.learner.load(with_prefix(tensors, "learner"), state["learner"])
        crew.collector.load(tensors, state)
        self.progress = Progress.of(state["progress"])
        self._barriers = int(state["barriers"])
        self._window.load_state_dict(state["window"])
        self._games.load_state_dict(state.get("games", []))
        self._means.load_state_dict(state["means"])
        self._best = state["best"]
        self._evaluations_since_best = int(state["evaluations_since_best"])
        self._evaluated_at = int(state["evaluated_at"])
        self.stop_reason = state["stop_reason"]
        self._saved_at = self.progress.steps
        self.log.rewind(extents_from(state["files"]), whatever_they_hold=self.take_rows_as_they_are)
        for trouble in self.checkpoints.damaged_hints():
            _log.warning("%s", trouble)
        self.checkpoints.truncate_after(checkpoint.step)
        self._best_mark = state.get("best_mark")
        if self._best_mark is not None:
            self.checkpoints.renew_best(
                self._best_mark["step"], crew.config.checkpoint.best_metric, self._best_mark["value"]
            )
        # last: building networks and envs above may have drawn from the global generators
        crew.streams.load_state_dict(state["streams"], with_prefix(tensors, "streams"))

    # Within

    @contextmanager
    def _waiting_for_it(self) -> Iterator[None]:
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    @cached_property
    def _config_text(self) -> str:
        return sealed(dump_yaml(self.crew.config))

    def _due(self, every: When | None) -> bool:
        return every is not None and every.count(self.progress) > every.count(self._before)

    def _write_row(self) -> dict[str, Any]:
        now = time.monotonic()
        fps = (self.progress.steps - self._row_step) / max(now - self._row_time, 1e-9)
        self._row_step, self._row_time = self.progress.steps, now
        return self._log_row(
            self._means.take()
            | self._window.metrics()
            | self._game_metrics()
            | optimizer_norms(self.crew.learner.optimizers().values())
            | {"time/fps": round(fps, 1), "time/seconds": round(self.progress.seconds, 3)}
            | self._load.sample()
            | self.crew.collector.take_metrics()
        )

    def _game_metrics(self) -> Metrics:
        """Return the numbers of the last games' reports; the whole summary goes to `games.json`."""
        reports = self._games.reports()
        if reports is None:
            return {}
        summary = {"kind": reports.kind, **reports.get_summary()}
        with self.storage.tolerating(
            "games.json", "games.json could not be written, and is tried again with the next row"
        ):
            write_atomic(self.directory.games_path, json.dumps(summary, indent=1))
        return {f"{reports.kind}/{name}": value for name, value in reports.metrics().items()}

    def _log_row(self, metrics: Metrics) -> dict[str, Any]:
        best_metric = self.crew.config.checkpoint.best_metric
        value = metrics.get(best_metric)
        if value is not None and np.isfinite(value) and (self._best is None or value > self._best):
            self._best, self._new_best = value, True
            self._evaluations_since_best = -1  # the next evaluation, or this one, is the first to count: 0
        progress = self.progress
        row = self.log.take(progress.steps, progress.updates, progress.episodes, metrics)
        with self.storage.tolerating(
            "metrics.jsonl", "metrics.jsonl could not be written; its rows wait and go with the next one"
        ):
            self.log.flush()
        return dict(row)

    def _evaluate(self) -> None:
        if self.crew.evaluate is None:
            return
        with self._waiting_for_it():
            result = self.crew.evaluate()
        self.last_evaluation = result
        self._evaluated_at = self.progress.steps
        row = self._log_row(result.metrics())
        self._evaluations_since_best += 1
        if self.display is not None:
            self.display.update(self.fraction_done, self.progress.steps, row)

    def _consider_stopping(self) -> None:
        rule = self.crew.config.early_stopping
        evaluation = self.last_evaluation if self._evaluated_at == self.progress.steps else None
        threshold = rule.reward_threshold
        if evaluation is not None and threshold is not None and evaluation.mean_reward >= threshold:
            self.stop_reason = f"eval/mean_reward reached {evaluation.mean_reward:.2f}"
        if rule.patience is not None and self._evaluations_since_best >= rule.patience:
            self.stop_reason = f"no better evaluation in {rule.patience}"
        if rule.time is not None and rule.time.fraction(self.progress) >= 1.0:
            self.stop_reason = f"ran for {rule.time}"

    def _after_step(self, steps: int) -> bool:
        """Called by the collector after every vector step."""
        self._steps_in_collection = steps
        if self.signals.received is not None and not self.crew.collector.saves_games:
            return False  # games that are saved play on to the end of the collection, so that nothing is lost
        if self.crew.callback is not None and self.crew.callback.on_step() is False:
            self.stop_reason = "a callback asked for it"
            return False
        return True


def require_finite(learner: AnyLearner) -> None:
    """NotFinite where a weight, or what an optimizer keeps of one, is not: it is not to be saved."""
    bad = first_bad_weight(learner.policy, learner.optimizers().values())
    if bad:
        raise NotFinite(
            f"what was learnt is not finite: {bad}; it is not saved\n"
            "  where: the learner\n"
            "  fix:   lower hyperparams.learning_rate, and go on from the last checkpoint"
        )


def policy_state(policy: Any, progress: Progress) -> dict[str, Any]:
    """What of `state.json` it takes to play with the policy."""
    return {"progress": progress.as_dict(), **policy.description()}
