"""Shards as Ray actors: placement, requests and answers, and detection of lost shards.

Arguments and results go through Ray's object store: an array is written there once, by its producer, and read in
place by every process of a node. A published version reaches each node once, however many shards play there.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ludus.config.own_modules import exported
from ludus.envs.vector.wire import unpack
from ludus.errors import UserError
from ludus.scale.cluster import RaySession, check_cluster, import_ray, is_connected, keep_logs
from ludus.scale.processes import RESOURCE_SECONDS, RESOURCE_SECONDS_AFTER_LOSS, RemoteError, ShardProcess

if TYPE_CHECKING:
    from ludus.scale.shard import ShardPlan

_log = logging.getLogger("ludus.scale")
_LOOK_SECONDS = 0.2  # between two checks of processes that start
_CLOSE_SECONDS = 3.0  # for envs to close of their own accord


class ShardLost(Exception):
    """The process of a shard, or its machine, is gone; the message has the cause."""


@dataclass
class _Hire:
    """A requested process: tickets of its location and of its shard, and the deadline for free resources."""

    placed: Any
    built: Any
    room_until: float


class Fleet:
    """The shards of a run. `plans` describes them; Ray reserves `cpus` for each."""

    def __init__(self, plans: Sequence[ShardPlan], session: RaySession, cpus: float) -> None:
        self._ray = import_ray()
        self._session = session
        self._plans = [self.publish(plan) for plan in plans]
        self._cpus = cpus
        self._actors: list[Any] = [None] * len(plans)
        self._locations: list[str] = [""] * len(plans)
        self._hires: dict[int, _Hire] = {}
        try:
            for index in range(len(plans)):
                self._hire(index, cpus, RESOURCE_SECONDS)
            while not all([self.is_there(index) for index in range(len(plans))]):
                self.wait([hire.built for hire in self._hires.values()], _LOOK_SECONDS)
        except ShardLost as lost:  # shards that never played are not worth another try
            keep_logs()
            self.close()
            raise UserError(str(lost), where="scale", fix="check the logs of Ray on that machine") from lost
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._plans)

    def publish(self, thing: Any) -> Any:
        """Put `thing` into the object store; return a reference that can be passed to `ask` instead."""
        check_cluster()
        return self._ray.put(thing)

    def ask(self, index: int, method: str, *args: Any) -> Any:
        """Call a method of shard `index`; return a ticket for `wait` and `answer`."""
        check_cluster()
        return self._actors[index].ask.remote(method, *args)

    def wait(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Return the tickets that have an answer; wait up to `seconds` for the first."""
        if not tickets:
            time.sleep(seconds)
            return []
        check_cluster()
        ready, _ = self._ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(list(tickets), num_returns=1, timeout=seconds)
        return list(ready)

    def answer(self, index: int, ticket: Any) -> Any:
        """Return the answer of shard `index`. ShardLost if its process died; else raise the shard's error."""
        errors = self._ray.exceptions
        check_cluster()
        try:
            answer = self._ray.get(ticket)
        except errors.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError) as error:
            raise ShardLost(
                f"collector {index} ({self._locations[index]}) was lost: {_cause(error)}"
            ) from error
        if isinstance(answer, RemoteError):
            raise unpack(answer.packed)
        return answer

    def replace(self, index: int) -> None:
        """Request a new process for shard `index`, on any node with room; `is_there` is True once it can be asked."""
        self._let_go(index)
        self._hire(index, self._cpus, RESOURCE_SECONDS_AFTER_LOSS)

    def is_there(self, index: int) -> bool:
        """Return True if shard `index` can be asked. ShardLost if it was lost before; else the error of its building.

        Where no machine has had room in time, it shares CPUs with others.
        """
        hire = self._hires.get(index)
        if hire is None:
            return True
        if not self.wait([hire.placed], 0):
            if time.monotonic() > hire.room_until:
                _log.warning("no free CPU for collector %d: it shares those of others", index)
                self._let_go(index)
                self._hire(index, 0, math.inf)
            return False
        self._locations[index] = self.answer(index, hire.placed)
        if not self.wait([hire.built], 0):
            return False
        self.answer(index, hire.built)
        del self._hires[index]
        return True

    def location(self, index: int) -> str:
        """Return the machine and process of shard `index`."""
        return self._locations[index]

    def close(self) -> None:
        """End all shards, and the connection to Ray with them."""
        if is_connected():
            closing = [
                actor.ask.remote("close")
                for index, actor in enumerate(self._actors)
                if actor is not None and index not in self._hires
            ]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
            for index in range(len(self._plans)):
                self._let_go(index)
            if closing:  # a call that a killed shard leaves open would keep this process from ending
                self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_SECONDS)
        self._session.close()

    def _hire(self, index: int, cpus: float, seconds: float) -> None:
        # the collector rebuilds a lost shard, because it knows what the shard had played; Ray does not
        actor = self._ray.remote(ShardProcess).options(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._actors[index] = process = actor.remote(exported())
        placed, built = process.location.remote(), process.build.remote(self._plans[index])
        self._hires[index] = _Hire(placed, built, time.monotonic() + seconds)

    def _let_go(self, index: int) -> None:
        actor, self._actors[index] = self._actors[index], None
        self._hires.pop(index, None)
        if actor is not None:
            self._ray.kill(actor)


def _cause(error: BaseException) -> str:
    """Return Ray's explanation in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:400] or type(error).__name__
