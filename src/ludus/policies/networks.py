"""Plain multilayer perceptrons, activations by name, and the orthogonal initialisation of PPO and A2C.

`try_out` runs any module on a batch: an error about a shape names the layer that it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from ludus.errors import ConfigError, UnknownName
from ludus.posix import physical_memory

HIDDEN_GAIN = sqrt(2.0)
POLICY_HEAD_GAIN = 0.01  # first actions close to uniform, so that early exploration is not biased
VALUE_HEAD_GAIN = 1.0
_MAX_SHOWN = 120

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
    """Raise ConfigError if layers of these widths, one after the other, do not fit into memory for training."""
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
    """Return this machine's memory in bytes; a very large number if unknown."""
    try:
        return physical_memory()
    except (ValueError, OSError):
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


@dataclass(frozen=True)
class TrialOutput:
    """The output, and a description of the layer that returned it ("" if it is not a torch layer)."""

    output: Any
    last_layer: str


class WrongInput(ValueError):
    """A layer got an invalid input. The message names the layer and the shapes."""


def try_out(module: nn.Module, inputs: Any) -> TrialOutput:
    """Run `module` once without gradient. WrongInput when one of torch's own layers refuses its input.

    Batch statistics and random generators are not changed. Other errors pass through.
    """
    watch = _Watch(module)
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            output = module(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        blamed = watch.blamed()
        if blamed is None:
            raise
        raise WrongInput(f"{blamed} ({_first_line(error)})") from error
    finally:
        watch.end()
        module.train(training)
    return TrialOutput(output, watch.last_layer)


class _Watch:
    """Tracks the running submodules with their inputs, and the torch layer that finished last."""

    def __init__(self, module: nn.Module) -> None:
        self.last_layer = ""
        self._running: list[tuple[str, nn.Module, Any]] = []
        self._handles = []
        for name, part in module.named_modules():
            if part is module:
                continue
            self._handles.append(part.register_forward_pre_hook(self._entering(name)))
            self._handles.append(part.register_forward_hook(self._left(name)))

    def blamed(self) -> str | None:
        """The layer that was running, with its input; None when it is not one of torch's."""
        if not self._running:
            return None
        name, layer, inputs = self._running[-1]
        if not type(layer).__module__.startswith("torch.nn") or isinstance(layer, nn.Sequential):
            return None
        return f"layer '{name}' {_described(layer)} expects {_expected(layer)}, got {_shapes(inputs)}"

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _entering(self, name: str) -> Any:
        return lambda layer, inputs: self._running.append((name, layer, inputs))

    def _left(self, name: str) -> Any:
        def left(layer: nn.Module, inputs: Any, output: Any) -> None:
            self._running.pop()
            if not any(layer.children()):
                self.last_layer = f"'{name}' {_described(layer)}"

        return left


def _expected(layer: nn.Module) -> str:
    match layer:
        case nn.Linear():
            return f"(batch, {layer.in_features})"
        case nn.Conv1d():
            return f"(batch, {layer.in_channels}, length)"
        case nn.Conv2d():
            height, width = layer.kernel_size
            return f"(batch, {layer.in_channels}, height >= {height}, width >= {width})"
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            return f"(batch, {layer.num_features}, …)"
        case nn.LayerNorm():
            return f"(batch, {', '.join(map(str, layer.normalized_shape))})"
        case nn.LSTM() | nn.GRU() | nn.RNN():
            return f"(…, {layer.input_size})"
    return "another shape"


def _shapes(inputs: Any) -> str:
    if isinstance(inputs, Tensor):
        return f"{tuple(inputs.shape)} {str(inputs.dtype).removeprefix('torch.')}"
    if isinstance(inputs, dict):
        return "{" + ", ".join(f"{key}: {_shapes(value)}" for key, value in inputs.items()) + "}"
    if isinstance(inputs, tuple | list):
        return ", ".join(map(_shapes, inputs))
    return type(inputs).__name__


def _described(layer: nn.Module) -> str:
    text = " ".join(repr(layer).split())
    return text if len(text) <= _MAX_SHOWN else f"{type(layer).__name__}(…)"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
