"""Plain multilayer perceptrons, activations by name, and the orthogonal initialisation of PPO and A2C."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from torch import nn

from ludus.errors import ConfigError, UnknownName

HIDDEN_GAIN = sqrt(2.0)
POLICY_HEAD_GAIN = 0.01  # first actions close to uniform, so that early exploration is not biased
VALUE_HEAD_GAIN = 1.0

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "ELU": nn.ELU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "LeakyReLU": nn.LeakyReLU,
}


def activation_class(name: str) -> type[nn.Module]:
    """The activation called `name`, in any case; raises UnknownName."""
    for known, cls in ACTIVATIONS.items():
        if known.lower() == name.lower():
            return cls
    raise UnknownName(
        "activation", name, ACTIVATIONS, where="policy.activation", fix=f"one of {', '.join(ACTIVATIONS)}"
    )


def mlp(in_dim: int, arch: Sequence[int], out_dim: int | None, activation: str) -> nn.Sequential:
    """Linear layers of the widths in `arch`, each followed by the activation, then one to `out_dim` if given.

    With an empty `arch` and no `out_dim` the result is the identity.
    """
    activate = activation_class(activation)
    require_room(in_dim, *arch, *(() if out_dim is None else (out_dim,)))
    layers: list[nn.Module] = []
    width = in_dim
    for next_width in arch:
        layers += [nn.Linear(width, next_width), activate()]
        width = next_width
    if out_dim is not None:
        layers.append(nn.Linear(width, out_dim))
    return nn.Sequential(*layers)


def require_room(*widths: int, times: int = 1) -> None:
    """ConfigError where layers of these widths, one after the other, cannot be trained in this machine's memory."""
    weights = times * sum(one * other for one, other in pairwise(widths))
    # each with its gradient and the two moments of Adam
    if weights * 16 > _memory():
        raise ConfigError(
            f"layers of {', '.join(f'{width:,}' for width in widths)} have {weights:,} weights; to train them takes "
            f"{weights * 16 / 1e9:,.0f} GB; this machine has {_memory() / 1e9:,.0f} GB",
            key="hyperparams.policy_net_arch",
            fix="make hyperparams.policy_net_arch, value_net_arch or policy.features_dim smaller",
        )


def _memory() -> int:
    """Bytes of this machine's memory; where it does not say, more than any has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 1 << 50


def mlp_out_dim(in_dim: int, arch: Sequence[int]) -> int:
    """The width that `mlp(in_dim, arch, None, …)` puts out."""
    return arch[-1] if arch else in_dim


def orthogonal_init(module: nn.Module, gain: float = HIDDEN_GAIN) -> None:
    """Give every linear and convolution layer in `module` orthogonal weights of this gain and zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def init_mlp(net: nn.Sequential, head_gain: float) -> None:
    """Orthogonal weights for an `mlp` with an `out_dim`: hidden gain, and `head_gain` for the last layer."""
    orthogonal_init(net)
    orthogonal_init(net[-1], head_gain)
