"""Stand-in simulators for tests: real sockets on loopback, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ludus.envs.make import EnvSpec
from ludus.games.unity.simulator.client import StandInOptions, UnityStandIn


def free_ports(n: int) -> int:
    """Return the first of `n` consecutive free ports."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            if port + n > 65_000:
                continue
            try:
                for number in range(port + 1, port + n):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
            return port


class StandInThread:
    """Stand-ins at `port`, `port + 1`, …; each can be stopped and replaced."""

    def __init__(self, standins: Sequence[UnityStandIn], port: int) -> None:
        self.port = port
        self.standins = list(standins)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        for place in range(len(self.standins)):
            self.start(place)

    def start(self, place: int, standin: UnityStandIn | None = None) -> None:
        if standin is not None:
            self.standins[place] = standin

        async def begin() -> None:
            work = self.standins[place].run("127.0.0.1", self.port + place)
            self._tasks[place] = asyncio.ensure_future(work)

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(5)

    def stop(self, place: int) -> None:
        async def end() -> None:
            task = self._tasks.pop(place)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)

    def close(self) -> None:
        for place in list(self._tasks):
            self.stop(place)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


@contextlib.contextmanager
def playing(
    n: int, use_case: str = "uc1", make: Callable[..., UnityStandIn] = UnityStandIn, **options: Any
) -> Iterator[StandInThread]:
    """Run `n` stand-ins that try to connect to free ports."""
    chosen = StandInOptions(use_case, **options)
    standins = StandInThread([make(index, chosen) for index in range(n)], free_ports(n))
    try:
        yield standins
    finally:
        standins.close()


def unity_spec(port: int, use_case: str = "uc1", **kwargs: Any) -> EnvSpec:
    """Return the env of `use_case` at `port`, with short timeouts."""
    max_steps = kwargs.pop("max_episode_steps", None)
    settings = {"use_case": use_case, "port": port, "connect_seconds": 20.0, "deadline": 20.0, **kwargs}
    return EnvSpec("ludus/Unity-v0", kwargs=settings, max_episode_steps=max_steps)
