"""A module tried out on a batch, watching its layers: a shape that does not fit is blamed on the layer it is at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_MOST_SHOWN = 120


@dataclass(frozen=True)
class TrialOutput:
    """What came out, and in words the layer it came from ("" when it came from no layer)."""

    output: Any
    last_layer: str


class WrongInput(ValueError):
    """A layer was given what it cannot take. The text says which, what it is, and the shapes."""


def try_out(module: nn.Module, inputs: Any) -> TrialOutput:
    """Run `module` once without gradient. WrongInput when one of torch's own layers refuses its input.

    Batch statistics and random numbers are left alone. Other errors pass through.
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
    """Knows which submodules are being run, with what, and which of torch's layers finished last."""

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
    return text if len(text) <= _MOST_SHOWN else f"{type(layer).__name__}(…)"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
