"""A learner whose policy, optimizers and updates are those of an SB3 model."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from sb3_contrib import ARS, MaskablePPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from torch.nn.utils import parameters_to_vector

import ludus.sb3.policy_outputs  # noqa: F401  # registers the outputs of its policies
from ludus.algorithms.learner import Learner, LearnerContext, require_action_space, with_prefix
from ludus.config.when import When
from ludus.errors import ConfigError
from ludus.policies.observations import ObservationNormalizer
from ludus.rollout.experience import Experience
from ludus.rollout.stepper import Stepper
from ludus.sb3.collector import SB3Collector
from ludus.sb3.hyperparameters import SB3Hyperparameters
from ludus.sb3.network import policy_arguments, policy_class, unused_policy_keys, with_own_layers
from ludus.sb3.normalizing import normalized
from ludus.sb3.policy import RecurrentSB3Policy, SB3Policy
from ludus.sb3.replay import end_open_episodes, load_replay, replay_tensors
from ludus.sb3.vec_env import StepperVecEnv
from ludus.types import Metrics

_log = logging.getLogger("ludus.algorithms")

# Counters of a model; not every algorithm has each.
_COUNTERS = (
    "num_timesteps",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "exploration_rate",
)
_SB3_FOLDERS = tuple(str(Path(package.__path__[0])) for package in (stable_baselines3, sb3_contrib))


class SB3Learner(Learner[Experience, SB3Hyperparameters]):
    """Wraps `model`, an instance of `cls`. A round is `collect` (called by the collector) and `learn`.

    `total` is the length of the run, which SB3 needs in steps while it collects.
    """

    policy: SB3Policy

    def __init__(
        self, cls: type[BaseAlgorithm], context: LearnerContext, hyperparams: SB3Hyperparameters
    ) -> None:
        super().__init__(context, hyperparams)
        _require_fitting_actions(cls, context.action_space)
        normalizer = ObservationNormalizer(context.observation_space) if context.normalize_obs else None
        self.envs = StepperVecEnv(context.observation_space, context.action_space, context.n_envs)
        self.envs.action_space.seed(context.streams.derive("sb3", "actions"))
        self.model: Any = self._make_model(cls, normalizer)
        self._is_ars = issubclass(cls, ARS)
        self._is_off_policy = issubclass(cls, OffPolicyAlgorithm)
        self.stops_between_steps = not (self._is_ars or self._is_off_policy)
        if self.stops_between_steps:
            for optimizer in self.optimizers().values():
                optimizer.register_step_pre_hook(lambda *_: self.before_step())
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        recurrent = isinstance(self.model.policy, RecurrentActorCriticPolicy)
        wrapper = RecurrentSB3Policy if recurrent else SB3Policy
        self.policy = wrapper(context.observation_space, context.action_space, self.model.policy, normalizer)
        self.total: When | None = None
        self.engine_note = f"Stable-Baselines3 {version('stable-baselines3')}"

    # One round

    def collect(self, callback: BaseCallback, shortened: Callable[[int], int]) -> None:
        """Collect as a round of SB3's `learn` does; `shortened` limits the number of vector steps."""
        model = self.model
        model._total_timesteps = self._total_steps()
        if self._is_ars:
            model._do_one_update(callback, None)  # ARS collects and learns in one call
        elif self._is_off_policy:
            model.collect_rollouts(
                model.env,
                train_freq=_shorter(model.train_freq, shortened),
                action_noise=model.action_noise,
                callback=callback,
                learning_starts=model.learning_starts,
                replay_buffer=model.replay_buffer,
                log_interval=None,
            )
        else:
            n_steps = shortened(model.n_steps)
            _resize(model.rollout_buffer, n_steps)
            model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=n_steps)

    def credit(self, experience: Experience, fraction: float) -> Experience:
        """Return `experience` as it is: SB3 has computed advantages while it collected, or keeps a replay buffer."""
        return experience

    def learn(self, batch: Experience, fraction: float) -> Metrics:
        model = self.model
        model._current_progress_remaining = 1.0 - fraction
        if self._is_off_policy:
            rounds = model.gradient_steps if model.gradient_steps >= 0 else batch.steps
            if model.num_timesteps > model.learning_starts and rounds > 0:
                model.train(batch_size=model.batch_size, gradient_steps=rounds)
        elif not self._is_ars:
            model.train()
        return self._take_metrics()

    def make_collector(self, stepper: Stepper) -> SB3Collector:
        self.envs.stepper = stepper
        return SB3Collector(self, stepper)

    def begin(self, barrier: int, callback: BaseCallback) -> None:
        """Restart the envs from `barrier`, and reset the model to the start of SB3's `learn`: no open episode."""
        model = self.model
        if self._is_off_policy:
            end_open_episodes(model.replay_buffer)
        if hasattr(model, "_last_lstm_states"):
            model._last_lstm_states = _forgotten(model._last_lstm_states)
        self.envs.next_barrier = barrier
        model._last_obs = None  # makes SB3 reset the envs
        normalize = model.get_vec_normalize_env()
        if normalize is not None and barrier > 0:
            normalize.training = (
                False  # a checkpoint and what follows it normalise alike until a step is taken
            )
        model._setup_learn(0, callback, reset_num_timesteps=False)
        if normalize is not None:
            normalize.training = True

    # Content of a checkpoint

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        named = {name: self._part(name) for name in self.model._get_torch_save_params()[0]}
        return {name: part for name, part in named.items() if isinstance(part, torch.optim.Optimizer)}

    def unused_keys(self) -> dict[str, str]:
        unused = {"kernels": "Stable-Baselines3 computes with plain torch"}
        return unused | unused_policy_keys(type(self.model), self.context)

    def warm_start(self, policy: dict[str, torch.Tensor]) -> None:
        super().warm_start(policy)
        self._follow_policy()

    def tensors(self) -> dict[str, torch.Tensor]:
        tensors = super().tensors()
        tensors |= {f"variable.{name}": self._part(name) for name in self._variables()}
        if self._is_off_policy:
            replay = replay_tensors(self.model.replay_buffer)
            tensors |= {f"replay.{key}": value for key, value in replay.items()}
        return tensors

    def values(self) -> dict[str, Any]:
        counters = {name: getattr(self.model, name) for name in _COUNTERS if hasattr(self.model, name)}
        return {
            "counters": {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in counters.items()
            },
            "action_space": self.model.action_space.np_random.bit_generator.state,
        }

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        with torch.no_grad():
            for name in self._variables():
                self._part(name).copy_(tensors[f"variable.{name}"])
        if self._is_off_policy:
            load_replay(self.model.replay_buffer, with_prefix(tensors, "replay"))
        for name, value in values["counters"].items():
            setattr(self.model, name, value)
        self.model.action_space.np_random.bit_generator.state = values["action_space"]
        self._follow_policy()

    # Internals

    def _make_model(
        self, cls: type[BaseAlgorithm], normalizer: ObservationNormalizer | None
    ) -> BaseAlgorithm:
        context, h = self.context, self.h
        envs = normalized(self.envs, normalizer, context.reward_normalizer, h.gamma.start)
        name = policy_class(cls, h, context.policy, context.observation_space)
        arguments = h.constructor_arguments(cls, self.envs.action_space)
        if context.to_play and "buffer_size" in arguments:
            arguments["buffer_size"] = 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model: BaseAlgorithm = cls(
                    policy=with_own_layers(cls, name, context.policy),
                    env=envs,
                    policy_kwargs=policy_arguments(cls, name, context),
                    device=context.device,
                    **arguments,
                )
            except (AssertionError, ValueError, TypeError, NotImplementedError) as error:
                if not _is_sb3s(error):
                    raise  # the user's own network
                raise ConfigError(
                    f"Stable-Baselines3 cannot create this {cls.__name__}: {error}",
                    key="hyperparams",
                    fix="change what it names",
                ) from error
        for warning in caught if not context.to_play else ():
            _log.warning("Stable-Baselines3: %s", " ".join(str(warning.message).split()))
        return model

    def _total_steps(self) -> float:
        """Return the length of the run in steps: as configured, or estimated from the progress so far."""
        if self.total is not None and self.total.unit == "steps":
            return self.total.amount
        done = 1.0 - self.model._current_progress_remaining
        return float(self.model.num_timesteps / done) if done > 0 else float("inf")

    def _take_metrics(self) -> Metrics:
        """Return the metrics that SB3 logged since the last call, without its times."""
        logger = self.model.logger
        logged = {name: value for name, value in logger.name_to_value.items() if not name.startswith("time/")}
        for kept in (logger.name_to_value, logger.name_to_count, logger.name_to_excluded):
            kept.clear()
        return {
            name: float(value)
            for name, value in logged.items()
            if isinstance(value, int | float | np.number) and value == value
        }

    def _variables(self) -> list[str]:
        names: list[str] = self.model._get_torch_save_params()[1]
        return names

    def _part(self, name: str) -> Any:
        """The model's part that SB3 calls `name`, as in `policy.optimizer`."""
        part: Any = self.model
        for step in name.split("."):
            part = getattr(part, step)
        return part

    def _follow_policy(self) -> None:
        if self._is_ars:  # ARS keeps a second copy of the policy's weights
            self.model.weights = parameters_to_vector(self.model.policy.parameters()).detach()


