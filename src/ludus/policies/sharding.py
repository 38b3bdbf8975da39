"""Weights of which every process holds a part (FSDP2), and the few things that must know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Shard = Callable[[Sequence[nn.Module], nn.Module], None]
"""Leaves this process its part of the weights of a module, gathered submodule by submodule when they are needed."""


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process holds only a part of `tensor`."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """The part of `tensor` that this process holds, in place: all of it, unless it is sharded."""
    sharded: Any = tensor
    part: Tensor = sharded.to_local() if is_sharded(tensor) else tensor
    return part


def whole(tensor: Tensor) -> Tensor:
    """All of `tensor`. Where it is sharded every process has to ask."""
    sharded: Any = tensor
    all_of_it: Tensor = sharded.full_tensor() if is_sharded(tensor) else tensor
    return all_of_it


def sharded_like(target: Tensor, source: Tensor) -> Tensor:
    """Of the whole `source` this process's part, where `target` is sharded. Every process has it: nothing is sent."""
    if not is_sharded(target):
        return source
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = target
    source = source.to(device=sharded.device, dtype=sharded.dtype)
    return distribute_tensor(source, sharded.device_mesh, sharded.placements, src_data_rank=None)


@torch.no_grad()
def put(target: Tensor, source: Tensor) -> None:
    """Copy the whole `source` over `target`, of which this process may hold a part."""
    local(target).copy_(local(sharded_like(target, source)))


def sendable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU: to send a view would send all that it is a view of."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
