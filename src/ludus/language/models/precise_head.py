"""Logits in float32 from bfloat16: rounded logits would be wrong by more than policies differ after an update."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class _PreciseProduct(torch.autograd.Function):
    """hidden [N, D] times weight [V, D] with a float32 result, as matrix units hold it before it is rounded."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return torch.mm(hidden, weight.t(), out_dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        hidden, weight = ctx.saved_tensors
        grad = grads[0].to(weight.dtype)
        of_hidden = grad @ weight if ctx.needs_input_grad[0] else None
        of_weight = grad.t() @ hidden if ctx.needs_input_grad[1] else None
        return of_hidden, of_weight


def logits(hidden: Tensor, weight: Tensor) -> Tensor:
    """hidden [..., D] times weight [V, D]: [..., V] in float32; differentiable."""
    if weight.dtype == torch.float32:
        return F.linear(hidden, weight)
    if weight.device.type != "cuda":
        return F.linear(hidden.float(), weight.float())
    product: Tensor = _PreciseProduct.apply(hidden.flatten(0, -2), weight)  # type: ignore[no-untyped-call]
    return product.view(*hidden.shape[:-1], -1)