def _require_fitting_actions(cls: type[BaseAlgorithm], space: spaces.Space[Any]) -> None:
    name = cls.__name__
    if issubclass(cls, MaskablePPO):
        allowed: tuple[type, ...] = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        require_action_space(name, space, allowed, "PPO, A2C or TRPO")
    elif name in ("SAC", "TD3", "DDPG", "TQC", "CrossQ"):
        require_action_space(name, space, (spaces.Box,), "PPO, A2C, DQN or QR-DQN")
    elif name in ("DQN", "QRDQN"):
        require_action_space(name, space, (spaces.Discrete,), "PPO or A2C, or SAC for a Box")
    elif issubclass(cls, ARS):
        require_action_space(name, space, (spaces.Box, spaces.Discrete), "PPO or A2C")


def _resize(buffer: Any, n_steps: int) -> None:
    """Make `buffer` hold `n_steps` steps from its next reset on, with which SB3 begins a rollout."""
    buffer.buffer_size = n_steps
    if hasattr(buffer, "hidden_state_shape"):
        buffer.hidden_state_shape = (n_steps, *buffer.hidden_state_shape[1:])


def _shorter(train_freq: TrainFreq, shortened: Callable[[int], int]) -> TrainFreq:
    in_steps = train_freq.unit == TrainFrequencyUnit.STEP
    return TrainFreq(shortened(train_freq.frequency), train_freq.unit) if in_steps else train_freq


def _forgotten(states: RNNStates) -> RNNStates:
    pi, vf = ((torch.zeros_like(hidden), torch.zeros_like(cell)) for hidden, cell in states)
    return RNNStates(pi, vf)


def _is_sb3s(error: BaseException) -> bool:
    """Return True if SB3 itself raised the error, not a network that it was building."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_SB3_FOLDERS)
