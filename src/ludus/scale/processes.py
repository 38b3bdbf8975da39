"""Processes of shards and learners on Ray. They answer before torch is imported: free resources show at once."""

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

ROOM_SECONDS = 60.0
"""For a cluster to make room at the start: it may have to start machines."""
ROOM_SECONDS_AGAIN = 6.0
"""The same after a loss, when a run may wait for it."""


class Fault:
    """A LudusError on its way to the driver, which raises it there."""

    def __init__(self, error: LudusError) -> None:
        self.packed = pack(error)


class _Process:
    """Base of the processes. `policy` is the driver's `exported` trust settings for imports."""

    def __init__(self, policy: str = "") -> None:
        if policy:
            adopt(policy)

    def place(self) -> str:
        """Return the machine and the id of this process."""
        return f"{socket.gethostname()}, process {os.getpid()}"


class ShardProcess(_Process):
    """Builds a shard on request, and runs its methods."""

    shard: Shard | None = None

    def build(self, plan: ShardPlan) -> Any:
        from ludus.scale.shard import Shard

        if plan.niceness and hasattr(os, "nice"):
            os.nice(plan.niceness)
        try:
            self.shard = Shard(plan)
        except LudusError as error:
            return Fault(error)
        return None

    def ask(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.shard, method)(*args)
        except LudusError as error:
            return Fault(error)


class LearnerProcess(_Process):
    """A learner after the first: joins the others, and does what the first does."""

    def prepare(self) -> None:
        """Import what `follow` needs. A process that dies here has joined no group, so no peer waits for it."""
        import ludus.scale.learners  # noqa: F401

    def follow(self, address: str, rank: int, size: int, kind: str, scale: ScaleConfig) -> None:
        from ludus.scale.learners import follow_on_ray

        follow_on_ray(address, rank, size, kind, scale)
