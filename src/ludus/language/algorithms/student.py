"""A student: one trained adapter with its optimizers, value head and number of updates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ludus.algorithms.gradient_step import StepGate, make_adam, set_learning_rate, take_step
from ludus.algorithms.learner import load_optimizer_tensors, optimizer_tensors, with_prefix
from ludus.algorithms.peers import ALONE, Peers
from ludus.language.algorithms.master_weights import MasterWeights
from ludus.language.models.model import LanguageModel


class ValueHead(nn.Module):
    """Predicts a seat's return from the state of the last prompt token. Initially 0 for every state."""

    def __init__(self, width: int, hidden: Sequence[int]) -> None:
        super().__init__()
        sizes = (width, *hidden)
        layers: list[nn.Module] = []
        for size, following in pairwise(sizes):
            layers += [nn.Linear(size, following), nn.Tanh()]
        last = nn.Linear(sizes[-1], 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*layers, last)

    def forward(self, states: Tensor, share: Tensor | None = None) -> Tensor:
        """Return values [turns]; `share` [turns] of each turn's gradient flows into the model, by default nothing."""
        shared = states.detach()
        if share is not None:
            shared = shared + share[:, None] * (states - shared)
        values: Tensor = self.layers(shared).squeeze(-1)
        return values


class Student:
    """One learner by the name of its adapter, with its optimizers. `updates` is its version."""

    def __init__(
        self, name: str, model: LanguageModel, value_net_arch: Sequence[int] | None, device: torch.device
    ) -> None:
        """`value_net_arch` None: no value head."""
        self.name = name
        self.updates = 0
        self.masters = MasterWeights(model.trainable(name))
        self.optimizer = make_adam(self.masters.parameters, 0.0)
        self.head: ValueHead | None = None
        self.value_optimizer: torch.optim.Optimizer | None = None
        if value_net_arch is not None:
            self.head = ValueHead(model.width, value_net_arch).to(device)
            self.value_optimizer = make_adam(list(self.head.parameters()), 0.0)

    def set_rates(self, rate: float, value_rate: float) -> None:
        set_learning_rate(self.optimizer, rate)
        if self.value_optimizer is not None:
            set_learning_rate(self.value_optimizer, value_rate)

    def zero_grad(self) -> None:
        for optimizer in self.optimizers().values():
            optimizer.zero_grad()

    def backward(self, loss: Tensor) -> None:
        """Accumulate the gradients of `loss`."""
        self.masters.backward(loss)

    def step(self, max_norm: float | None, step_gate: StepGate, peers: Peers = ALONE) -> Tensor:
        """Take a step, with each part of the gradients clipped to `max_norm`. Return the adapter's gradient norm.

        If a gradient is not finite, the step gate is closed and no step is taken.
        """
        self.masters.follow()
        parts: list[tuple[torch.optim.Optimizer, list[nn.Parameter]]] = [
            (self.optimizer, self.masters.parameters)
        ]
        if self.head is not None and self.value_optimizer is not None:
            parts.append((self.value_optimizer, list(self.head.parameters())))
        norm = take_step(parts, max_norm, step_gate, peers)
        self.masters.write()
        return norm

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found: dict[str, torch.optim.Optimizer] = {"policy": self.optimizer}
        return found if self.value_optimizer is None else found | {"value": self.value_optimizer}

    def restart(self) -> None:
        """Set the version and reset the optimizers."""
        self.updates += 1
        self.masters.reset()
        for optimizer in self.optimizers().values():
            optimizer.state.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors except the adapter."""
        found = {
            f"{name}.{key}": value
            for name, optimizer in self.optimizers().items()
            for key, value in optimizer_tensors(optimizer)
        }
        found |= {f"master.{key}": value for key, value in self.masters.tensors().items()}
        if self.head is not None:
            found |= {f"head.{key}": value for key, value in self.head.state_dict().items()}
        return found

    def load(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.updates = int(values["updates"])
        self.masters.load(with_prefix(tensors, "master"))
        for name, optimizer in self.optimizers().items():
            load_optimizer_tensors(optimizer, with_prefix(tensors, name))
        if self.head is not None:
            self.head.load_state_dict(with_prefix(tensors, "head"))
