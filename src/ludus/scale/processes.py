"""Processes of shards and learners on Ray. They answer before they import torch, to show that Ray has resources."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from ludus.config.own_modules import adopt
from ludus.envs.vector.wire import pack
from ludus.errors import LudusError

if TYPE_CHECKING:
    from ludus.config.sections import ScaleConfig
    from ludus.scale.shard import Shard, ShardPlan

RESOURCE_SECONDS = 60.0
"""Time limit for resources of the cluster at the start: it may have to start machines."""
RESOURCE_SECONDS_AFTER_LOSS = 6.0
"""The same limit after the loss of a process, while the run waits."""


class RemoteError:
    """A LudusError that is sent to the driver, which raises it."""

    def __init__(self, error: LudusError) -> None:
        self.packed = pack(error)


class _Process:
    """Base of the processes. `trust` is the result of the driver's `own_modules.exported`, or empty."""

    def __init__(self, trust: str = "") -> None:
        if trust:
            adopt(trust)

    def location(self) -> str:
        """Return the machine and the id of this process."""
        return f"{socket.gethostname()}, process {os.getpid()}"


class ShardProcess(_Process):
    """A process that builds a shard on request and runs its methods."""

    shard: Shard | None = None

    def build(self, plan: ShardPlan) -> Any:
        from ludus.scale.shard import Shard

        if plan.niceness and hasattr(os, "nice"):
            os.nice(plan.niceness)
        try:
            self.shard = Shard(plan)
        except LudusError as error:
            return RemoteError(error)
        return None

    def ask(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.shard, method)(*args)
        except LudusError as error:
            return RemoteError(error)


class LearnerProcess(_Process):
    """A learner other than the first. It joins the group and repeats each step of the first."""

    def prepare(self) -> None:
        """Import what `follow` needs. A process that dies here has joined no group, so no peer waits for it."""
        import ludus.scale.learners  # noqa: F401

    def follow(self, address: str, rank: int, size: int, kind: str, scale: ScaleConfig) -> None:
        from ludus.scale.learners import follow_on_ray

        follow_on_ray(address, rank, size, kind, scale)
