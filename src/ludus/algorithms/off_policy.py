"""What DQN and SAC share: the replay buffer, when to learn from it, and slowly following target networks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import torch
from pydantic import Field
from torch import nn

from ludus.algorithms.learner import Learner, Workplace, with_prefix
from ludus.algorithms.replay import Batch, ReplayBuffer
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.rollout.collector import ReplayCollector
from ludus.rollout.experience import Transitions
from ludus.rollout.stepper import Stepper
from ludus.types import Metrics


class OffPolicyHyperparameters(Hyperparameters):
    buffer_size: int = Field(default=1_000_000, ge=1, description="transitions kept")
    learning_starts: int = Field(default=100, ge=0, description="env steps of random actions first")
    batch_size: int = Field(default=256, ge=1)
    train_freq: int = Field(default=1, ge=1, description="vector steps between two rounds of learning")
    gradient_steps: int = Field(
        default=1, ge=-1, description="per round; -1: as many as env steps were taken"
    )


H = TypeVar("H", bound=OffPolicyHyperparameters)


class OffPolicyLearner(Learner[Transitions, H]):
    """Base of learners that learn from a replay buffer."""

    def __init__(self, place: Workplace, hyperparams: H) -> None:
        super().__init__(place, hyperparams)
        self.replay = ReplayBuffer(hyperparams.buffer_size)
        self.steps = 0
        self._rng = place.streams.numpy("replay")

    @abstractmethod
    def learn(self, batch: Batch, fraction: float) -> Metrics:
        """One gradient step."""

    def make_collector(self, stepper: Stepper) -> ReplayCollector:
        return ReplayCollector(
            stepper,
            n_steps=self.h.train_freq,
            generator=self.place.streams.torch("actions", str(self.place.device)),
            reward_normalizer=self.place.reward_normalizer,
            warmup=self.h.learning_starts,
            rng=self.place.streams.numpy("warmup"),
        )

    def update(self, experience: Transitions, fraction: float) -> Metrics:
        self.replay.add(experience)
        self.steps += experience.steps
        metrics: Metrics = {}
        if self.steps > self.h.learning_starts and self.replay.size > 0:
            if self.kernels is None:
                self.policy.train()
            rounds = experience.steps if self.h.gradient_steps < 0 else self.h.gradient_steps
            metrics = self.learn_rounds(rounds, fraction)
        return metrics

    def learn_rounds(self, rounds: int, fraction: float) -> Metrics:
        """`rounds` gradient steps, each on a new sample; the metrics of the last one."""
        metrics: Metrics = {}
        for _ in range(rounds):
            batch = self.replay.sample(
                self.h.batch_size, self._rng, self.policy, self.place.reward_normalizer
            )
            metrics = self.learn(batch, fraction)
        return metrics

    def tensors(self) -> dict[str, torch.Tensor]:
        replay = {f"replay.{key}": value for key, value in self.replay.tensors().items()}
        return super().tensors() | replay

    def values(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self.replay.load(with_prefix(tensors, "replay"))
        self.steps = int(values["steps"])


def check_replay(config: TrainerConfig, h: OffPolicyHyperparameters) -> None:
    """Raise ConfigError when the buffer cannot hold what one round adds."""
    if h.buffer_size < h.train_freq * config.n_envs:
        raise ConfigError(
            f"buffer_size {h.buffer_size} is smaller than one collection (train_freq * n_envs)",
            key="hyperparams.buffer_size",
            fix=f"at least {h.train_freq * config.n_envs}",
        )


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Move the target's parameters a fraction `tau` of the way; its buffers are copied."""
    for to, by in zip(target.parameters(), source.parameters(), strict=True):
        to.lerp_(by, tau) if tau < 1.0 else to.copy_(by)
    for kept, new in zip(target.buffers(), source.buffers(), strict=True):
        kept.copy_(new)
