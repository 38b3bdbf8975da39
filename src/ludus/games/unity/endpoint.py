"""The endpoint of one simulator: listens for its connection, does the handshake, calls its services, forwards its logs.

A connection serves once it has registered all required services. Before that it cannot disturb the current connection;
after that it replaces it. So a restarted build is used as soon as it connects.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable

from ludus.errors import UserError, printable
from ludus.games.unity import frames

_log = logging.getLogger("ludus.games.unity")

FIRST_CALL = 1_001
KEEPALIVE_SECONDS = 5.0
_MAX_UNREGISTERED = 8  # connections that have not registered their services yet
_REGISTER_SECONDS = 10.0  # time for each of them to register
_MAX_LOGS_PER_SECOND = 50
_LONGEST_LOG = 2_000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Lost(Exception):
    """A simulator died, hangs, or sends invalid answers. The text continues "the simulator …"."""


class Endpoint:
    """Serves simulator `index` at `host:port`. `services` are the topics that the simulator must register.

    `on_log` receives the simulator's own logs: a level of `logging`, and a line.

    Use it from one event loop only. Port 0 chooses a free port, which is then in `port`.
    """

    def __init__(
        self,
        index: int,
        host: str,
        port: int,
        services: Iterable[str],
        *,
        longest: int = frames.LONGEST_PAYLOAD,
        on_log: Callable[[int, str], None] = _log.log,
    ) -> None:
        self.index = index
        self.host = host
        self.port = port
        self.services = frozenset(services)
        self.last_problem = ""  # what was wrong with the last connection that did not serve
        self.on_log = on_log
        self.generation = 0  # number of connections that have served
        self._longest = longest
        self._server: asyncio.Server | None = None
        self._serving: _Connection | None = None
        self._unregistered: set[_Connection] = set()
        self._arrived = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def connected(self) -> bool:
        return self._serving is not None

    async def open(self) -> None:
        """Start to listen. UserError if the address cannot be used."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Connection(self, self._longest), self.host, self.port
            )
        except (OSError, OverflowError) as error:
            raise UserError(
                f"cannot listen on {self.address} for simulator {self.index}: {error}",
                where="env.kwargs.host, env.kwargs.port",
                fix="stop the program that uses the port (another training, a ROS-TCP endpoint), or use other ports",
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        if self.host not in _LOOPBACK:
            _log.warning(
                "simulator %d: listening on %s, reachable from the whole network", self.index, self.address
            )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in [*self._unregistered, *([self._serving] if self._serving else [])]:
            connection.close("is no longer needed")
        if self._server is not None:
            await self._server.wait_closed()

    async def wait(self, seconds: float) -> bool:
        """Wait until a simulator serves. Returns False after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        return self.connected

    def request(self, service: str, payload: bytes) -> asyncio.Future[bytes]:
        """Send a request and return a future of its answer, which may raise Lost."""
        if self._serving is None:
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            answer.set_exception(Lost("is not connected"))
            return answer
        return self._serving.request(service, payload)

    async def answer(self, asked: asyncio.Future[bytes], seconds: float) -> bytes:
        """Return the answer to a `request`. After `seconds` without one, close the connection and raise Lost."""
        connection = self._serving
        try:
            async with asyncio.timeout(seconds):
                return await asked
        except TimeoutError:
            lost = Lost(f"did not answer within {seconds:g} s")
            if connection is not None:
                connection.close(str(lost))
            raise lost from None

    def reject(self, reason: str) -> None:
        """Close the connection of a simulator after an unusable answer."""
        if self._serving is not None:
            self._serving.close(reason)

    # Connections

    def accept(self, connection: _Connection) -> bool:
        """Accept a new connection if there is room; it must register soon. Returns whether it was accepted."""
        if len(self._unregistered) >= _MAX_UNREGISTERED:
            return False
        self._unregistered.add(connection)
        asyncio.get_running_loop().call_later(_REGISTER_SECONDS, self._close_unregistered, connection)
        return True

    def remove(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        if connection in self._unregistered and connection.reason:
            self.last_problem = connection.reason
        self._unregistered.discard(connection)
        if self._serving is connection:
            self._serving = None
            self._arrived.clear()

    def _close_unregistered(self, connection: _Connection) -> None:
        if connection in self._unregistered:
            connection.close(connection.reason or "connected but did not register its services")

    def activate(self, connection: _Connection) -> None:
        """Let `connection` serve from now on."""
        self._unregistered.discard(connection)
        before, self._serving = self._serving, connection
        self.generation += 1
        self.last_problem = ""
        self._arrived.set()
        if before is not None:
            before.close("was replaced by a newer connection")


class _Connection(asyncio.Protocol):
    """One TCP connection of a simulator."""

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
        """Close the connection. Pending requests raise Lost with the first given `reason`."""
        self.reason = self.reason or reason
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(Lost(self.reason))
                answer.exception()  # retrieved here: asyncio warns about exceptions that nobody retrieves
        self._calls.clear()
        if self._keepalive is not None:
            self._keepalive.cancel()
        self._endpoint.remove(self)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # a peer that does not read would keep it open forever

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._endpoint.accept(self):
            transport.close()
            return
        transport.write(frames.pack_command(frames.HANDSHAKE, frames.PROTOCOL))
        self._keep_alive(first=True)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._parser.feed(data):
                self._handle(frame)
        except frames.FrameError as error:
            self.close(f"sent invalid data ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        self.close("closed the connection" if exc is None else f"broke the connection ({exc})")

    # Internals

    def _keep_alive(self, *, first: bool = False) -> None:
        if not first:
            self._transport.write(frames.KEEPALIVE)
        self._keepalive = asyncio.get_running_loop().call_later(KEEPALIVE_SECONDS, self._keep_alive)

    def _handle(self, frame: frames.Frame) -> None:
        if frame.is_keepalive:
            return
        if frame.destination in frames.LOGS:
            self._log(frame)
        elif frame.destination == frames.UNITY_SERVICE:
            self._register(frame)
        elif frame.destination == frames.RESPONSE:
            number = frame.json().get("srv_id")
            if not isinstance(number, int) or isinstance(number, bool):
                raise frames.FrameError(f"{frames.RESPONSE} without srv_id: {frame.payload[:60]!r}")
            self._answering = number
        elif not frame.is_command and self._answering is not None:
            number, self._answering = self._answering, None
            answer = self._calls.pop(number, None)
            if answer is not None and not answer.done():  # otherwise it comes too late
                answer.set_result(frame.payload)
        # other topics, and commands of other protocol versions, are ignored

    def _register(self, frame: frames.Frame) -> None:
        topic = frame.json().get("topic")
        if not isinstance(topic, str):
            raise frames.FrameError(f"{frames.UNITY_SERVICE} without a topic: {frame.payload[:60]!r}")
        topic = topic.rstrip("\0")
        wanted = self._endpoint.services
        if topic not in wanted:
            self.reason = f"registered '{topic[:100]}', expected {', '.join(sorted(wanted))}"
            _log.debug("simulator %d at %s %s", self._endpoint.index, self._endpoint.address, self.reason)
            return
        complete = self._registered == wanted
        self._registered.add(topic)
        if self._registered == wanted and not complete:
            self.reason = ""
            self._endpoint.activate(self)

    def _log(self, frame: frames.Frame) -> None:
        if self._logged.spent():
            return
        text = frame.text()[:_LONGEST_LOG]
        # escape line breaks and control characters, so that they cannot imitate lines of our log
        shown = printable(text, sign=" ").strip()
        level = logging.getLevelNamesMapping()[frames.LOGS[frame.destination].upper()]
        self._endpoint.on_log(level, f"simulator {self._endpoint.index}: {shown}")


class _LogBudget:
    """Limits the log lines per second, so that a simulator cannot fill the disk or slow down the run."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = 0

    def spent(self) -> bool:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._lines = now, 0
        self._lines += 1
        return self._lines > _MAX_LOGS_PER_SECOND
