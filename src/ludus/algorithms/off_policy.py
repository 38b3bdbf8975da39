"""The base of DQN and SAC: the replay buffer, when to learn from it, and slowly following target networks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import torch
from pydantic import Field
from torch import nn

from ludus.algorithms.backends import ReplayBackend
from ludus.algorithms.backends.cuda_graph import CapturedReplay
from ludus.algorithms.backends.eager import EagerReplay
from ludus.algorithms.learner import Learner, LearnerContext, with_prefix
from ludus.algorithms.replay import ReplayBatch, ReplayBuffer, space_bytes
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, NotFinite
from ludus.rollout.collector import ReplayCollector
from ludus.rollout.experience import Transitions
from ludus.rollout.stepper import Stepper
from ludus.runs.limits import memory_limit
from ludus.types import Array, Metrics


class OffPolicyHyperparameters(Hyperparameters):
    normalizes_reward: ClassVar[bool] = False

    buffer_size: int = Field(default=1_000_000, ge=1, le=10**9, description="transitions kept")
    learning_starts: int = Field(
        default=100, ge=0, le=10**12, description="env steps of random actions first"
    )
    batch_size: int = Field(default=256, ge=1, le=10**7)
    train_freq: int = Field(
        default=1, ge=1, le=10**9, description="vector steps between two rounds of learning"
    )
    gradient_steps: Annotated[int, Field(ge=-1, le=1_000_000)] | Literal["auto"] = Field(
        default="auto",
        description="per round; auto: n_envs, so that more envs do not mean less learning; -1: as many as env steps",
    )

    def resolved(self, n_envs: int) -> Self:
        return self.model_copy(update={"gradient_steps": n_envs}) if self.gradient_steps == "auto" else self

    def samples_per_step(self, n_envs: int) -> int:
        return self.batch_size


H = TypeVar("H", bound=OffPolicyHyperparameters)


class OffPolicyLearner(Learner[Transitions, H]):
    """Base of learners that learn from a replay buffer."""

    statistics: tuple[str, ...]
    """The names of the metrics that `gradient_step` returns."""
    backend: ReplayBackend

    def __init__(self, context: LearnerContext, hyperparams: H) -> None:
        super().__init__(context, hyperparams)
        if not context.to_play:
            require_memory(context, hyperparams.buffer_size)
        self.replay = ReplayBuffer(hyperparams.buffer_size)
        self.steps = 0
        self._rng = context.streams.numpy("replay")

    @abstractmethod
    def apply_schedules(self, fraction: float) -> None:
        """Set the optimizers and coefficients to what schedules give at this fraction of the run."""

    @abstractmethod
    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        """Take one gradient step without waiting for the device. Returns the `statistics`."""

    def after_step(self, fraction: float) -> None:
        """Called after every gradient step."""

    def choose_backend(self) -> None:
        """Take the gradient steps with the kernels where there are any, else with torch."""
        if self.kernels is not None:
            self.backend = self.policy.fast = self.kernels
        else:
            self.backend = CapturedReplay(self) if self.captured else EagerReplay(self)

    def sample(self) -> ReplayBatch:
        """Draw a minibatch from the replay buffer."""
        return self.replay.sample(self.h.batch_size, self._rng, self.policy, self.context.reward_normalizer)

    def draw(self, n: int | None = None) -> Array:
        """Draw the indices of a minibatch, or of `n` [n, batch_size], for kernels that sample by themselves."""
        size = self.h.batch_size
        return self.replay.draw(size if n is None else (n, size), self._rng)

    def generators(self) -> tuple[torch.Generator, ...]:
        """Return the generators that `gradient_step` draws random numbers from."""
        return ()

    def make_collector(self, stepper: Stepper) -> ReplayCollector:
        return ReplayCollector(
            stepper,
            n_steps=self.h.train_freq,
            generator=self.context.streams.torch("actions", str(self.context.device)),
            reward_normalizer=self.context.reward_normalizer,
            warmup=self.h.learning_starts,
            rng=self.context.streams.numpy("warmup"),
        )

    def credit(self, experience: Transitions, fraction: float) -> int:
        """Put the transitions into the replay buffer and return their number; minibatches have the targets."""
        self.replay.add(experience)
        self.steps += experience.steps
        return experience.steps

    def learn(self, batch: int, fraction: float) -> Metrics:
        """Take the gradient steps that are due after `batch` new transitions."""
        if self.steps <= self.h.learning_starts or self.replay.size == 0:
            return {}
        if self.kernels is None:
            self.policy.train()
        n = self.context.n_envs if self.h.gradient_steps == "auto" else self.h.gradient_steps
        if n < 0:
            n = batch
        try:
            metrics = self.backend.take_steps(n, fraction)
        except NotFinite as error:
            error.evidence = self.replay.drawn()
            raise
        return metrics | {"train/learning_rate": self.h.learning_rate(fraction)} if metrics else {}

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
            fix=f"set buffer_size to at least {h.train_freq * config.n_envs}",
        )


def require_memory(context: LearnerContext, capacity: int) -> None:
    """Raise ConfigError when a buffer of `capacity` transitions is more than this process can ever hold."""
    limit = memory_limit()
    size = (
        2 * space_bytes(context.observation_space) + space_bytes(context.action_space) + 5
    )  # reward and end
    if limit is None or capacity * size <= limit:
        return
    raise ConfigError(
        f"a replay buffer of {capacity:,} transitions takes {capacity * size / 2**30:,.1f} GiB, "
        f"and this process can have {limit / 2**30:,.1f} GiB",
        key="hyperparams.buffer_size",
        fix=f"{limit // 2 // size:,} transitions take half of that",
    )


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Move the target's parameters a fraction `tau` of the way; its buffers are copied."""
    to: list[torch.Tensor] = list(target.parameters())
    by: list[torch.Tensor] = list(source.parameters())
    if tau < 1.0:
        torch._foreach_lerp_(to, by, tau)
    else:
        torch._foreach_copy_(to, by)
    for kept, new in zip(target.buffers(), source.buffers(), strict=True):
        kept.copy_(new)
