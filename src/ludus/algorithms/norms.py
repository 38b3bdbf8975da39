"""Norms of parameters and of the optimizer's moments: one number each, for a row of metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import torch

from ludus.algorithms.peers import is_sharded, local
from ludus.types import Metrics

_FIRST = ("exp_avg", "momentum_buffer")
_SECOND = ("exp_avg_sq", "square_avg")


@runtime_checkable
class HasParameters(Protocol):
    """A policy that names its parameters."""

    def named_parameters(self) -> Iterable[tuple[str, torch.nn.Parameter]]: ...


def optimizer_norms(optimizers: Iterable[torch.optim.Optimizer]) -> Metrics:
    """L2 norms over all that `optimizers` train: of the parameters, of first moments, and the root of second ones.

    The root of the second moments is what a gradient's norm has been of late. An optimizer that keeps no such
    moment has no such norm, nor have weights of which this process holds a part. Nothing is changed, and only
    finished sums leave the device.
    """
    parameters: list[torch.Tensor] = []
    first: list[torch.Tensor] = []
    second: list[torch.Tensor] = []
    for optimizer in optimizers:
        # by parameter: the state itself is in another order after a resume, and sums depend on it
        for parameter in (one for group in optimizer.param_groups for one in group["params"]):
            if is_sharded(parameter):
                continue
            parameters.append(parameter.detach())
            state = optimizer.state.get(parameter, {})
            first += (state[name] for name in _FIRST if isinstance(state.get(name), torch.Tensor))
            second += (state[name] for name in _SECOND if isinstance(state.get(name), torch.Tensor))
    found: Metrics = {}
    if parameters:
        found["train/param_norm"] = _norm(parameters, 2).item()
    if first:
        found["train/moment_norm"] = _norm(first, 2).item()
    if second:
        found["train/second_moment_norm"] = _norm(second, 1).sqrt().item()
    return found


@torch.no_grad()
def first_bad_weight(
    policy: Any, optimizers: Iterable[torch.optim.Optimizer], gradients: bool = False
) -> str:
    """The first weight, or number an optimizer keeps of one, that is not finite, in words; empty where all are.

    `gradients` looks at those at hand as well.
    """
    named = policy.named_parameters() if isinstance(policy, HasParameters) else ()
    names = {id(parameter): name for name, parameter in named}
    kept: list[tuple[str, torch.Tensor]] = []
    for optimizer in optimizers:
        for parameter in (one for group in optimizer.param_groups for one in group["params"]):
            name = names.get(id(parameter), "a weight")
            kept.append((name, parameter.detach()))
            kept += [
                (f"{key} of {name}", value)
                for key, value in optimizer.state.get(parameter, {}).items()
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim()
            ]
            if gradients and parameter.grad is not None:
                kept.append((f"the gradient of {name}", parameter.grad))
    kept = [(name, local(tensor)) for name, tensor in kept if tensor.numel()]
    if not kept or bool(torch.isfinite(_norm([tensor for _, tensor in kept], 2))):
        return ""
    for name, tensor in kept:
        bad = ~torch.isfinite(tensor)
        if bool(bad.any()):
            index = bad.nonzero()[0].tolist()
            return f"{name}{index} = {float(tensor[tuple(index)])!r}"
    return ""  # large, but finite


@torch.no_grad()
def _norm(tensors: list[torch.Tensor], order: int) -> torch.Tensor:
    """The norm of all `tensors` taken together. Second moments are never negative: their sum is their 1-norm."""
    norms = torch.stack(list(torch._foreach_norm(tensors, order))).float()
    return torch.linalg.vector_norm(norms, order)  # type: ignore[no-any-return]
