"""One gradient step without synchronising with the device, so that a whole update can run ahead of the host.

The decision to continue is kept on the device too, as a `StepGate`: once pulled, optimizers change nothing. Norms of
parameters and of the optimizers' moments, and the search for a weight that is not finite, follow at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ludus.algorithms.backends.numba.memory import NOT_FINITE
from ludus.algorithms.peers import ALONE, Peers, is_sharded, local
from ludus.errors import NotFinite
from ludus.types import Metrics

_FIRST = ("exp_avg", "momentum_buffer")
_SECOND = ("exp_avg_sq", "square_avg")


class StepGate:
    """Flag on the device: once pulled, an update takes no further steps."""

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


class _Uncompiled(torch.optim.Optimizer):
    """An optimizer without torch's guards against its compiler.

    The first guarded call imports the compiler, with 700 modules half of the time in which a short run starts. Ludus
    compiles no optimizer. With kernels the compiler is not imported at all.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


class _Adam(_Uncompiled, torch.optim.Adam):
    pass


class _RMSprop(_Uncompiled, torch.optim.RMSprop):
    pass


def make_adam(parameters: Sequence[nn.Parameter], rate: float, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam, on a GPU in the form that can be captured: one fused kernel, its rate a tensor."""
    device = parameters[0].device
    if device.type == "cpu" or is_sharded(parameters[0]):
        return _Adam(parameters, lr=rate, eps=eps)
    on_device = torch.tensor(rate, device=device)
    return _Adam(parameters, lr=on_device, eps=eps, fused=True, capturable=True)


def make_rmsprop(parameters: Sequence[nn.Parameter], rate: float, eps: float) -> torch.optim.RMSprop:
    """RMSprop (alpha 0.99), on a GPU in the form that can be captured."""
    device = parameters[0].device
    if device.type == "cpu" or is_sharded(parameters[0]):
        return _RMSprop(parameters, lr=rate, alpha=0.99, eps=eps)
    on_device = torch.tensor(rate, device=device)
    return _RMSprop(parameters, lr=on_device, alpha=0.99, eps=eps, capturable=True)


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
    # a fused step does not count as a change of its parameters, but code that keeps copies of them must notice it
    for group in optimizer.param_groups:
        torch.autograd.graph.increment_version(group["params"])


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
