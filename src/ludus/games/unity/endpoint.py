"""The endpoint of one simulator: listens where it connects, shakes hands, calls its services, keeps its logs.

A connection serves once it has registered every service that is needed; until then it cannot disturb the one before
it, from then on it takes its place. So a build that restarts is simply there again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable

from ludus.errors import UserError
from ludus.games.unity import frames

_log = logging.getLogger("ludus.games.unity")

FIRST_CALL = 1_001
KEEPALIVE_SECONDS = 5.0
_MOST_GUESTS = 8  # connections at a time that have not registered yet
_GUEST_SECONDS = 10.0  # and how long each may take to
_MOST_LOGS_A_SECOND = 50
_LONGEST_LOG = 2_000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Lost(Exception):
    """A simulator that died, hangs, or answers garbage; the text goes on from "the simulator …"."""


class Endpoint:
    """Serves simulator `index` at `host:port`; `services` are the topics that it must register.

    `heard` gets the simulator's own logs: a level of `logging`, and a line.

    To be used from one event loop. Port 0 takes a free one: `port` tells which.
    """

    def __init__(
        self,
        index: int,
        host: str,
        port: int,
        services: Iterable[str],
        *,
        longest: int = frames.LONGEST_PAYLOAD,
        heard: Callable[[int, str], None] = _log.log,
    ) -> None:
        self.index = index
        self.host = host
        self.port = port
        self.services = frozenset(services)
        self.trouble = ""  # what was wrong with the last connection that did not get to serve
        self.heard = heard
        self.generation = 0  # which connection serves, counted
        self._longest = longest
        self._server: asyncio.Server | None = None
        self._serving: _Connection | None = None
        self._guests: set[_Connection] = set()
        self._arrived = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def connected(self) -> bool:
        return self._serving is not None

    async def open(self) -> None:
        """Start to listen; UserError when the address cannot be used."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Connection(self, self._longest), self.host, self.port
            )
        except (OSError, OverflowError) as error:
            raise UserError(
                f"cannot listen at {self.address} for simulator {self.index}: {error}",
                where="env.kwargs.host, env.kwargs.port",
                fix="end the program that uses the port (another training, a ROS-TCP endpoint), or take other ports",
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        if self.host not in _LOOPBACK:
            _log.warning("simulator %d: listening at %s, for the whole network", self.index, self.address)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in [*self._guests, *([self._serving] if self._serving else [])]:
            connection.close("is no longer needed")
        if self._server is not None:
            await self._server.wait_closed()

    async def wait(self, seconds: float) -> bool:
        """Wait until a simulator serves; False when none does in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        return self.connected

    def request(self, service: str, payload: bytes) -> asyncio.Future[bytes]:
        """Send a call at once and return its answer to come, which may raise Lost."""
        if self._serving is None:
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            answer.set_exception(Lost("is not connected"))
            return answer
        return self._serving.request(service, payload)

    async def answer(self, asked: asyncio.Future[bytes], seconds: float) -> bytes:
        """The answer to a `request`; Lost, and the connection closed, when there is none in time."""
        connection = self._serving
        try:
            async with asyncio.timeout(seconds):
                return await asked
        except TimeoutError:
            lost = Lost(f"gave no answer for {seconds:g} s")
            if connection is not None:
                connection.close(str(lost))
            raise lost from None

    def reject(self, reason: str) -> None:
        """Close the connection of a simulator whose answers cannot be used."""
        if self._serving is not None:
            self._serving.close(reason)

    # Connections

    def welcome(self, connection: _Connection) -> bool:
        """Whether there is room for one that has not registered yet; it must do so soon."""
        if len(self._guests) >= _MOST_GUESTS:
            return False
        self._guests.add(connection)
        asyncio.get_running_loop().call_later(_GUEST_SECONDS, self._send_away, connection)
        return True

    def part(self, connection: _Connection) -> None:
        """`connection` is gone."""
        if connection in self._guests and connection.reason:
            self.trouble = connection.reason
        self._guests.discard(connection)
        if self._serving is connection:
            self._serving = None
            self._arrived.clear()

    def _send_away(self, connection: _Connection) -> None:
        if connection in self._guests:
            connection.close(connection.reason or "connected and registered no service")

    def take_on(self, connection: _Connection) -> None:
        """From now on `connection` serves."""
        self._guests.discard(connection)
        before, self._serving = self._serving, connection
        self.generation += 1
        self.trouble = ""
        self._arrived.set()
        if before is not None:
            before.close("was replaced by a newer connection")


class _Connection(asyncio.Protocol):
    """One TCP connection with what a simulator calls itself."""

    _transport: asyncio.Transport

    def __init__(self, endpoint: Endpoint, longest: int) -> None:
        self.reason = ""
        self._endpoint = endpoint
        self._parser = frames.FrameParser(longest)
        self._registered: set[str] = set()
        self._numbers = itertools.count(FIRST_CALL)
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._answering: int | None = None
        self._logged = _LogBudget()
        self._keepalive: asyncio.TimerHandle | None = None

    def request(self, service: str, payload: bytes) -> asyncio.Future[bytes]:
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self._transport.write(
            frames.pack_command(frames.REQUEST, {"srv_id": number}) + frames.pack_frame(service, payload)
        )
        return answer

    def close(self, reason: str) -> None:
        """End the connection; calls that wait for an answer raise Lost with `reason`, the first given."""
        self.reason = self.reason or reason
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(Lost(self.reason))
                answer.exception()  # asked for here, so that one nobody awaits any more makes no noise
        self._calls.clear()
        if self._keepalive is not None:
            self._keepalive.cancel()
        self._endpoint.part(self)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # one that does not read would keep it open for ever

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._endpoint.welcome(self):
            transport.close()
            return
        transport.write(frames.pack_command(frames.HANDSHAKE, frames.PROTOCOL))
        self._keep_alive(first=True)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._parser.feed(data):
                self._take(frame)
        except frames.FrameError as error:
            self.close(f"sent garbage ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        self.close("closed the connection" if exc is None else f"broke the connection ({exc})")

    # Within

    def _keep_alive(self, *, first: bool = False) -> None:
        if not first:
            self._transport.write(frames.KEEPALIVE)
        self._keepalive = asyncio.get_running_loop().call_later(KEEPALIVE_SECONDS, self._keep_alive)

    def _take(self, frame: frames.Frame) -> None:
        if frame.is_keepalive:
            return
        if frame.destination in frames.LOGS:
            self._log(frame)
        elif frame.destination == frames.UNITY_SERVICE:
            self._register(frame)
        elif frame.destination == frames.RESPONSE:
            number = frame.json().get("srv_id")
            if not isinstance(number, int) or isinstance(number, bool):
                raise frames.FrameError(f"{frames.RESPONSE} without a number: {frame.payload[:60]!r}")
            self._answering = number
        elif not frame.is_command and self._answering is not None:
            number, self._answering = self._answering, None
            answer = self._calls.pop(number, None)
            if answer is not None and not answer.done():  # else it comes too late, and nobody waits
                answer.set_result(frame.payload)
        # topics that are published, and commands of other versions of the protocol, do not concern an env

    def _register(self, frame: frames.Frame) -> None:
        topic = frame.json().get("topic")
        if not isinstance(topic, str):
            raise frames.FrameError(f"{frames.UNITY_SERVICE} without a topic: {frame.payload[:60]!r}")
        topic = topic.rstrip("\0")
        wanted = self._endpoint.services
        if topic not in wanted:
            self.reason = f"registered '{topic[:100]}', where {', '.join(sorted(wanted))} are wanted"
            _log.debug("simulator %d at %s %s", self._endpoint.index, self._endpoint.address, self.reason)
            return
        complete = self._registered == wanted
        self._registered.add(topic)
        if self._registered == wanted and not complete:
            self.reason = ""
            self._endpoint.take_on(self)

    def _log(self, frame: frames.Frame) -> None:
        if self._logged.spent():
            return
        text = frame.text()[:_LONGEST_LOG]
        # line breaks and escapes in what another program says must not look like lines of this one
        shown = "".join(c if c.isprintable() else " " for c in text).strip()
        level = logging.getLevelNamesMapping()[frames.LOGS[frame.destination].upper()]
        self._endpoint.heard(level, f"simulator {self._endpoint.index}: {shown}")


class _LogBudget:
    """Lets a simulator that floods its log cost neither the disk nor the time of the run."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = 0

    def spent(self) -> bool:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._lines = now, 0
        self._lines += 1
        return self._lines > _MOST_LOGS_A_SECOND
