"""The trainer that keeps a run on disk: starts and resumes it, runs the loop over a session, saves and loads models."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus.algorithms.learner import AnyLearner, Learner
from ludus.algorithms.peers import PeerLost
from ludus.config.loading import config_hash, dump_yaml, learning_hash, sealed
from ludus.config.own_modules import named_code
from ludus.config.requests import requests_to_train, require_all
from ludus.config.schema import TrainerConfig
from ludus.config.when import EXPECTED, When
from ludus.errors import UserError
from ludus.evaluation.evaluate import EvaluationResult
from ludus.policies.base import load_policy_tensors
from ludus.rollout.collector import Collector
from ludus.runs.atomic import TEMPORARY_PREFIX, remove_stale_temporaries, write_atomic
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory, command_line, versions
from ludus.runs.limits import require_open_files
from ludus.runs.lock import RunLock
from ludus.runs.signals import StopRequested, StopSignals
from ludus.runs.streams import Streams
from ludus.tracking.jsonl import read_jsonl
from ludus.tracking.logs import attach_log_file, detach, run_log
from ludus.tracking.tracker import CLOCK, MetricsLog
from ludus.training.base import Publisher, RLTrainer, TrainResult
from ludus.training.callbacks import CallbackList, CallbackLogger, as_callback, load_callbacks
from ludus.training.checkpointing import policy_state
from ludus.training.failure import record_failure
from ludus.training.learner_ranks import LearnerRanks, LearnersRescaled
from ludus.training.loop import train_loop
from ludus.training.resume import ResumePoint, find_resume_point
from ludus.training.session import Session
from ludus.training.trackers import closing, open_trackers
from ludus.types import Progress

if TYPE_CHECKING:
    from ludus.tracking.progress import ProgressDisplay


class RunTrainer(RLTrainer):
    """Base of the trainers that train through `training/loop.py` and keep a run on disk.

    `create_model` sets `learner`, `collector`, `streams` and, where other processes play, `publisher`. `display` shows
    progress; None shows nothing.
    """

    streams: Streams

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        super().__init__(env, config)
        self.display = display
        self.preset: str | None = None
        self.requested_hash = config_hash(config)
        self.requested_learning_hash = learning_hash(config)
        self.run: RunDirectory | None = None
        self.session: Session | None = None
        """The training in progress, or the last one."""
        self.logger = CallbackLogger()
        self.learner: AnyLearner | None = None
        self.collector: Collector | None = None
        self.publisher = Publisher()
        self.ranks = LearnerRanks()
        self._resume_point: ResumePoint | None = None
        self._discard_later = False
        self._load_again: Callable[[AnyLearner], None] | None = None
        """Loads weights that were chosen after the last session, once the next one has restored its checkpoint."""
        self._header: list[tuple[str, str]] = []

    @property
    @abstractmethod
    def env_id(self) -> str:
        """The name of the env or games, which the run directory is named after."""

    @abstractmethod
    def evaluate_episodes(self, n_episodes: int, deterministic: bool = True) -> EvaluationResult:
        """Play `n_episodes` apart from training, from seeds that depend on the config's seeds only."""

    @property
    def num_timesteps(self) -> int:
        return 0 if self.session is None else self.session.num_timesteps

    @property
    def policy(self) -> Any:
        """The policy as it is now."""
        self.create_model()
        assert self.learner is not None
        return self.learner.policy

    def train(self, total_timesteps: Any = None, callback: Any = None) -> TrainResult:
        callback = self._callbacks(callback)
        if total_timesteps is not None:
            self.config = self.config.model_copy(update={"total_timesteps": _parse_total(total_timesteps)})
        require_open_files(0, "a run")
        if self.config.exports:
            from ludus.training.exports import require_known_targets

            require_known_targets(self.config.exports)
        if self.config.resume == "auto" and self.run is None:
            from ludus.training.matching import newest_resumable

            found = newest_resumable(self.config, self.env_id)
            if found is not None:
                run_log.info("resume: auto continues %s", found.path)
                self.resume(found)
        self.create_model()
        point = self._take_resume_point()
        if self.config.mirror is not None:
            from ludus.runs.mirror.remote import require_packages

            require_packages(self.config.mirror.url)
        if self.run is None:
            self.run = self._create_run()
        with ExitStack() as stack:
            stack.enter_context(RunLock(self.run.path))
            if point is not None:
                point.require_unchanged()
            for folder in {path.parent for path in self.run.path.rglob(f"{TEMPORARY_PREFIX}*")}:
                remove_stale_temporaries(folder)  # left by a process that was killed while it wrote
            if total_timesteps is not None:  # a new total also holds when the run is resumed once more
                write_atomic(self.run.config_path, sealed(dump_yaml(self.config)))
            require_all(requests_to_train(self.config), str(self.run.config_path))
            if named_code():
                from ludus.config.trained_here import remember_trained

                remember_trained(self.config)
            acknowledge = (lambda: None) if self.display is None else self.display.acknowledge_stop
            signals = stack.enter_context(StopSignals(acknowledge))
            stack.callback(detach, attach_log_file(self.run.logs_dir / "train.log"))
            if self.display is not None:
                stack.callback(self.display.close)
            session = self._open_session(self.run, point, signals, callback)
            self._mirror(stack, signals)
            stack.enter_context(closing(session.log, session.storage))
            return self._run_session(session, None if point is None else point.checkpoint)

    def _callbacks(self, callback: Any) -> Any:
        """Return the callbacks of the config and the one given to `train`, as one callback or None."""
        given = as_callback(callback)
        named = load_callbacks(self.config.callbacks)
        if not named:
            return given
        return CallbackList([*named, *([] if given is None else [given])])

    def resume(
        self,
        run: RunDirectory | str | Path,
        checkpoint: str | int | None = None,
        *,
        exact: bool = False,
        discard_later: bool = False,
    ) -> Checkpoint:
        """Resume `run` when `train` is called; return the checkpoint that it resumes from.

        The newest intact one, the newest exact one, or the one named. UserError when there is none. Checkpoints later
        than a chosen one are kept in `set_aside/` of the run, unless `discard_later`.
        """
        self._discard_later = discard_later
        self.run = run if isinstance(run, RunDirectory) else RunDirectory.open(run)
        self._resume_point = find_resume_point(self.run, checkpoint, exact=exact)
        return self._resume_point.checkpoint

    def evaluate(self, n_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
        result = self.evaluate_episodes(n_episodes, deterministic)
        return result.mean_reward, result.std_reward

    def save_model(self, path: str | Path | None = None) -> Path:
        self.create_model()
        session, learner = self.session, self.learner
        assert learner is not None
        if path is None:
            if session is None:
                raise UserError(
                    "nothing has been trained yet",
                    where="save_model()",
                    fix="call train() first, or give a path",
                )
            latest = session.checkpoints.manager.latest()
            if latest is not None and latest.step == session.progress.steps:
                return latest.path
            return session.checkpoints.save(session).path
        folder = Path(path)
        run = RunDirectory.create_at(folder, self.env_id, self.config.algorithm, folder.name)
        self._describe(run, status="exported")
        save_policy(run, learner.policy, Progress() if session is None else session.progress)
        return run.path

    def load_model(self, path: str | Path) -> None:
        from ludus.evaluation.load import find_checkpoint

        self.create_model()
        assert self.learner is not None
        _, checkpoint = find_checkpoint(str(path), self.config.save_dir)
        self._load_now_and_again(lambda learner: load_weights(learner, checkpoint))

    def _load_now_and_again(self, load: Callable[[AnyLearner], None]) -> None:
        """Load weights into the learner, and again when the next `train` has restored its checkpoint."""
        assert self.learner is not None
        load(self.learner)
        if self.session is not None:
            self._load_again = load

    def close(self) -> None:
        self.ranks.close()
        if self.collector is not None:
            self.collector.close()

    # The run directory

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
            learning_hash=self.requested_learning_hash,
            preset=self.preset,
            tags=self.config.tags,
            seed=self.config.seed,
            device=self.config.device,
            command=command_line(),
            versions=versions(),
        )

    def _mirror(self, stack: ExitStack, signals: StopSignals) -> None:
        """Copy the run elsewhere from here on, if the config asks for it; `stack` ends that last."""
        settings = self.config.mirror
        if settings is None or self.run is None:
            return
        from ludus.runs.mirror.background import Mirror

        mirror = Mirror(self.run, settings.url, bandwidth=settings.bandwidth, patience=settings.wait)

        def close() -> None:
            # after a stop signal the last checkpoint is still copied; a second signal ends the copying
            stopped_before = signals.received is not None
            mirror.close(lambda: signals.received is not None and not stopped_before)

        stack.callback(close)

    # The session

    def _take_resume_point(self) -> ResumePoint | None:
        """Return what `resume` chose, or the end of this trainer's last `train`; None for a new run."""
        point, self._resume_point = self._resume_point, None
        if point is not None or self.session is None:
            return point
        run, checkpoint = self.session.directory, self.session.checkpoints.manager.newest_intact()
        if checkpoint is None:
            raise UserError(
                "this trainer's run failed before its first checkpoint",
                where=str(run.path),
                fix="create a new trainer",
            )
        return ResumePoint.at(run, checkpoint)

    def _open_session(
        self, run: RunDirectory, point: ResumePoint | None, signals: StopSignals, callback: Any
    ) -> Session:
        """Create the session of this `train` call; `_begin` brings it to its first step."""
        assert self.collector is not None and self.learner is not None
        evaluation, resumed_at = self.config.evaluation, None if point is None else point.checkpoint.step
        session = self._make_session(
            config=self.config,
            directory=run,
            learner=self.learner,
            collector=self.collector,
            streams=self.streams,
            log=MetricsLog(run.metrics_path, run.episodes_path, open_trackers(self.config, run, resumed_at)),
            signals=signals,
            evaluate=lambda: self.evaluate_episodes(evaluation.episodes, evaluation.deterministic),
            record_video=self._video_recorder(),
            display=self.display,
            callback=callback,
            callback_metrics=self.logger.take,
        )
        session.checkpoints.keep_changed_rows = point is not None and point.rows_changed
        session.checkpoints.set_later_aside = point is not None and point.chosen and not self._discard_later
        self.session = session
        return session

    def _make_session(self, **parts: Any) -> Session:
        return Session(**parts)

    def _run_session(self, session: Session, checkpoint: Checkpoint | None) -> TrainResult:
        """Run the session to its end and write how it ended to `run.json`."""
        try:
            try:
                self._begin(session, checkpoint)
            except StopRequested:  # nothing was trained yet, so there is nothing to save
                status = "interrupted"
            else:
                status = self._train_on_ranks(session)
        except BaseException as error:
            record_failure(session, error)
            raise
        if session.callback is not None:
            session.callback.on_training_end()
        last = session.last_evaluation
        evaluation = last.summary() if last is not None and last.episodes else None
        with session.storage.requiring("how the run ended, in run.json,"):
            session.directory.update_info(
                status=status,
                reason=session.stop_reason,
                steps=session.progress.steps,
                seconds=round(session.progress.seconds, 3),
                evaluation=evaluation,
            )
        self._write_exports(session)
        reason = f" ({session.stop_reason})" if session.stop_reason else ""
        run_log.info("%s%s at step %s", status, reason, f"{session.progress.steps:,}")
        if self.display is not None:
            self.display.update(session.fraction_done, session.progress.steps)
        return TrainResult(
            run=session.directory.path,
            status=status,
            steps=session.progress.steps,
            seconds=session.seconds,
            fps=session.fps,
            rewards=_rewards(session.directory),
            evaluation=evaluation,
            reason=session.stop_reason,
            exit_code=session.signals.exit_code,
        )

    def _write_exports(self, session: Session) -> None:
        """Write the policy for other programs, as the config asks for it; see `exports.write_exports`."""
        checkpoint = session.checkpoints.manager.latest()
        if self.config.exports and checkpoint is not None:
            from ludus.training.exports import write_exports

            write_exports(self.config.exports, session.directory.path, checkpoint)

    def _begin(self, session: Session, checkpoint: Checkpoint | None) -> None:
        """Bring the session to its first step, or to `checkpoint`, and start callback and display."""
        callback, directory = session.callback, session.directory
        if callback is not None:
            callback.init_callback(self._model_for_callbacks())
        session.begin(checkpoint)
        if checkpoint is None and self.ranks.peers.size > 1:
            session.save_start()
        if self._load_again is not None:
            self._load_again(session.learner)
            self._load_again = None
        if callback is not None:
            total = self.config.total_timesteps
            steps = int(total.amount) if total.unit == "steps" else math.inf  # not known in advance
            callback.on_training_start({"self": self, "total_timesteps": steps}, {})
            if not session.done:
                callback.on_rollout_start()
        with session.storage.requiring("run.json"):
            directory.update_info(status="running", pid=os.getpid())
        run_log.info(
            "%s to %s; %s",
            "started" if checkpoint is None else f"resumed at checkpoint {checkpoint.name}",
            self.config.total_timesteps.in_words(),
            "; ".join(f"{label}: {value}" for label, value in self._header),
        )
        if self.display is not None:
            total = self.config.total_timesteps
            if checkpoint is not None:
                for row in filter(_has_clock, read_jsonl(directory.metrics_path)):
                    self.display.update(total.fraction(_progress_at(row)), int(row["step"]), row)
            header = [("run", str(directory.path)), *self._header]
            self.display.start(header, total.amount, total.unit, session.progress_now)
            self.display.update(session.fraction_done, session.progress.steps)

    def _train_on_ranks(self, session: Session) -> str:
        """Run the loop to its end; start it again when a rank was lost or the number of ranks has changed."""
        assert self.collector is not None
        lost = False
        while True:
            try:
                if lost:
                    self._return_to_checkpoint(session)
                    lost = False
                return train_loop(session, self.collector, session.learner, self.publisher)
            except PeerLost as error:
                self.ranks.lose(self.config, str(error))
                lost = True
            except LearnersRescaled as asked:
                tensors, values = session.learner.tensors(), session.learner.values()
                self._replace_learner(session, asked.learners)
                session.learner.load(tensors, values)

    def _return_to_checkpoint(self, session: Session) -> None:
        """Start all ranks again at the newest checkpoint: a part of what was learned since is lost."""
        self._replace_learner(session, self.ranks.size)
        checkpoint = session.checkpoints.manager.newest_intact()
        assert checkpoint is not None  # several ranks save one before their first update
        session.begin(checkpoint)

    def _replace_learner(self, session: Session, learners: int) -> None:
        """Create the learner again, as one of `learners` ranks, without the old one's state."""
        self.learner = session.learner = self._make_learner(learners)

    # For subclasses

    def _make_learner(self, learners: int | None = None) -> AnyLearner:
        """Create the learner of this config, as one of `learners` ranks (default: the config's number)."""
        raise NotImplementedError

    def _model_for_callbacks(self) -> Any:
        """Return what `self.model` is inside a callback."""
        return self

    def _video_recorder(self) -> Callable[[int], None] | None:
        """Return a function that records a video of the policy at a step; None without videos."""
        return None

    def _raise_if_stopping(self) -> None:
        """Called between two steps of an evaluation or a video; see `Session.raise_if_stopping`."""
        if self.session is not None:
            self.session.raise_if_stopping()


