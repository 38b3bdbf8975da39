"""Processes of shards and learners on Ray: they answer before torch is imported, so room for them shows at once."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from ludus.envs.vector.wire import pack_error
from ludus.errors import LudusError

if TYPE_CHECKING:
    from ludus.config.sections import ScaleConfig
    from ludus.scale.shard import Shard, ShardPlan

ROOM_SECONDS = 60.0
"""For a cluster to make room at the start: it may have to start machines."""
ROOM_SECONDS_AGAIN = 6.0
"""The same after a loss, when a run may wait for it."""


class Fault:
    """A LudusError on its way to the driver: its constructor need not take what pickle would give it."""

    def __init__(self, error: LudusError) -> None:
        self.packed = pack_error(error)


class _Process:
    """Says where it is."""

    def place(self) -> str:
        """The machine and process this is."""
        return f"{socket.gethostname()}, process {os.getpid()}"


class ShardProcess(_Process):
    """Builds a shard when it is told to, and does what it is asked."""

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
        """Import what `follow` needs; whoever is lost over that has joined nobody who would wait for it."""
        import ludus.scale.learners  # noqa: F401

    def follow(self, address: str, rank: int, size: int, kind: str, scale: ScaleConfig) -> None:
        from ludus.scale.learners import follow_on_ray

        follow_on_ray(address, rank, size, kind, scale)
