"""The batch of PPO and A2C: a rollout as flat tensors with advantages and returns."""

from __future__ import annotations

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
    """Where several ranks learn: the first rank's state of the generator that minibatches are drawn from."""
