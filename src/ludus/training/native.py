"""The native trainer: builds envs, learner and collector from a config and runs the loop over them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from gymnasium.vector import VectorEnv

from ludus.algorithms.learner import Learner, LearnerContext
from ludus.algorithms.peers import ALONE
from ludus.config.schema import TrainerConfig
from ludus.errors import LudusError
from ludus.evaluation.evaluate import EvaluationResult, EvaluationStopped, evaluate
from ludus.policies.base import Policy
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.collector import Collector, EnvCollector
from ludus.rollout.stepper import Stepper
from ludus.runs.limits import usable_cores
from ludus.runs.streams import Streams
from ludus.training.env_source import EnvSource
from ludus.training.learner_ranks import require_shareable
from ludus.training.resolve import (
    SMALL_NETWORK,
    available_threads,
    check_config,
    keep_to_one_thread,
    resolve_config,
    resolve_threads,
)
from ludus.training.trainer import RunTrainer, load_weights

if TYPE_CHECKING:
    from ludus.tracking.progress import ProgressDisplay

_log = logging.getLogger("ludus.training")


class NativeTrainer(RunTrainer):
    """Trains on envs with Ludus's own algorithms."""

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        super().__init__(env, config, display=display)
        self._source = EnvSource(env, config)

    @property
    def env_id(self) -> str:
        return self._source.env_id

    def get_env(self) -> Any:
        """The vector env that training steps; None where other processes step the envs."""
        return self.collector.stepper.envs if isinstance(self.collector, EnvCollector) else None

    def create_model(self) -> Policy:
        if self.learner is not None:
            policy: Policy = self.learner.policy
            return policy
        if self.config.video.every is not None:
            from ludus.evaluation.video import require_video

            require_video()
        draft = check_config(self._adapt(self.config), self._source)
        backend, reason = self._choose_backend(draft)
        if draft.deterministic:
            torch.use_deterministic_algorithms(True, warn_only=True)
        self.streams = Streams(draft.seed)
        self.streams.seed_globals()
        envs = self._make_envs(backend)
        try:
            self.config = config = resolve_config(draft, backend, envs.single_observation_space)
            self._context = context = self._learner_context(config, envs)
            keep_to_one_thread()
            learner = self._make_learner()
            if config.pretrained_model is not None and self._resume_point is None:
                from ludus.evaluation.load import find_checkpoint

                _, checkpoint = find_checkpoint(config.pretrained_model, config.save_dir)
                load_weights(learner, checkpoint)
            self.collector = self._make_collector(learner, envs)
        except BaseException:
            envs.close()
            raise
        self.learner = learner
        parameters = sum(parameter.numel() for parameter in learner.policy.parameters())
        self.config = resolve_threads(
            config,
            context.threads,
            small=context.device.type != "cpu" or parameters < SMALL_NETWORK,
            fused_kernels=learner.kernels is not None,
        )
        threads = self.config.threads
        self._header = [
            ("env", f"{self._source.env_id} x {self._source.n_envs}, {backend} ({reason})"),
            ("algorithm", f"{config.algorithm}, {parameters:,} parameters on {config.device}"),
            ("engine", f"{learner.engine_note}, {threads} thread{'s' * (threads != 1)}"),
        ]
        return learner.policy

    def _adapt(self, config: TrainerConfig) -> TrainerConfig:
        """Return `config` with what this kind of trainer needs."""
        return config

    def _learner_context(self, config: TrainerConfig, envs: VectorEnv[Any, Any, Any]) -> LearnerContext:
        device = torch.device(config.device)
        if device.type == "cuda":
            torch.set_float32_matmul_precision("highest" if config.precision == "float32" else "high")
        hyperparams: Any = config.typed_hyperparams()
        rewards = None
        if config.normalize_reward:
            rewards = RewardNormalizer(config.n_envs, hyperparams.gamma(0.0))
        return LearnerContext(
            observation_space=envs.single_observation_space,
            action_space=envs.single_action_space,
            n_envs=config.n_envs,
            hyperparams=hyperparams,
            policy=config.policy,
            normalize_obs=config.normalize_obs,
            device=device,
            streams=self.streams,
            reward_normalizer=rewards,
            kernels=config.kernels,
            half_features=config.precision == "bfloat16",
            threads=available_threads(config.threads, self._cores()),
        )

    def _make_learner(self, learners: int | None = None) -> Learner[Any, Any]:
        config, context = self.config, self._context
        peers = self.ranks.open(config, context.device, learners)
        if peers.size > 1:
            from ludus.scale.learners import Order

            require_shareable(config)
            context = replace(context, peers=peers, kernels=False)  # kernels and graphs step alone
            fresh = Streams(config.seed)
            self.ranks.build(
                Order(config, replace(context, streams=fresh, reward_normalizer=None, peers=ALONE))
            )
        learner: Learner[Any, Any] = config.algorithm_entry().learner(context, config.typed_hyperparams())  # type: ignore[misc]
        return learner

    def _cores(self) -> int:
        """Return the number of cores for learning."""
        return usable_cores()

    def _choose_backend(self, config: TrainerConfig) -> tuple[str, str]:
        """Return the vector backend, and why it is used."""
        return self._source.choose_backend(config.vector)

    def _make_envs(self, backend: str) -> VectorEnv[Any, Any, Any]:
        """Create the envs to play, which also define the spaces."""
        return self._source.make_vector(backend)

    def _make_collector(self, learner: Learner[Any, Any], envs: VectorEnv[Any, Any, Any]) -> Collector:
        stepper = Stepper(
            envs,
            lambda barrier, index: self.streams.derive("env", barrier, index),
            reports_episodes=self._source.reports_episodes,
            rebuild=self._source.rebuild,
        )
        return learner.make_collector(stepper)

    def evaluate_episodes(self, n_episodes: int, deterministic: bool = True) -> EvaluationResult:
        """Play `n_episodes` on envs of their own, from seeds that depend on the config's seeds only."""
        policy = self.policy
        own = self.config.evaluation.seed
        streams = self.streams if own is None else Streams(own)
        seeds = [streams.derive("eval", index) for index in range(n_episodes)]
        was_training = policy.training
        policy.eval()
        try:
            return evaluate(
                policy,
                self._source.for_evaluation(),
                seeds,
                deterministic=deterministic,
                before_step=self._raise_if_stopping,
            )
        finally:
            policy.train(was_training)

    def _video_recorder(self) -> Callable[[int], None] | None:
        return None if self.config.video.every is None else self._record_video

    def _record_video(self, step: int) -> None:
        """Record a video of the policy. Training continues unchanged, also when it cannot be written."""
        from ludus.evaluation.video import Scene, record_scenes

        assert self.run is not None
        policy, collector = self.policy, self.collector
        scene = Scene(
            policy,
            lambda: self._source.make_single("rgb_array"),
            title=self.run.name,
            subtitle=f"{self.config.algorithm}  ·  step {step:,}",
            reward_scale=1.0 if collector is None else collector.reward_scale,
        )
        was_training = policy.training
        policy.eval()
        try:
            video = record_scenes(
                [scene],
                self.run.videos_dir / f"{step:012d}.mp4",
                seed=self.streams.derive("video", step),
                max_frames=self.config.video.length,
                overlay=self.config.video.overlay,
                on_frame=lambda frames: self._raise_if_stopping(),
            )
        except EvaluationStopped:
            _log.info("no video at step %s: the run was asked to stop", f"{step:,}")
            return
        except (LudusError, OSError) as error:
            _log.warning("no video at step %s: %s", f"{step:,}", error)
            return
        finally:
            policy.train(was_training)
        _log.info("video of step %s: %s (%s frames)", f"{step:,}", video.path, video.frames)