def load_weights(learner: AnyLearner, checkpoint: Checkpoint) -> None:
    """Start from the weights of another run's policy."""
    load_policy_tensors(learner.policy, checkpoint)
    if isinstance(learner, Learner):  # which may have copies of them, as target networks
        learner.warm_start(dict(learner.policy.state_dict()))


def save_policy(run: RunDirectory, policy: Any, progress: Progress) -> None:
    """Save a checkpoint that holds the policy alone."""
    CheckpointManager(run.checkpoints_dir).save(
        progress.steps,
        {"policy": dict(policy.state_dict())},
        policy_state(policy, progress),
        resumable=False,
    )


def _rewards(run: RunDirectory) -> list[float]:
    # another program, or a damaged disk, may have changed the file
    rewards = (row.get("reward") for row in read_jsonl(run.episodes_path))
    return [float(reward) for reward in rewards if isinstance(reward, int | float)]


def _has_clock(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), int) for name in CLOCK)


def _progress_at(row: dict[str, Any]) -> Progress:
    seconds = float(row.get("time/seconds") or 0)
    return Progress(int(row["step"]), int(row["updates"]), int(row["episodes"]), seconds)


def _parse_total(value: Any) -> When:
    try:
        return When.parse(value)
    except ValueError as error:
        raise UserError(str(error), where="train(total_timesteps=…)", fix=f"give {EXPECTED}") from None
