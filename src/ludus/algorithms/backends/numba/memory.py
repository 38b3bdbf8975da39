"""Torch parameters, and the moments of their optimizer, as one flat array each: the memory kernels work on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ludus.algorithms.backends.numba.core import ELU, RELU, TANH
from ludus.algorithms.backends.numba.inputs import uncovered_features
from ludus.errors import NotFinite
from ludus.policies.base import Policy
from ludus.policies.observations import ObservationNormalizer, RewardNormalizer
from ludus.types import Array

ACTIVATIONS: dict[type[nn.Module], int] = {nn.Tanh: TANH, nn.ReLU: RELU, nn.ELU: ELU}


class FlatMemory:
    """Moves `parameters` into one array, in the order given, and what Adam or RMSprop keeps of them into two more.

    The torch tensors become views of the arrays, so both sides always see the same numbers.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer | None) -> None:
        self._ordered = list(parameters)
        self._optimizer = optimizer
        self._moments = (
            ("square_avg",) if isinstance(optimizer, torch.optim.RMSprop) else ("exp_avg_sq", "exp_avg")
        )
        size = sum(parameter.numel() for parameter in self._ordered)
        self.parameters = np.zeros(size, dtype=np.float32)
        self.gradients = np.zeros(size, dtype=np.float32)
        self.second = np.zeros(size, dtype=np.float32)
        self.first = np.zeros(size, dtype=np.float32)
        self.step = 0
        self._steps = np.zeros((), dtype=np.float32)
        self._counter = torch.from_numpy(self._steps)  # one for all parameters: they are stepped together
        self.bind()

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Parameters, gradients, first and second moments, as the kernels take them."""
        return self.parameters, self.gradients, self.first, self.second

    def bind(self) -> None:
        """Take over the torch tensors as they are now; again after somebody replaced them."""
        place = 0
        for parameter in self._ordered:
            stretch = slice(place, place + parameter.numel())
            place += parameter.numel()
            view = torch.from_numpy(self.parameters[stretch]).view(parameter.shape)
            view.copy_(parameter.data)
            parameter.data = view
            if self._optimizer is not None:
                self._bind_moments(self._optimizer.state[parameter], stretch, parameter.shape)

    def _bind_moments(self, state: Any, stretch: slice, shape: torch.Size) -> None:
        for name, flat in zip(self._moments, (self.second, self.first), strict=False):
            moment = torch.from_numpy(flat[stretch]).view(shape)
            if name in state:
                moment.copy_(state[name])
            else:
                moment.zero_()
            state[name] = moment
        self.step = int(state["step"]) if "step" in state else 0
        self._steps[...] = self.step
        state["step"] = self._counter

    def advance(self, steps: int, grad_norm: float) -> None:
        """Count optimizer steps that a kernel took. NotFinite if it stopped at a gradient that is not finite."""
        self.step += steps
        self._steps[...] = self.step
        if not math.isfinite(grad_norm):
            raise NotFinite(NOT_FINITE)


NOT_FINITE = (
    "a loss or a gradient is not finite (NaN or infinite); the optimizer was not stepped\n"
    "  where: the learner's update\n"
    "  fix:   lower hyperparams.learning_rate, or look for extreme observations or rewards in the env"
)


def linear_layers(net: nn.Module | None) -> list[nn.Linear]:
    """The linear layers of a plain MLP, in order."""
    return [layer for layer in (net.children() if net is not None else ()) if isinstance(layer, nn.Linear)]


def uncovered_input(policy: Policy, *extractors: nn.Module | None) -> str | None:
    """Return a device, observation space or feature extractor that the kernels do not support, or None."""
    if policy.device.type != "cpu":
        return f"the policy is on {policy.device}"
    for extractor in extractors:
        if extractor is not None:
            uncovered = uncovered_features(policy.observation_space, extractor)
            if uncovered is not None:
                return uncovered
    return None


def uncovered_layer(net: nn.Module | None) -> str | None:
    """The name of a layer that the kernels have no code for, or None."""
    for layer in net.children() if net is not None else ():
        if not isinstance(layer, nn.Linear) and type(layer) not in ACTIVATIONS:
            return f"the activation {type(layer).__name__}"
    return None


def activation_kind(net: nn.Module) -> int:
    """The kernels' code for the activation of a plain MLP."""
    kinds = [ACTIVATIONS[type(layer)] for layer in net.children() if not isinstance(layer, nn.Linear)]
    return kinds[0] if kinds else TANH


def reward_scale(normalizer: RewardNormalizer | None) -> tuple[float, float]:
    """Return the factor for sampled rewards and the limit they are clipped to (0: not clipped)."""
    if normalizer is None:
        return 1.0, 0.0
    return 1.0 / float(np.sqrt(float(normalizer.moments.var) + normalizer.epsilon)), normalizer.clip


def running_scale(normalizer: ObservationNormalizer | None) -> tuple[Array, Array]:
    """Mean and one over the standard deviation of observations; empty when they are not normalised."""
    if normalizer is None or not normalizer.keys:
        return np.zeros(0), np.zeros(0)
    moments: Any = normalizer.moments["obs"]
    return moments.mean.numpy().reshape(-1), 1.0 / np.sqrt(moments.var.numpy() + normalizer.epsilon).reshape(
        -1
    )
