"""What DQN and SAC share: the replay buffer, when to learn from it, and slowly following target networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import nn

from ludus.algorithms.backends.cuda_graph import Captured
from ludus.algorithms.learner import Learner, LearnerContext, with_prefix
from ludus.algorithms.replay import ReplayBatch, ReplayBuffer, space_bytes
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, NotFinite
from ludus.rollout.collector import ReplayCollector
from ludus.rollout.experience import Transitions
from ludus.rollout.stepper import Stepper
from ludus.runs.limits import memory_limit
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

    STATISTICS: ClassVar[tuple[str, ...]]

    def __init__(self, place: LearnerContext, hyperparams: H) -> None:
        super().__init__(place, hyperparams)
        if not place.to_play:
            require_memory(place, hyperparams.buffer_size)
        self.replay = ReplayBuffer(hyperparams.buffer_size)
        self.steps = 0
        self._graph: Captured | None = None
        self._graph_batch: ReplayBatch | None = None
        self._rng = place.streams.numpy("replay")

    @abstractmethod
    def begin(self, fraction: float) -> None:
        """Set what schedules say of this fraction of the run."""

    @abstractmethod
    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        """One gradient step, without asking the device for anything. Returns the `STATISTICS`."""

    def after_step(self, fraction: float) -> None:
        """What follows a gradient step."""

    def read(self, statistics: torch.Tensor) -> Metrics:
        """The metrics of a gradient step. NotFinite when its loss or gradient was not."""
        self.step_gate.check()
        return {
            f"train/{name}": value for name, value in zip(self.STATISTICS, statistics.tolist(), strict=True)
        }

    def learn_from(self, batches: Iterable[ReplayBatch], fraction: float) -> Metrics:
        """A gradient step on each batch, and the metrics of the last."""
        self.begin(fraction)
        statistics = None
        for batch in batches:
            statistics = self._captured_step(batch) if self.captured else self.gradient_step(batch)
            if self.place.device.type == "cpu":  # elsewhere it would wait for the device
                self.step_gate.check()
            self.after_step(fraction)
        if statistics is None:
            return {}
        return self.read(statistics) | {"train/learning_rate": self.h.learning_rate(fraction)}

    def _captured_step(self, batch: ReplayBatch) -> torch.Tensor:
        """`gradient_step` as a CUDA graph, which reads the first batch's memory; another shape needs another graph."""
        if self._graph is None or self._graph_batch is None or not batch.fits(self._graph_batch):
            self._graph_batch = batch
            self._graph = Captured(
                lambda: self.gradient_step(batch), self.place.device, self.lasting_tensors, self.generators()
            )
        else:
            self._graph_batch.fill(batch)
        statistics: torch.Tensor = self._graph()
        return statistics

    def generators(self) -> tuple[torch.Generator, ...]:
        """Where `gradient_step` draws its random numbers from."""
        return ()

    def make_collector(self, stepper: Stepper) -> ReplayCollector:
        return ReplayCollector(
            stepper,
            n_steps=self.h.train_freq,
            generator=self.place.streams.torch("actions", str(self.place.device)),
            reward_normalizer=self.place.reward_normalizer,
            warmup=self.h.learning_starts,
            rng=self.place.streams.numpy("warmup"),
        )

    def credit(self, experience: Transitions, fraction: float) -> int:
        """Put the transitions into the replay buffer and return their number; minibatches have the targets."""
        self.replay.add(experience)
        self.steps += experience.steps
        return experience.steps

    def learn(self, batch: int, fraction: float) -> Metrics:
        """Take the gradient steps that are due after `batch` new transitions."""
        metrics: Metrics = {}
        if self.steps > self.h.learning_starts and self.replay.size > 0:
            if self.kernels is None:
                self.policy.train()
            rounds = batch if self.h.gradient_steps < 0 else self.h.gradient_steps
            try:
                metrics = self.learn_rounds(rounds, fraction)
            except NotFinite as error:
                error.evidence = self.replay.drawn()
                raise
        return metrics

    def learn_rounds(self, rounds: int, fraction: float) -> Metrics:
        """`rounds` gradient steps, each on a new sample; the metrics of the last one."""
        batches = (
            self.replay.sample(self.h.batch_size, self._rng, self.policy, self.place.reward_normalizer)
            for _ in range(rounds)
        )
        return self.learn_from(batches, fraction)

    def tensors(self) -> dict[str, torch.Tensor]:
        replay = {f"replay.{key}": value for key, value in self.replay.tensors().items()}
        return super().tensors() | replay

    def values(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self.replay.load(with_prefix(tensors, "replay"))
        self.steps = int(values["steps"])
        self._graph = None  # what was captured works on memory that was just replaced


def check_replay(config: TrainerConfig, h: OffPolicyHyperparameters) -> None:
    """Raise ConfigError when the buffer cannot hold what one round adds."""
    if h.buffer_size < h.train_freq * config.n_envs:
        raise ConfigError(
            f"buffer_size {h.buffer_size} is smaller than one collection (train_freq * n_envs)",
            key="hyperparams.buffer_size",
            fix=f"at least {h.train_freq * config.n_envs}",
        )


def require_memory(place: LearnerContext, capacity: int) -> None:
    """Raise ConfigError when a buffer of `capacity` transitions is more than this process can ever hold."""
    limit = memory_limit()
    size = 2 * space_bytes(place.observation_space) + space_bytes(place.action_space) + 5  # reward and end
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
