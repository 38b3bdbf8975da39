"""Learners that take every step together: each computes its share of a batch, and their gradients are added up.

All hold the same weights (or each a part of every weight: `sharded`) and see the same experience, so that everything
but the passes through the network is done by each alone, alike. Losses are sums over samples, divided by what the
whole batch counts: the sum of the peers' gradients is then the gradient of one learner that has the whole batch.

The first of them leads: it sends each method call to the others, which run the same method (`on_all_ranks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ludus.errors import LudusError

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

COLLECTING = timedelta(days=7)
"""Time limit for the next order of the first peer: a collection can take long."""

Shard = Callable[[Sequence[nn.Module], nn.Module], None]
"""Leaves this process its part of the weights of a module, gathered submodule by submodule when they are needed."""


class PeerLost(LudusError):
    """A rank was lost during a shared step; the step is discarded."""


class Peers:
    """One learner alone: it has every share, and nothing is sent."""

    rank = 0
    size = 1
    sharded = False
    """Each holds a part of every weight (FSDP2) instead of all weights."""

    @property
    def leads(self) -> bool:
        """Return True if other ranks wait for orders of this one."""
        return False

    def send_call(self, what: str, *arguments: Any) -> None:
        """Have the other ranks call the method `what` too."""

    def share(self, items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
        """Divide `items` among the peers, so that the sums of their `sizes` are about equal."""
        return [list(items)]

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum of the peers' tensors, in place."""
        return tensor

    def mean(self, values: Tensor, n: int) -> Tensor:
        """Return the part of these values, along their last axis, in the mean of all `n`."""
        return values.mean(dim=-1)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Give every peer the sum of their gradients."""

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """The norm of these gradients of all peers together."""
        return nn.utils.get_total_norm(gradients)

    def shard(self, modules: Sequence[nn.Module], root: nn.Module) -> None:
        """Leave each peer its part of the weights of `root`, gathered module by module when they are needed."""


ALONE = Peers()


class DistributedPeers(Peers):
    """Learners in processes that have joined one group of torch.distributed.

    Gradients travel by NCCL between GPUs and by gloo between CPUs; orders by gloo, for they wait long.
    """

    def __init__(self, device: torch.device, *, sharded: bool = False) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = device
        self.sharded = sharded
        self._orders = dist.new_group(backend="gloo", timeout=COLLECTING)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def send_call(self, what: str, *arguments: Any) -> None:
        if self.leads:
            with losing_peers():
                dist.broadcast_object_list([what, arguments], src=0, group=self._orders)

    def receive_call(self) -> tuple[str, tuple[Any, ...]]:
        """Return the next call from the first peer: a method and its arguments. PeerLost if the peer is gone."""
        order: list[Any] = [None, None]
        with losing_peers():
            dist.broadcast_object_list(order, src=0, group=self._orders)
        return order[0], order[1]

    def share(self, items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
        # longest item first, to the peer with the least: all peers compute the same shares without communication
        shares: list[list[T]] = [[] for _ in range(self.size)]
        loads = [0] * self.size
        for index in sorted(range(len(items)), key=lambda i: -sizes[i]):
            least = loads.index(min(loads))
            shares[least].append(items[index])
            loads[least] += sizes[index]
        return shares

    def add_up(self, tensor: Tensor) -> Tensor:
        with losing_peers():
            dist.all_reduce(tensor)
        return tensor

    def mean(self, values: Tensor, n: int) -> Tensor:
        return values.sum(dim=-1) / n

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        whole = [parameter for parameter in parameters if not is_sharded(parameter)]
        if not whole:
            return
        for parameter in whole:
            if parameter.grad is None:  # nothing of this peer's share
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in whole if parameter.grad is not None]
        total = self.add_up(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = torch.split(total, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        if not any(is_sharded(gradient) for gradient in gradients):
            return super().norm(gradients)  # the same for all by now
        parts = torch.stack([local(gradient).float().square().sum() for gradient in gradients])
        return self.add_up(parts.sum()).sqrt()

    def shard(self, modules: Sequence[nn.Module], root: nn.Module) -> None:
        if not self.sharded:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.size,))
        for module in (*modules, root):
            sharded = fully_shard(module, mesh=mesh)
            sharded.set_gradient_divide_factor(1.0)  # losses are shares of the whole: gradients add up
            sharded.set_force_sum_reduction_for_comms(True)


@contextmanager
def losing_peers() -> Iterator[None]:
    """Turn torch's error about a broken connection into PeerLost."""
    try:
        yield
    except RuntimeError as error:  # gloo's own errors have no class of their own
        message = str(error)
        if isinstance(error, dist.DistError) or "gloo" in message or "NCCL" in message:
            raise PeerLost(f"a learner was lost: {message.splitlines()[0]}") from error
        raise


class HasPeers(Protocol):
    peers: Peers


L = TypeVar("L", bound=HasPeers)


def on_all_ranks(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """Decorate a learner's method that all its peers must run at the same time: the first sends it to the others.

    Arguments are positional, and can be pickled.
    """

    @wraps(method)
    def on_every_rank(self: L, /, *arguments: P.args, **named: P.kwargs) -> R:
        if self.peers.size == 1:
            return method(self, *arguments, **named)
        with losing_peers():
            self.peers.send_call(method.__name__, *arguments)
            return method(self, *arguments, **named)

    return on_every_rank


def is_sharded(tensor: Tensor) -> bool:
    """Return True if this process has only a part of `tensor`."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """The part of `tensor` that this process holds, in place: all of it, unless it is sharded."""
    sharded: Any = tensor
    part: Tensor = sharded.to_local() if is_sharded(tensor) else tensor
    return part


def whole(tensor: Tensor) -> Tensor:
    """Return all of `tensor`. If it is sharded, every process must call this."""
    sharded: Any = tensor
    all_of_it: Tensor = sharded.full_tensor() if is_sharded(tensor) else tensor
    return all_of_it


def sharded_like(target: Tensor, source: Tensor) -> Tensor:
    """Return this process's part of the whole `source` if `target` is sharded. Nothing is sent."""
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
    """Return copies on the CPU: sending a view would send its whole storage."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
