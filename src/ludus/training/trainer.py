"""What every trainer does that keeps a run on disk: start it, resume it, run the loop over it, save from it."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ludus.algorithms.learner import AnyLearner, Learner
from ludus.algorithms.peers import PeerLost
from ludus.config.loading import config_hash, dump_yaml
from ludus.config.schema import TrainerConfig
from ludus.config.seal import sealed
from ludus.config.when import When
from ludus.errors import CheckpointError, LudusError, SimulatorLost, StorageError, UserError
from ludus.evaluation.evaluate import EvaluationResult
from ludus.evaluation.load import find_checkpoint, load_policy_tensors
from ludus.rollout.collector import Collector
from ludus.runs.atomic import TEMPORARY_PREFIX, remove_stale_temporaries, write_atomic
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.limits import require_open_files
from ludus.runs.lock import RunLock
from ludus.runs.mirror.background import Mirror
from ludus.runs.mirror.remote import require_packages
from ludus.runs.signals import StopSignals
from ludus.runs.streams import Streams
from ludus.secret_values import without_secrets
from ludus.tracking.jsonl import read_jsonl
from ludus.tracking.logs import attach_log_file, detach
from ludus.tracking.progress import ProgressDisplay
from ludus.tracking.tracker import CLOCK, MetricsLog
from ludus.training.base import RLTrainer, TrainResult
from ludus.training.callbacks import CallbackLogger, as_callback
from ludus.training.learner_ranks import LearnerRanks, LearnersRescaled
from ludus.training.loop import train_loop
from ludus.training.provenance import command_line, versions
from ludus.training.resume import check_rows, newest_resumable
from ludus.training.session import Session, SessionParts, policy_state
from ludus.training.trackers import closing, open_trackers
from ludus.types import Progress

_log = logging.getLogger("ludus.training")


class RunTrainer(RLTrainer):
    """A trainer whose work is a run. `create_model` sets `learner`, `collector` and `streams`.

    `display` shows progress; None shows nothing.
    """

    streams: Streams

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        super().__init__(env, config)
        self.display = display
        self.preset: str | None = None
        self.requested_hash = config_hash(config)
        self.run: RunDirectory | None = None
        self.logger = CallbackLogger()
        self.learner: AnyLearner | None = None
        self.collector: Collector | None = None
        self._active: Session | None = None
        self._resume_from: Checkpoint | None = None
        self._rows_as_they_are = False
        self._seen: list[tuple[int, str]] | None = None
        """The checkpoints that `resume` chose from."""
        self._loaded: Checkpoint | None = None
        self._setting: list[tuple[str, str]] = []
        self.ranks = LearnerRanks()

    @property
    @abstractmethod
    def env_id(self) -> str:
        """What is played, as the run directory is named after it."""

    @abstractmethod
    def evaluate_episodes(self, n_episodes: int, deterministic: bool = True) -> EvaluationResult:
        """Play `n_episodes` apart from training, from seeds that depend on the config's seeds only."""

    @property
    def num_timesteps(self) -> int:
        return 0 if self._active is None else self._active.num_timesteps

    @property
    def policy(self) -> Any:
        """The policy as it is now."""
        self.create_model()
        assert self.learner is not None
        return self.learner.policy

    def train(self, total_timesteps: Any = None, callback: Any = None) -> TrainResult:
        callback = as_callback(callback)
        if total_timesteps is not None:
            self.config = self.config.model_copy(update={"total_timesteps": _parse_total(total_timesteps)})
        require_open_files(0, "a run")
        self.create_model()
        checkpoint = self._where_to_go_on()
        if self.config.mirror is not None:
            require_packages(self.config.mirror.url)
        if self.run is None:
            self.run = self._create_run()
        with ExitStack() as stack:
            stack.enter_context(RunLock(self.run.path))
            if self._seen is not None and self._seen != _checkpoints_of(self.run):
                raise UserError(
                    "another process has trained this run since its checkpoints were looked at",
                    where=str(self.run.path),
                    fix="resume it once more",
                )
            self._seen = None
            for left in {path.parent for path in self.run.path.rglob(f"{TEMPORARY_PREFIX}*")}:
                remove_stale_temporaries(left)  # by a process that was killed while it wrote
            if total_timesteps is not None:  # a new total also counts when the run is resumed once more
                write_atomic(self.run.config_path, sealed(dump_yaml(self.config)))
            signals = stack.enter_context(StopSignals())
            handler = attach_log_file(self.run.logs_dir / "train.log")
            stack.callback(detach, handler)
            if self.display is not None:
                stack.callback(self.display.close)
            run = self._open(self.run, checkpoint, signals, callback)
            self._mirror(stack, signals)
            stack.enter_context(closing(run.log, run.storage))
            return self._run_to_end(run, checkpoint, callback)

    def resume(
        self, run: RunDirectory | str | Path, checkpoint: str | int | None = None, *, exact: bool = False
    ) -> Checkpoint:
        """Go on with `run` when `train` is called; returns the checkpoint it will go on from.

        The newest intact one, the newest exact one, or the one named. CheckpointError when there is none.
        """
        self.run = run if isinstance(run, RunDirectory) else RunDirectory.open(run)
        manager = CheckpointManager(self.run.checkpoints_dir)
        if checkpoint is not None:
            found: Checkpoint | None = manager.find(checkpoint)
            assert found is not None
            found.verify()
            if not found.resumable:
                raise UserError(
                    f"checkpoint {found.name} holds a policy only and cannot be resumed",
                    where=str(found.path),
                    fix="leave --checkpoint out, or start a new run with pretrained_model",
                )
            self._rows_as_they_are = self._rows_differ(found)
        else:
            found = newest_resumable(self.run, exact_only=exact)
            self._rows_as_they_are = False
        if found is None:
            raise UserError(
                f"the run has no {'exact ' if exact else ''}checkpoint to resume from",
                where=str(self.run.path),
                fix="start it again: " + (self.run.info().get("command") or "ludus train"),
            )
        self._resume_from = found
        self._seen = _checkpoints_of(self.run)
        return found

    def _rows_differ(self, checkpoint: Checkpoint) -> bool:
        """Whether the metrics are not those that `checkpoint` knew: who names it wants to go on all the same."""
        assert self.run is not None
        try:
            check_rows(self.run, checkpoint.state())
        except CheckpointError as error:
            _log.warning("%s; the run goes on behind the rows that are there", error.what)
            return True
        return False

    def evaluate(self, n_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
        result = self.evaluate_episodes(n_episodes, deterministic)
        return result.mean_reward, result.std_reward

    def save_model(self, path: str | Path | None = None) -> Path:
        self.create_model()
        if path is None:
            if self._active is None:
                raise UserError(
                    "nothing has been trained yet",
                    where="save_model()",
                    fix="call train() first, or give a path",
                )
            latest = self._active.checkpoints.latest()
            if latest is not None and latest.step == self._active.progress.steps:
                return latest.path
            return self._active.save(exact=False).path
        folder = Path(path)
        run = RunDirectory.create_at(folder, self.env_id, self.config.algorithm, folder.name)
        self._describe(run, status="exported")
        active = self._active
        learner = self.learner
        assert learner is not None
        CheckpointManager(run.checkpoints_dir).save(
            active.progress.steps if active else 0,
            {"policy": dict(learner.policy.state_dict())},
            policy_state(learner.policy, active.progress if active else Progress()),
            resumable=False,
        )
        return run.path

    def load_model(self, path: str | Path) -> None:
        self.create_model()
        assert self.learner is not None
        _, checkpoint = find_checkpoint(str(path), self.config.save_dir)
        load_weights(self.learner, checkpoint)
        if self._active is not None:
            self._loaded = checkpoint  # the next train() goes on from the disk, and takes it over once more

    def close(self) -> None:
        self.ranks.close()
        if self.collector is not None:
            self.collector.close()

    # Within

    def _go_on(self) -> None:
        """Between two steps of an evaluation or a film: EvaluationStopped where a run that waits for it is to stop."""
        if self._active is not None:
            self._active.go_on()

    def _create_run(self) -> RunDirectory:
        config, env_id = self.config, self.env_id
        name = config.name or self._default_name()
        if config.run_dir is not None:
            run = RunDirectory.create_at(config.run_dir, env_id, config.algorithm, name)
        else:
            run = RunDirectory.create(
                config.save_dir, env_id, config.algorithm, name, timestamp=config.timestamp
            )
        self._describe(run, status="running")
        return run

    def _default_name(self) -> str:
        return f"{self.env_id}-{self.config.algorithm}".lower()

    def _describe(self, run: RunDirectory, status: str) -> None:
        write_atomic(run.config_path, sealed(dump_yaml(self.config)))
        run.update_info(
            status=status,
            config_hash=self.requested_hash,
            preset=self.preset,
            tags=self.config.tags,
            seed=self.config.seed,
            device=self.config.device,
            command=command_line(),
            versions=versions(),
        )

    def _where_to_go_on(self) -> Checkpoint | None:
        """What `resume` chose, or where this trainer's last `train` ended; None for a new run."""
        checkpoint, self._resume_from = self._resume_from, None
        if checkpoint is not None or self._active is None:
            return checkpoint
        checkpoint = self._active.checkpoints.newest_intact()
        if checkpoint is None:
            raise UserError(
                "this trainer's run failed before its first checkpoint",
                where=str(self._active.directory.path),
                fix="create a new trainer",
            )
        return checkpoint

    def _open(
        self, directory: RunDirectory, checkpoint: Checkpoint | None, signals: StopSignals, callback: Any
    ) -> Session:
        """The training run with everything it drives; its first step is `_begin`'s."""
        assert self.collector is not None and self.learner is not None
        resumed_at = None if checkpoint is None else checkpoint.step
        log = MetricsLog(
            directory.metrics_path, directory.episodes_path, open_trackers(self.config, directory, resumed_at)
        )
        crew = SessionParts(
            config=self.config,
            streams=self.streams,
            collector=self.collector,
            learner=self.learner,
            evaluate=lambda: self.evaluate_episodes(
                self.config.evaluation.episodes, self.config.evaluation.deterministic
            ),
            record_video=self._film(),
            callback=callback,
            extra_metrics=self.logger.take,
        )
        run = self._make_run(directory, crew, log, signals)
        self._active = run
        return run

    def _mirror(self, stack: ExitStack, signals: StopSignals) -> None:
        """Copy the run elsewhere from here on, if the config says so; its end is the last thing of the run."""
        settings = self.config.mirror
        if settings is None or self.run is None:
            return
        mirror = Mirror(self.run, settings.url, bandwidth=settings.bandwidth, patience=settings.wait)

        def close() -> None:
            # who stops a run wants its last checkpoint there; who stops the waiting does not
            stopped_before = signals.received is not None
            mirror.close(lambda: signals.received is not None and not stopped_before)

        stack.callback(close)

    def _make_run(
        self, directory: RunDirectory, crew: SessionParts, log: MetricsLog, signals: StopSignals
    ) -> Session:
        return Session(directory, crew, log, signals, self.display, self.config.total_timesteps)

    def _begin(self, run: Session, checkpoint: Checkpoint | None, callback: Any) -> None:
        """Bring the run to its first step, or to the checkpoint to go on from, and tell callback and display."""
        directory = run.directory
        if callback is not None:
            callback.init_callback(self._model_for_callbacks())
        run.take_rows_as_they_are = self._rows_as_they_are
        run.begin(checkpoint)
        if checkpoint is None and self.ranks.peers.size > 1:
            run.save_start()
        if self._loaded is not None:
            assert self.learner is not None
            load_weights(self.learner, self._loaded)
            self._loaded = None
        if callback is not None:
            callback.on_training_start({"self": self}, {})
            if not run.done:
                callback.on_rollout_start()
        with run.storage.requiring("run.json"):
            directory.update_info(status="running", pid=os.getpid())
        if self.display is not None:
            if checkpoint is not None:
                for row in filter(_has_clock, read_jsonl(directory.metrics_path)):
                    self.display.update(self._fraction_at(row), int(row["step"]), row)
            self.display.start(
                [("run", str(directory.path)), *self._setting],
                self.config.total_timesteps.amount,
                self.config.total_timesteps.unit,
            )
            self.display.update(run.fraction_done, run.progress.steps)

    def _model_for_callbacks(self) -> Any:
        """What `self.model` is inside a callback."""
        return self

    def _run_to_end(self, run: Session, checkpoint: Checkpoint | None, callback: Any) -> TrainResult:
        assert self.collector is not None and self.learner is not None
        directory = run.directory
        try:
            self._begin(run, checkpoint, callback)
            status = self._loop(run)
        except BaseException as error:
            if isinstance(error, SimulatorLost):  # what was learnt is whole, only its env is gone
                with suppress(LudusError):  # the first trouble is the one to tell
                    run.preempted()
            told = run.keep_evidence(error) if isinstance(error, LudusError) else ""
            if told:
                error.add_note(told)
            with suppress(OSError):
                directory.update_info(
                    status="failed",
                    steps=run.progress.steps,
                    error=without_secrets(f"{type(error).__name__}: {error}" + (f"\n{told}" if told else "")),
                )
            hint = run.resume_hint()
            if hint and not isinstance(error, StorageError):  # which says it itself
                error.add_note(f"Nothing saved is lost: {hint}")
            raise
        if callback is not None:
            callback.on_training_end()
        evaluation = None if run.last_evaluation is None else run.last_evaluation.summary()
        with run.storage.requiring("how the run ended, in run.json,"):
            directory.update_info(
                status=status,
                reason=run.stop_reason,
                steps=run.progress.steps,
                seconds=round(run.progress.seconds, 3),
                evaluation=evaluation,
            )
        if self.display is not None:
            self.display.update(run.fraction_done, run.progress.steps)
        return TrainResult(
            run=directory.path,
            status=status,
            steps=run.progress.steps,
            seconds=run.seconds,
            fps=run.fps,
            rewards=[
                float(row["reward"])
                for row in read_jsonl(directory.episodes_path)
                if isinstance(
                    row.get("reward"), int | float
                )  # another program, or a bad disk, may have been there
            ],
            evaluation=evaluation,
            reason=run.stop_reason,
            exit_code=run.signals.exit_code,
        )

    def _loop(self, run: Session) -> str:
        """The loop, to its end: begun again where the learners have become others."""
        assert self.collector is not None and self.learner is not None
        lost = False
        while True:
            try:
                if lost:
                    self._go_back(run)
                    lost = False
                return train_loop(run, self.collector, self.learner)
            except PeerLost as error:
                self.ranks.lose(self.config, str(error))
                lost = True
            except LearnersRescaled as asked:
                tensors, values = self.learner.tensors(), self.learner.values()
                self._take_learner(run, asked.learners)
                self.learner.load(tensors, values)

    def _go_back(self, run: Session) -> None:
        """After a loss: form the learners anew, at the newest checkpoint. What was learnt since is not whole."""
        self._take_learner(run, self.ranks.size)
        checkpoint = run.checkpoints.newest_intact()
        assert checkpoint is not None  # several learners save one before their first update
        run.begin(checkpoint)

    def _take_learner(self, run: Session, learners: int) -> None:
        """Make the learner again, as one of `learners`; nothing of the old one's state is in it."""
        self.learner = self._make_learner(learners)
        run.crew = replace(run.crew, learner=self.learner)

    def _make_learner(self, learners: int | None = None) -> AnyLearner:
        """The learner of this config, among as many as that says, or `learners`."""
        raise NotImplementedError

    def _film(self) -> Callable[[int], None] | None:
        """What records a video of the policy at a step; None where nothing is filmed."""
        return None

    def _fraction_at(self, row: dict[str, Any]) -> float:
        progress = Progress(
            int(row["step"]), int(row["updates"]), int(row["episodes"]), float(row.get("time/seconds") or 0)
        )
        return self.config.total_timesteps.fraction(progress)


def _checkpoints_of(run: RunDirectory) -> list[tuple[int, str]]:
    return [(one.step, one.created) for one in CheckpointManager(run.checkpoints_dir).list()]


def _has_clock(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), int) for name in CLOCK)


def _parse_total(value: Any) -> When:
    try:
        return When.parse(value)
    except ValueError as error:
        raise UserError(str(error), where="train(total_timesteps=…)", fix="as in the config") from None


def load_weights(learner: AnyLearner, checkpoint: Checkpoint) -> None:
    """Start from the weights of another run's policy."""
    load_policy_tensors(learner.policy, checkpoint)
    if isinstance(learner, Learner):  # which may have copies of them, as target networks
        learner.warm_start(dict(learner.policy.state_dict()))
