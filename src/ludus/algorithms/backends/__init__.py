"""Update backends: how the gradient steps of an algorithm are executed.

An algorithm file states the loss and the loop over minibatches. A backend takes the steps: with torch (`eager`), with
torch recorded as CUDA graphs (`cuda_graph`), or in fused CPU kernels (`numba`). A learner chooses one when it is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch

from ludus.types import Metrics


@dataclass(frozen=True)
class RolloutSamples:
    """A rollout's valid steps, flat, on the learner's device."""

    obs: torch.Tensor | dict[str, torch.Tensor]
    actions: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    masks: torch.Tensor | None

    def __len__(self) -> int:
        return len(self.log_probs)

    def at(self, indices: torch.Tensor) -> RolloutSamples:
        return self.map(lambda tensor: tensor[indices])

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> RolloutSamples:
        """Return the same samples with every tensor changed."""
        obs = self.obs
        return RolloutSamples(
            obs={key: change(value) for key, value in obs.items()} if isinstance(obs, dict) else change(obs),
            actions=change(self.actions),
            log_probs=change(self.log_probs),
            values=change(self.values),
            advantages=change(self.advantages),
            returns=change(self.returns),
            masks=None if self.masks is None else change(self.masks),
        )

    def tensors(self) -> list[torch.Tensor]:
        """Return every tensor, in an order that depends only on which there are."""
        found: list[torch.Tensor] = []
        self.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle copies on the CPU: other ranks have other devices."""
        on_cpu = self.map(lambda tensor: tensor.detach().cpu())
        return RolloutSamples, tuple(getattr(on_cpu, field.name) for field in fields(self))


class RolloutBatch(NamedTuple):
    """A rollout's samples with advantages and returns, and metrics about them."""

    samples: RolloutSamples
    metrics: Metrics
    shuffling: Mapping[str, Any] | None = None
    """With several ranks: the first rank's state of the generator that shuffles minibatches."""


@dataclass(frozen=True)
class UpdateSettings:
    """Hyperparameters of one update of PPO or A2C, as schedules give them; None switches a limit off."""

    learning_rate: float
    ent_coef: float
    vf_coef: float
    max_grad_norm: float | None
    clip_range: float | None = None
    """None: the policy gradient is not clipped, as in A2C."""
    clip_range_vf: float | None = None
    target_kl: float | None = None
    normalize_advantage: bool = False


class Minibatches(NamedTuple):
    """Samples in an order, cut into pieces of `size`. An `order` of None: all of them as they are, as one piece."""

    order: Any
    size: int


class OnPolicyBackend(ABC):
    """Takes the gradient steps of PPO and A2C. One update is `begin`, `take_steps` per epoch, `finish`."""

    @abstractmethod
    def begin(self, samples: RolloutSamples, settings: UpdateSettings) -> None:
        """Start an update on `samples`."""

    @abstractmethod
    def shuffle(self, batch_size: int) -> Minibatches:
        """Return the samples in a new random order."""

    @abstractmethod
    def take_steps(self, minibatches: Minibatches) -> None:
        """Take one gradient step per minibatch, until `stopped`."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Return True if the policy has passed the KL limit: no further step is taken in this update."""

    @abstractmethod
    def finish(self) -> Metrics:
        """Return the mean metrics of the update's gradient steps. NotFinite when a loss or a gradient was not."""

    def rebind(self) -> None:
        """Adapt to weights and optimizer state that were loaded into other memory."""


class ReplayBackend(ABC):
    """Takes the gradient steps of DQN and SAC."""

    @abstractmethod
    def take_steps(self, n: int, fraction: float) -> Metrics:
        """Take `n` gradient steps, each on a minibatch drawn from the replay buffer; the metrics of the last one.

        `fraction` of the run is done. NotFinite when a loss or a gradient is not finite.
        """

    def rebind(self) -> None:
        """Adapt to weights and optimizer state that were loaded into other memory."""
