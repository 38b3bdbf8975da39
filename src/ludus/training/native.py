"""The native trainer: builds envs, learner and collector from a config and runs the loop over them."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from ludus.algorithms.learner import Learner, LearnerContext, load_optimizer_tensors, optimizer_tensors
from ludus.algorithms.peers import ALONE
from ludus.config.schema import EnvConfig, TrainerConfig
from ludus.errors import LudusError, UserError
from ludus.evaluation.evaluate import STEPS_WITHOUT_LIMIT, EvaluationResult, EvaluationStopped, evaluate
from ludus.kernel_cache import announce_compiling
from ludus.policies.base import Policy, RecurrentActor
from ludus.policies.observations import RewardNormalizer, check_observation
from ludus.rollout.collector import Collector, EnvCollector
from ludus.rollout.stepper import Stepper
from ludus.runs.atomic import TEMPORARY_PREFIX
from ludus.runs.directory import RunDirectory
from ludus.runs.limits import usable_cores
from ludus.runs.streams import Streams
from ludus.training.env_source import open_source
from ludus.training.learner_ranks import require_shareable
from ludus.training.resolve import (
    SMALL_NETWORK,
    ResolvedConfig,
    available_threads,
    check_config,
    keep_to_one_thread,
    resolve_config,
    resolve_threads,
    unused_by_env_run,
    unused_by_extractor,
    warn_unused_keys,
)
from ludus.training.trainer import RunTrainer, load_weights
from ludus.types import Array, BoolArray, Observation

if TYPE_CHECKING:
    from ludus.tracking.progress import ProgressDisplay

_log = logging.getLogger("ludus.training")


class NativeTrainer(RunTrainer):
    """Trains on envs with Ludus's own algorithms."""

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        super().__init__(env, config, display=display)
        self._requested = config
        self._source = open_source(env, config)

    @property
    def env_id(self) -> str:
        return self._source.env_id

    def get_env(self) -> Any:
        """The vector env that training steps, with SB3's names too; None where other processes step the envs."""
        if not isinstance(self.collector, EnvCollector):
            return None
        from ludus.training.training_envs import TrainingEnvs

        return TrainingEnvs(self.collector.stepper.envs)

    def create_model(self) -> Policy:
        if self.learner is not None:
            policy: Policy = self.learner.policy
            return policy
        if self.config.video.every is not None:
            from ludus.evaluation.video import require_video

            require_video()
        announce_compiling()
        given = self.config
        draft = check_config(self._adapt(given), self._source)
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
        self._warn_unused_keys(given, draft, learner)
        self.config = config = self._with_precision_used(config, draft.precision, learner.policy)
        if self._source.may_never_end and config.evaluation.every and config.evaluation.max_steps is None:
            _log.warning(
                "%s declares no time limit: an evaluation cuts episodes after %s steps (evaluation.max_steps)",
                self.env_id,
                f"{STEPS_WITHOUT_LIMIT:,}",
            )
        self._say_when_videos_come()
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

    def _warn_unused_keys(
        self, given: TrainerConfig, draft: TrainerConfig, learner: Learner[Any, Any]
    ) -> None:
        """Log the keys of the config as it was given that this run does not use."""
        unused = unused_by_env_run() | unused_by_extractor(draft, learner.context.observation_space)
        unused |= learner.unused_keys()
        if given.env != draft.env:  # else it describes the env that is used
            unused |= self._source.unused_env_keys()
        if given.vector != self.config.vector:
            unused |= self._source.unused_vector_key()
        warn_unused_keys(given.model_copy(update={"policy": draft.policy}), unused)

    def _with_precision_used(self, config: ResolvedConfig, asked: str, policy: Policy) -> ResolvedConfig:
        """Return `config` with the precision that the learner uses: not every one extracts features in bfloat16."""
        if config.precision != "bfloat16" or policy.half_features:
            return config
        used = "tf32" if config.device.startswith("cuda") else "float32"
        if asked == "bfloat16":
            _log.warning("precision: bfloat16 has no effect: %s computes in %s", config.algorithm, used)
        return ResolvedConfig.of(config, precision=used)

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

    # As a model of Stable-Baselines3

    def predict(
        self,
        observation: Observation,
        state: list[Any] | None = None,
        episode_start: BoolArray | None = None,
        deterministic: bool = False,
        action_masks: BoolArray | None = None,
    ) -> tuple[Array, list[Any] | None]:
        """Return env-ready actions for one observation or a batch of them, and the state of a recurrent policy.

        The signature is that of Stable-Baselines3. Pass `state` back in at the next step of the same episodes;
        `episode_start` is True where an episode begins.
        """
        policy, was_training = self.policy, self.policy.training
        policy.eval()
        try:
            if isinstance(policy, RecurrentActor):
                return _predict_with_memory(policy, observation, state, episode_start, deterministic)
            actions = policy.predict(observation, action_masks, deterministic=deterministic)
        finally:
            policy.train(was_training)
        return actions, None

    def save(self, path: str | Path) -> Path:
        """Save the policy as a folder for `ludus.load`, as `save_model`; one that was saved there before is replaced.

        An ending `.zip` is left out of the folder's name.
        """
        folder = Path(path).with_suffix("") if Path(path).suffix == ".zip" else Path(path)
        if not (folder / "run.json").exists() or RunDirectory.open(folder).info().get("status") != "exported":
            return self.save_model(folder)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=TEMPORARY_PREFIX) as temporary:
            saved = self.save_model(Path(temporary) / folder.name)
            folder.rename(Path(temporary) / "before")
            saved.rename(folder)
        return folder

    def get_parameters(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return copies of the policy's weights ("policy") and of each optimizer's state, by name."""
        policy = self.policy
        assert self.learner is not None
        parts: dict[str, Any] = {"policy": policy.state_dict()}
        parts |= {name: dict(optimizer_tensors(one)) for name, one in self.learner.optimizers().items()}
        return {
            part: {name: tensor.detach().clone() for name, tensor in tensors.items()}
            for part, tensors in parts.items()
        }

    def set_parameters(
        self, parameters: Mapping[str, Mapping[str, torch.Tensor]] | str | Path, exact_match: bool = True
    ) -> None:
        """Load what `get_parameters` returned, or the policy of a run or saved folder.

        Target networks become copies of the policy. With `exact_match`, every part must be given.
        """
        if isinstance(parameters, str | Path):
            self.load_model(parameters)
            return
        expected = self.get_parameters()
        missing, unknown = expected.keys() - parameters.keys(), parameters.keys() - expected.keys()
        if unknown or (exact_match and missing):
            raise UserError(
                f"expected parameters of {', '.join(expected)}, got {', '.join(parameters) or 'none'}",
                where="set_parameters(parameters)",
                fix="give what get_parameters() returned; a part of it with exact_match=False",
            )
        for name, tensor in parameters.get("policy", {}).items():
            own = expected["policy"].get(name)
            if own is None or own.shape != torch.as_tensor(tensor).shape:
                raise UserError(
                    f"the policy has no weights '{name}' of shape {tuple(torch.as_tensor(tensor).shape)}",
                    where="set_parameters(parameters)",
                    fix="give the weights of a policy with the same spaces and layers",
                )

        def load(learner: Any) -> None:
            if "policy" in parameters:
                learner.warm_start({**learner.policy.state_dict(), **parameters["policy"]})
            for name, optimizer in learner.optimizers().items():
                if name in parameters:
                    load_optimizer_tensors(optimizer, dict(parameters[name]))

        self._load_now_and_again(load)

    def set_env(self, env: Any) -> None:
        """Train on another env with the same spaces from now on, with the policy as it is.

        `env` is what `create_trainer` takes. The next `train` starts a run of its own. UserError for other spaces.
        """
        named = EnvConfig(id=env) if isinstance(env, str) else None
        other = type(self)(env, self._requested.model_copy(update={"env": named}), display=self.display)
        if self.learner is not None:
            policy, theirs = self.policy, other.create_model()
            for name in ("observation_space", "action_space"):
                expected, found = getattr(policy, name), getattr(theirs, name)
                if expected != found:
                    other.close()
                    raise UserError(
                        f"the env's {name} is {found}; the policy was made for {expected}",
                        where="set_env(env)",
                        fix="give an env with the same spaces, or create a new trainer",
                    )
            other.set_parameters({"policy": policy.state_dict()}, exact_match=False)
            self.close()
        vars(self).update(vars(other))

    def get_vec_normalize_env(self) -> None:
        """Return None: the policy itself has the statistics of observations."""

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
                max_steps=self.config.evaluation.max_steps,
                before_step=self._raise_if_stopping,
            )
        finally:
            policy.train(was_training)

    # Videos

    def _say_when_videos_come(self) -> None:
        """Report where the first video is recorded, if that is not the step that the config names."""
        every, hyperparams = self.config.video.every, self.config.typed_hyperparams()
        replay = hasattr(hyperparams, "buffer_size")  # its rounds are short
        rollout = self.config.n_envs * (1 if replay else getattr(hyperparams, "n_steps", 1))
        if every is not None and every.unit == "steps" and every.amount % rollout:
            first = math.ceil(every.amount / rollout) * rollout
            _log.info(
                "video.every: %s: a video is recorded after the update that reaches its step, the first at step %s",
                f"{every.amount:,.0f}",
                f"{first:,}",
            )

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


def _predict_with_memory(
    policy: RecurrentActor,
    observation: Observation,
    state: list[Any] | None,
    episode_start: BoolArray | None,
    deterministic: bool,
) -> tuple[Array, list[Any]]:
    assert isinstance(policy, Policy)
    single = check_observation(policy.observation_space, observation)
    batch: Any = observation
    if single:
        batch = (
            {key: np.asarray(value)[None] for key, value in observation.items()}
            if isinstance(observation, dict)
            else np.asarray(observation)[None]
        )
    n = len(next(iter(batch.values())) if isinstance(batch, dict) else batch)
    starts = np.zeros(n, dtype=bool) if episode_start is None else np.broadcast_to(episode_start, n)
    memories = [None if start else memory for memory, start in zip(state or [None] * n, starts, strict=True)]
    actions, after = policy.predict_with_memory(batch, memories, deterministic=deterministic)
    return (actions[0] if single else actions), after
