"""Action distributions whose every draw comes from an explicit generator, and the head that makes them.

Written in plain tensor operations: `torch.distributions` validates and expands its arguments on every call,
which costs more than the arithmetic at the sizes of a policy. Tests compare the results with it.

Actions are those of the network: 0-based int64 indices (Discrete, MultiDiscrete), float32 zeros and ones
(MultiBinary), float32 vectors (Box). `ActionHead.to_env` converts them to actions of the env's space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import log, pi
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ludus.errors import ConfigError
from ludus.policies.networks import POLICY_HEAD_GAIN, orthogonal_init, require_room
from ludus.types import Array

HALF_LOG_2PI = 0.5 * log(2.0 * pi)
SMALLEST_UNIFORM = torch.finfo(torch.float32).tiny  # log(0) would let an illegal action win the draw


class Distribution(ABC):
    """A batch of B independent action distributions."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One action per row, without gradient. None draws from torch's global generator."""

    @abstractmethod
    def mode(self) -> Tensor:
        """The most likely action per row."""

    @abstractmethod
    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probability (or log-density) of one action per row: [B]."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy in nats per row: [B]."""


class Categorical(Distribution):
    """One choice among n. `mask` [B, n] is True where an action is legal; a row without any is uniform."""

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            # Half the lowest float stays finite when the normaliser is subtracted: 0 * log 0 is 0, not nan.
            logits = torch.where(mask, logits, torch.finfo(logits.dtype).min / 2)
        self.log_probs = F.log_softmax(logits, dim=-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        scores = self.log_probs.detach()
        uniform = torch.rand(scores.shape, generator=generator, device=scores.device)
        gumbel = uniform.clamp_(min=SMALLEST_UNIFORM).log_().neg_().log_().neg_()
        return (scores + gumbel).argmax(dim=-1)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)


