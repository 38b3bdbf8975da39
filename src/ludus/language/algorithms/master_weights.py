"""Float32 master weights: what an optimizer steps where a model computes in bfloat16.

A bfloat16 number has 8 significant bits. A step of less than 1 / 512 of a weight is lost there, which is nearly every
step at the learning rates of language models. The masters keep such steps until they add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ludus.algorithms.peers import local, put, whole


class MasterWeights:
    """A float32 parameter for each of `weights`: a master where a weight is stored in less, else the weight itself."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.parameters = [
            weight if weight.dtype == torch.float32 else nn.Parameter(weight.detach().float())
            for weight in weights
        ]
        self._pairs = {
            i: (weight, master)
            for i, (weight, master) in enumerate(zip(weights, self.parameters, strict=True))
            if master is not weight
        }

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of `loss` to those of the parameters, in float32."""
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for weight, master in self._pairs.values():
            if weight.grad is not None:
                gradient = weight.grad.float()
                master.grad = gradient if master.grad is None else master.grad.add_(gradient)
                weight.grad = None

    @torch.no_grad()
    def follow(self) -> None:
        """Copy weights that were changed by other code than `write`: loaded, or trained elsewhere."""
        for weight, master in self._pairs.values():
            local_weight, local_master = local(weight), local(master)
            unchanged = local_master.to(local_weight.dtype) == local_weight
            local_master.copy_(torch.where(unchanged, local_master, local_weight.float()))

    @torch.no_grad()
    def write(self) -> None:
        """Round the masters to the weights."""
        for weight, master in self._pairs.values():
            local(weight).copy_(local(master))

    @torch.no_grad()
    def reset(self) -> None:
        """Copy the current weights."""
        for weight, master in self._pairs.values():
            local(master).copy_(local(weight))

    def tensors(self) -> dict[str, Tensor]:
        """Return the masters by the index of their weight; empty if all weights are float32."""
        return {str(i): whole(master.detach()) for i, (_, master) in self._pairs.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Load the result of `tensors`. A missing master is copied from its weight."""
        self.reset()
        for i, (_, master) in self._pairs.items():
            if str(i) in tensors:
                put(master.detach(), tensors[str(i)])
