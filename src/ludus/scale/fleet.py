"""Shards as Ray actors: where they are placed, how they are asked, and what it looks like when one is lost.

Arguments and results go through Ray's object store: an array is written there once, by whoever made it, and read in
place by every process of a node. A published version reaches each node once, however many shards play there.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

from ludus.envs.vector.wire import pack_error, unpack_error
from ludus.errors import LudusError, UserError
from ludus.scale.cluster import RaySession, import_ray
from ludus.scale.shard import Shard, ShardPlan

_log = logging.getLogger("ludus.scale")
_ROOM_SECONDS = 60.0  # for a cluster to make room at the start; it may have to start machines
_ROOM_SECONDS_AGAIN = 8.0  # after a loss, when the run waits
_CLOSE_SECONDS = 3.0  # for envs to close of their own accord


class ShardLost(Exception):
    """The process of a shard, or its machine, is gone; says how."""


class _Fault:
    """A LudusError on its way to the driver: its constructor need not take what pickle would give it."""

    def __init__(self, error: LudusError) -> None:
        self.packed = pack_error(error)


class _Actor:
    """The process around a shard."""

    def __init__(self) -> None:
        self.shard: Shard | None = None

    def place(self) -> str:
        """The machine and process this is."""
        return f"{socket.gethostname()}, process {os.getpid()}"

    def build(self, plan: ShardPlan) -> Any:
        try:
            self.shard = Shard(plan)
        except LudusError as error:
            return _Fault(error)
        return None

    def ask(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.shard, method)(*args)
        except LudusError as error:
            return _Fault(error)


class Fleet:
    """The shards of a run. `plans` says what they are, `cpus` what Ray sets aside for each."""

    def __init__(self, plans: Sequence[ShardPlan], session: RaySession, cpus: float) -> None:
        self._ray = import_ray()
        self._session = session
        self._plans = [self._ray.put(plan) for plan in plans]
        self._cpus = cpus
        self._actors: list[Any] = [None] * len(plans)
        self._places: list[str] = [""] * len(plans)
        try:
            self._hire(range(len(plans)), _ROOM_SECONDS)
        except ShardLost as lost:  # shards that never played are not worth another try
            self.close()
            raise UserError(str(lost), where="scale", fix="check the logs of Ray on that machine") from lost
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._plans)

    def publish(self, thing: Any) -> Any:
        """Put `thing` where every shard can read it; what this returns can stand in its place as an argument."""
        return self._ray.put(thing)

    def ask(self, index: int, method: str, *args: Any) -> Any:
        """Have shard `index` call a method; returns a ticket for `wait` and `answer`."""
        return self._actors[index].ask.remote(method, *args)

    def wait(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """The tickets that have an answer, waiting up to `seconds` for the first."""
        ready, _ = self._ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(list(tickets), num_returns=1, timeout=seconds)
        return list(ready)

    def answer(self, index: int, ticket: Any) -> Any:
        """The answer of shard `index`. ShardLost when it died over it; else raises what the shard raised."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(ticket)
        except errors.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError) as error:
            raise ShardLost(f"collector {index} ({self._places[index]}) was lost: {_cause(error)}") from error
        if isinstance(answer, _Fault):
            raise unpack_error(answer.packed)
        return answer

    def replace(self, index: int) -> None:
        """A new process for shard `index`, wherever there is room. ShardLost when it is lost before it is built."""
        self._let_go(index)
        self._hire([index], _ROOM_SECONDS_AGAIN)

    def place(self, index: int) -> str:
        """The machine and process that shard `index` is in."""
        return self._places[index]

    def close(self) -> None:
        """End all shards, and the connection to Ray with them."""
        if self._ray.is_initialized():
            closing = [actor.ask.remote("close") for actor in self._actors if actor is not None]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
            for index in range(len(self._plans)):
                self._let_go(index)
        self._session.close()

    def _hire(self, indices: Sequence[int], seconds: float) -> None:
        """Processes for shards, and the shards in them; where no machine has room in time, they share its CPUs."""
        placed = {index: self._start(index, self._cpus) for index in indices}
        ready, _ = self._ray.wait(list(placed.values()), num_returns=len(placed), timeout=seconds)
        for index, ticket in placed.items():
            if ticket not in ready:
                _log.warning("no free CPU for collector %d: it shares those of others", index)
                self._let_go(index)
                placed[index] = self._start(index, 0)
        built = {}
        for index, ticket in placed.items():
            self._places[index] = self.answer(index, ticket)
            built[index] = self._actors[index].build.remote(self._plans[index])
        for index, ticket in built.items():
            self.answer(index, ticket)

    def _start(self, index: int, cpus: float) -> Any:
        # a lost shard is rebuilt by whoever knows what it had played, not by Ray
        actor = self._ray.remote(_Actor).options(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._actors[index] = actor.remote()
        return self._actors[index].place.remote()

    def _let_go(self, index: int) -> None:
        actor, self._actors[index] = self._actors[index], None
        if actor is not None:
            self._ray.kill(actor)


def _cause(error: BaseException) -> str:
    """Ray's explanation in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:400] or type(error).__name__
