"""One gradient step without ever asking the device for a number, so that a whole update can run ahead of the host.

Whether to go on is itself kept on the device, as a `StepGate`: once pulled, optimizers leave everything as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ludus.algorithms.backends.numba.memory import NOT_FINITE
from ludus.algorithms.peers import ALONE, Peers, is_sharded, local
from ludus.errors import NotFinite


class StepGate:
    """Whether the steps of an update are still taken."""

    def __init__(self, device: torch.device) -> None:
        self.pulled = torch.zeros((), device=device)  # 0 or 1: what fused optimizers call `found_inf`
        self.fault = torch.zeros((), device=device)

    def release(self) -> None:
        """Begin an update."""
        self.pulled.zero_()
        self.fault.zero_()

    def pull_if(self, condition: Tensor, fault: bool = False) -> None:
        """Take no further step if `condition`; a `fault` is one that `check` reports."""
        torch.maximum(self.pulled, condition, out=self.pulled)
        if fault:
            torch.maximum(self.fault, condition, out=self.fault)

    def check(self) -> None:
        """NotFinite when a loss or a gradient was not finite since `release`. Waits for the device."""
        if self.fault.item():
            raise NotFinite(NOT_FINITE)


def make_adam(parameters: Sequence[nn.Parameter], rate: float, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam, on a GPU in the form that can be captured: one fused kernel, its rate a tensor."""
    device = parameters[0].device
    if device.type == "cpu" or is_sharded(parameters[0]):
        return torch.optim.Adam(parameters, lr=rate, eps=eps)
    on_device = torch.tensor(rate, device=device)
    return torch.optim.Adam(parameters, lr=on_device, eps=eps, fused=True, capturable=True)


def make_rmsprop(parameters: Sequence[nn.Parameter], rate: float, eps: float) -> torch.optim.RMSprop:
    """RMSprop (alpha 0.99), on a GPU in the form that can be captured."""
    device = parameters[0].device
    if device.type == "cpu" or is_sharded(parameters[0]):
        return torch.optim.RMSprop(parameters, lr=rate, alpha=0.99, eps=eps)
    on_device = torch.tensor(rate, device=device)
    return torch.optim.RMSprop(parameters, lr=on_device, alpha=0.99, eps=eps, capturable=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # a captured step reads this very tensor
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def descend(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    loss: Tensor,
    max_norm: Tensor | float | None,
    step_gate: StepGate,
    peers: Peers = ALONE,
) -> Tensor:
    """Clip the gradient of `loss` to `max_norm` (None: no limit) and step. Returns the norm before clipping.

    A loss or a gradient that is not finite pulls the step_gate, and nothing is stepped while that is pulled. `peers`
    step by the sum of their gradients.
    """
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return take_step([(optimizer, parameters)], max_norm, step_gate, peers, loss.detach())


def take_step(
    parts: Sequence[tuple[torch.optim.Optimizer, Sequence[nn.Parameter]]],
    max_norm: Tensor | float | None,
    step_gate: StepGate,
    peers: Peers = ALONE,
    loss: Tensor | None = None,
) -> Tensor:
    """Step every optimizer by the gradients its parameters hold, clipped to `max_norm` each, as `descend` does.

    Returns the norm of the first. A gradient that is not finite keeps all of them from stepping, and so does a `loss`,
    whose gradient may be finite all the same.
    """
    on_cpu = step_gate.pulled.device.type == "cpu"
    norms, held = [], []
    peers.add_gradients([parameter for _, parameters in parts for parameter in parameters])
    for _, parameters in parts:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = peers.norm(gradients) if gradients else torch.zeros_like(step_gate.pulled)
        seen = norm if loss is None else norm + loss
        step_gate.pull_if(seen - seen != 0, fault=True)  # true of NaN and infinity only
        norms.append(norm)
        held.append(gradients)
    if on_cpu and step_gate.pulled.item():
        return norms[0]
    for (optimizer, _), gradients, norm in zip(parts, held, norms, strict=True):
        divisor = None if max_norm is None else ((norm + 1e-6) / max_norm).clamp(min=1.0)
        if optimizer.defaults.get("fused"):
            _step_fused(optimizer, divisor, step_gate.pulled)
            continue
        for gradient in map(local, gradients):
            if divisor is not None:
                gradient.div_(divisor)
            if not on_cpu:
                gradient.masked_fill_(step_gate.pulled > 0, 0.0)
        optimizer.step()
    return norms[0]


def _step_fused(optimizer: Any, divisor: Tensor | None, skip: Tensor) -> None:
    """Step a fused optimizer as `torch.amp.GradScaler` does: gradients over `divisor`, nothing where `skip` is 1."""
    optimizer.grad_scale, optimizer.found_inf = divisor, skip
    optimizer.step()
    del optimizer.grad_scale, optimizer.found_inf
    # a fused step does not count as a change of its parameters, and whoever keeps copies of them must know of it
    for group in optimizer.param_groups:
        torch.autograd.graph.increment_version(group["params"])
