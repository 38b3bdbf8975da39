"""The native trainer: builds envs, learner and collector from a config and runs the loop over them."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch

from ludus.algorithms.learner import Learner, Workplace
from ludus.config.loading import config_hash, dump_yaml
from ludus.config.schema import TrainerConfig
from ludus.config.when import When
from ludus.errors import LudusError, SimulatorLost, StorageError, UserError
from ludus.evaluation.evaluate import EvaluationResult, evaluate
from ludus.evaluation.load import find_checkpoint, load_policy_tensors
from ludus.evaluation.video import record_video, require_video
from ludus.policies.base import Policy
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.collector import Collector
from ludus.rollout.stepper import Stepper
from ludus.runs.atomic import write_atomic
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.lock import RunLock
from ludus.runs.signals import StopSignals
from ludus.runs.streams import Streams
from ludus.tracking.jsonl import read_jsonl
from ludus.tracking.logs import attach_log_file, detach
from ludus.tracking.progress import ProgressDisplay
from ludus.tracking.tracker import MetricsLog
from ludus.trainers.base import RLTrainer, TrainResult
from ludus.trainers.callbacks import CallbackLogger, as_callback
from ludus.trainers.env_source import EnvSource
from ludus.trainers.loop import train_loop
from ludus.trainers.provenance import command_line, versions
from ludus.trainers.resolve import (
    available_threads,
    choose_device,
    choose_precision,
    resolve_config,
    set_threads,
)
from ludus.trainers.trackers import closing, open_trackers
from ludus.trainers.training_run import Crew, TrainingRun, policy_state
from ludus.types import Progress

_log = logging.getLogger("ludus.trainers")


class NativeTrainer(RLTrainer):
    """Trains with Ludus's own algorithms. `display` shows progress; None shows nothing."""

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        super().__init__(env, config)
        self.display = display
        self.preset: str | None = None
        self.requested_hash = config_hash(config)
        self.run: RunDirectory | None = None
        self.logger = CallbackLogger()
        self.learner: Learner[Any, Any] | None = None
        self.collector: Collector | None = None
        self._source = EnvSource(env, config)
        self._active: TrainingRun | None = None
        self._resume_from: Checkpoint | None = None
        self._loaded: Checkpoint | None = None
        self._setting: list[tuple[str, str]] = []

    # The trainer's public face

    @property
    def num_timesteps(self) -> int:
        return 0 if self._active is None else self._active.num_timesteps

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        self.create_model()
        assert self.learner is not None
        return self.learner.policy

    def get_env(self) -> Any:
        """The vector env that training steps."""
        return None if self.collector is None else self.collector.stepper.envs

    def create_model(self) -> Policy:
        if self.learner is not None:
            return self.learner.policy
        if self.config.video.every is not None:
            require_video()
        self.config = config = resolve_config(self.config, self._source)
        hyperparams = config.typed_hyperparams()
        backend, reason = self._source.choose_backend(config.vector)
        config = self.config = config.model_copy(update={"vector": backend})
        if config.deterministic:
            torch.use_deterministic_algorithms(True, warn_only=True)
        self.streams = Streams(config.seed)
        self.streams.seed_globals()
        envs = self._source.make_vector(backend)
        seen = envs.single_observation_space
        device = torch.device(choose_device(config, seen) if config.device == "auto" else config.device)
        precision = choose_precision(config.precision, device, seen)
        config = self.config = config.model_copy(update={"device": str(device), "precision": precision})
        if device.type == "cuda":
            torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
        try:
            gamma = hyperparams.gamma(0.0)
            place = Workplace(
                observation_space=envs.single_observation_space,
                action_space=envs.single_action_space,
                n_envs=self._source.n_envs,
                hyperparams=hyperparams,
                policy=config.policy,
                normalize_obs=config.normalize_obs,
                device=device,
                streams=self.streams,
                reward_normalizer=RewardNormalizer(self._source.n_envs, gamma)
                if config.normalize_reward
                else None,
                kernels=config.kernels,
                half_features=config.precision == "bfloat16",
                threads=available_threads(config.threads),
            )
            learner: Learner[Any, Any] = config.algorithm_entry().learner(place, hyperparams)  # type: ignore[misc]
            if config.pretrained_model is not None and self._resume_from is None:
                _, checkpoint = find_checkpoint(config.pretrained_model, config.save_dir)
                _take_over(learner, checkpoint)
            stepper = Stepper(
                envs,
                lambda barrier, index: self.streams.derive("env", barrier, index),
                reports_episodes=self._source.reports_episodes,
                rebuild=self._source.rebuild,
            )
            self.collector = learner.make_collector(stepper)
        except BaseException:
            envs.close()
            raise
        self.learner = learner
        parameters = sum(parameter.numel() for parameter in learner.policy.parameters())
        threads = set_threads(config.threads, learner, device)
        self.config = config.model_copy(update={"threads": threads})
        self._setting = [
            ("env", f"{self._source.env_id} x {self._source.n_envs}, {backend} ({reason})"),
            ("algorithm", f"{config.algorithm}, {parameters:,} parameters on {device}"),
            ("engine", f"{learner.engine_note}, {threads} thread{'s' * (threads > 1)}"),
        ]
        return learner.policy

    def train(self, total_timesteps: Any = None, callback: Any = None) -> TrainResult:
        callback = as_callback(callback)
        if total_timesteps is not None:
            self.config = self.config.model_copy(update={"total_timesteps": _parse_total(total_timesteps)})
        self.create_model()
        checkpoint = self._where_to_go_on()
        if self.run is None:
            self.run = self._create_run()
        with ExitStack() as stack:
            stack.enter_context(RunLock(self.run.path))
            if total_timesteps is not None:  # a new total also counts when the run is resumed once more
                write_atomic(self.run.config_path, dump_yaml(self.config))
            signals = stack.enter_context(StopSignals())
            handler = attach_log_file(self.run.logs_dir / "train.log")
            stack.callback(detach, handler)
            if self.display is not None:
                stack.callback(self.display.close)
            run = self._open(self.run, checkpoint, signals, callback)
            stack.enter_context(closing(run.log))
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
        else:
            found = manager.newest_intact(exact_only=exact)
        if found is None:
            raise UserError(
                f"the run has no {'exact ' if exact else ''}checkpoint to resume from",
                where=str(self.run.path),
                fix="start it again: " + (self.run.info().get("command") or "ludus train"),
            )
        self._resume_from = found
        return found

    def evaluate(self, n_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
        result = self.evaluate_episodes(n_episodes, deterministic)
        return result.mean_reward, result.std_reward

    def evaluate_episodes(self, n_episodes: int, deterministic: bool = True) -> EvaluationResult:
        """Play `n_episodes` on envs of their own, from seeds that depend on the config's seeds only."""
        policy = self.policy
        own = self.config.evaluation.seed
        streams = self.streams if own is None else Streams(own)
        seeds = [streams.derive("eval", index) for index in range(n_episodes)]
        was_training = policy.training
        policy.eval()
        try:
            return evaluate(policy, self._source.make_single, seeds, deterministic=deterministic)
        finally:
            policy.train(was_training)

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
        run = RunDirectory.create_at(folder, self._source.env_id, self.config.algorithm, folder.name)
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
        _take_over(self.learner, checkpoint)
        if self._active is not None:
            self._loaded = checkpoint  # the next train() goes on from the disk, and takes it over once more

    def close(self) -> None:
        if self.collector is not None:
            self.collector.close()

    # Within

    def _create_run(self) -> RunDirectory:
        config, env_id = self.config, self._source.env_id
        name = config.name or f"{env_id}-{config.algorithm}".lower()
        if config.run_dir is not None:
            run = RunDirectory.create_at(config.run_dir, env_id, config.algorithm, name)
        else:
            run = RunDirectory.create(
                config.save_dir, env_id, config.algorithm, name, timestamp=config.timestamp
            )
        self._describe(run, status="running")
        return run

    def _describe(self, run: RunDirectory, status: str) -> None:
        write_atomic(run.config_path, dump_yaml(self.config))
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
    ) -> TrainingRun:
        """The training run with everything it drives; its first step is `_begin`'s."""
        assert self.collector is not None and self.learner is not None
        resumed_at = None if checkpoint is None else checkpoint.step
        log = MetricsLog(
            directory.metrics_path, directory.episodes_path, open_trackers(self.config, directory, resumed_at)
        )
        crew = Crew(
            config=self.config,
            streams=self.streams,
            collector=self.collector,
            learner=self.learner,
            evaluate=lambda: self.evaluate_episodes(
                self.config.evaluation.episodes, self.config.evaluation.deterministic
            ),
            record_video=self._record_video if self.config.video.every is not None else None,
            callback=callback,
            extra_metrics=self.logger.take,
        )
        run = TrainingRun(directory, crew, log, signals, self.display, self.config.total_timesteps)
        self._active = run
        return run

    def _begin(self, run: TrainingRun, checkpoint: Checkpoint | None, callback: Any) -> None:
        """Bring the run to its first step, or to the checkpoint to go on from, and tell callback and display."""
        directory = run.directory
        if callback is not None:
            callback.init_callback(self._model_for_callbacks())
        run.begin(checkpoint)
        if self._loaded is not None:
            assert self.learner is not None
            _take_over(self.learner, self._loaded)
            self._loaded = None
        if callback is not None:
            callback.on_training_start({"self": self}, {})
            if not run.done:
                callback.on_rollout_start()
        directory.update_info(status="running", pid=os.getpid())
        if self.display is not None:
            if checkpoint is not None:
                for row in read_jsonl(directory.metrics_path):
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

    def _run_to_end(self, run: TrainingRun, checkpoint: Checkpoint | None, callback: Any) -> TrainResult:
        assert self.collector is not None and self.learner is not None
        directory = run.directory
        try:
            self._begin(run, checkpoint, callback)
            status = train_loop(run, self.collector, self.learner)
        except BaseException as error:
            if isinstance(error, SimulatorLost):  # what was learnt is whole, only its env is gone
                with suppress(LudusError):  # the first trouble is the one to tell
                    run.preempted()
            with suppress(OSError):
                directory.update_info(
                    status="failed", steps=run.progress.steps, error=f"{type(error).__name__}: {error}"
                )
            hint = run.resume_hint()
            if hint and not isinstance(error, StorageError):  # which says it itself
                error.add_note(f"Nothing saved is lost: {hint}")
            raise
        if callback is not None:
            callback.on_training_end()
        evaluation = None if run.last_evaluation is None else run.last_evaluation.summary()
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
            rewards=[float(row["reward"]) for row in read_jsonl(directory.episodes_path)],
            evaluation=evaluation,
            reason=run.stop_reason,
            exit_code=run.signals.exit_code,
        )

    def _record_video(self, step: int) -> None:
        """A film of the policy as it is; training goes on untouched, also when it cannot be written."""
        assert self.run is not None
        path = self.run.videos_dir / f"{step:012d}.mp4"
        try:
            film = record_video(
                self.policy,
                lambda: self._source.make_single("rgb_array"),
                path,
                seed=self.streams.derive("video", step),
                max_frames=self.config.video.length,
            )
        except (LudusError, OSError) as error:
            _log.warning("no video at step %s: %s", f"{step:,}", error)
            return
        _log.info("video of step %s: %s (%s frames)", f"{step:,}", film.path, film.frames)

    def _fraction_at(self, row: dict[str, Any]) -> float:
        progress = Progress(
            int(row["step"]), int(row["updates"]), int(row["episodes"]), float(row.get("time/seconds") or 0)
        )
        return self.config.total_timesteps.fraction(progress)


def _parse_total(value: Any) -> When:
    try:
        return When.parse(value)
    except ValueError as error:
        raise UserError(str(error), where="train(total_timesteps=…)", fix="as in the config") from None


def _take_over(learner: Learner[Any, Any], checkpoint: Checkpoint) -> None:
    """Start from the weights of another run's policy."""
    load_policy_tensors(learner.policy, checkpoint)
    learner.warm_start(dict(learner.policy.state_dict()))