class MultiCategorical(Distribution):
    """Independent choices, the i-th among nvec[i]: logits and mask [B, sum(nvec)], actions [B, len(nvec)]."""

    def __init__(self, logits: Tensor, nvec: Sequence[int], mask: Tensor | None = None) -> None:
        sizes = list(nvec)
        masks = [None] * len(sizes) if mask is None else torch.split(mask, sizes, dim=-1)
        self.parts = [
            Categorical(part, part_mask)
            for part, part_mask in zip(torch.split(logits, sizes, dim=-1), masks, strict=True)
        ]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return torch.stack([part.sample(generator) for part in self.parts], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        each = [part.log_prob(chosen) for part, chosen in zip(self.parts, actions.unbind(-1), strict=True)]
        return torch.stack(each).sum(dim=0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(dim=0)


class Bernoulli(Distribution):
    """n independent bits: logits and actions [B, n]."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        chances = torch.sigmoid(self.logits.detach())
        uniform = torch.rand(chances.shape, generator=generator, device=chances.device)
        return (uniform < chances).float()

    def mode(self) -> Tensor:
        return (self.logits > 0).float()

    def log_prob(self, actions: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(
            self.logits, actions.to(self.logits.dtype), reduction="none"
        ).sum(dim=-1)

    def entropy(self) -> Tensor:
        # Cross-entropy with itself: softplus(x) - x * sigmoid(x).
        return (F.softplus(self.logits) - self.logits * torch.sigmoid(self.logits)).sum(dim=-1)


class DiagGaussian(Distribution):
    """Independent normals, unbounded; `log_std` [n] or [B, n] broadcasts against `mean` [B, n]."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        mean = self.mean.detach()
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return mean + self.log_std.detach().exp() * noise

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return -0.5 * (z * z).sum(dim=-1) - self._log_scale

    @cached_property
    def _log_scale(self) -> Tensor:
        # computed once for density and entropy: kernel launches dominate on a GPU
        return (self.log_std + HALF_LOG_2PI).sum(dim=-1)

    def entropy(self) -> Tensor:
        return (self._log_scale + 0.5 * self.mean.shape[-1]).expand(self.mean.shape[:-1])


class SquashedGaussian(Distribution):
    """tanh of independent normals: actions in [-1, 1]. Its entropy has no closed form."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.gaussian = DiagGaussian(mean, log_std)

    def rsample_with_log_prob(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """An action that gradients flow through, and its log-density, exact even where the tanh saturates."""
        mean, log_std = self.gaussian.mean, self.gaussian.log_std
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        raw = mean + log_std.exp() * noise
        log_prob = (-0.5 * noise * noise - log_std - HALF_LOG_2PI - log_tanh_slope(raw)).sum(dim=-1)
        return torch.tanh(raw), log_prob

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return torch.tanh(self.gaussian.sample(generator))

    def mode(self) -> Tensor:
        """Return tanh of the mean, which is the median: the deterministic action of SAC."""
        return torch.tanh(self.gaussian.mean)

    def log_prob(self, actions: Tensor) -> Tensor:
        edge = 1.0 - torch.finfo(actions.dtype).eps
        raw = torch.atanh(actions.clamp(-edge, edge))
        return self.gaussian.log_prob(raw) - log_tanh_slope(raw).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Raises NotImplementedError: estimate it as minus the log-density of a sample."""
        raise NotImplementedError("a squashed Gaussian has no closed-form entropy; use rsample_with_log_prob")


def log_tanh_slope(raw: Tensor) -> Tensor:
    """log(1 - tanh(raw)^2), in a form that does not round to log(0) for large |raw|."""
    return 2.0 * (log(2.0) - raw - F.softplus(-2.0 * raw))


class ActionHead(nn.Module):
    """The last layer of a policy: features [B, in_dim] to a Distribution over `action_space`.

    `action_shape` and `action_dtype` describe one action of the network, for buffers. Raises
    ConfigError for a space that is not Discrete, MultiDiscrete, MultiBinary or Box.
    """

    action_shape: tuple[int, ...]
    action_dtype: torch.dtype

    def __init__(
        self, action_space: gym.Space[Any], in_dim: int, *, log_std_init: float = 0.0, ortho_init: bool = True
    ) -> None:
        super().__init__()
        self.action_space = action_space
        self.nvec: list[int] = []
        match action_space:
            case gym.spaces.Discrete():
                outputs, self.action_shape, self.action_dtype = int(action_space.n), (), torch.int64
            case gym.spaces.MultiDiscrete():
                self.nvec = [int(n) for n in action_space.nvec.flat]
                outputs, self.action_shape, self.action_dtype = sum(self.nvec), (len(self.nvec),), torch.int64
            case gym.spaces.MultiBinary() | gym.spaces.Box():
                outputs = int(np.prod(action_space.shape))
                self.action_shape, self.action_dtype = (outputs,), torch.float32
            case _:
                raise ConfigError(
                    f"no policy can act in the action space {action_space}",
                    where="the env's action space",
                    fix="wrap the env so that its actions are Discrete, MultiDiscrete, MultiBinary or Box",
                )
        require_room(in_dim, outputs)
        self.linear = nn.Linear(in_dim, outputs)
        if ortho_init:
            orthogonal_init(self.linear, POLICY_HEAD_GAIN)
        if isinstance(action_space, gym.spaces.Box):
            self.log_std = nn.Parameter(torch.full((outputs,), float(log_std_init)))

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Distribution:
        """`mask` is [B, n] (Discrete) or [B, sum(nvec)] (MultiDiscrete); ConfigError for other spaces."""
        outputs = self.linear(features)
        if isinstance(self.action_space, gym.spaces.Discrete):
            return Categorical(outputs, mask)
        if isinstance(self.action_space, gym.spaces.MultiDiscrete):
            return MultiCategorical(outputs, self.nvec, mask)
        refuse_mask(mask, self.action_space)
        if isinstance(self.action_space, gym.spaces.MultiBinary):
            return Bernoulli(outputs)
        return DiagGaussian(outputs, self.log_std)

    def to_env(self, actions: Array) -> Array:
        """A batch of the network's actions as the env takes them: start added or clipped to bounds, cast."""
        space = self.action_space
        actions = actions.reshape(len(actions), *(space.shape or ()))
        if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            actions = actions + space.start
        if isinstance(space, gym.spaces.Box):
            return to_box(actions, space)
        return actions.astype(space.dtype)


def to_box(actions: Array, space: gym.spaces.Box) -> Array:
    """Actions [B, *space.shape] clipped to the bounds, in the space's dtype (integers by rounding)."""
    clipped: Array = np.clip(actions, space.low, space.high)
    if np.issubdtype(space.dtype, np.integer):
        clipped = np.rint(clipped)
    return clipped.astype(space.dtype)


def refuse_mask(mask: Tensor | None, space: gym.Space[Any]) -> None:
    """Raise ConfigError if a mask is given for a space whose actions cannot be masked."""
    if mask is not None:
        raise ConfigError(
            f"an action mask was given for {space}, whose actions cannot be masked",
            where="the env's action masks",
            fix="masks need a Discrete or MultiDiscrete action space; remove action_masks from the env",
        )
