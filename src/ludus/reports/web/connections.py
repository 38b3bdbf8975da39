"""The dashboard's server, with a limit on connections: clients that send half a request lock nobody out.

A connection waits until a whole request on it was let in: the head, the body, and the token where one is needed. Those
that wait have a deadline, and when there are too many of them the oldest is closed for the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ludus.posix import open_files_limit
from ludus.reports.web.index import RunIndex
from ludus.reports.web.server import create_app

REQUEST_SECONDS = 10.0
"""Time limit for a client to send a request, head and body together."""

MAX_CONNECTIONS = 512
_ACCEPTED_AT_ONCE = 16
_QUEUE = 1024


class ConnectionTable:
    """Table of the open connections, oldest first; waiting ones also by client."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting_limit = max_waiting(limit)
        self._waiting: dict[str, dict[DashboardConnection, None]] = {}
        self._admitted: dict[DashboardConnection, None] = {}

    def add(self, connection: DashboardConnection) -> None:
        """Add a new connection, and close an old one if there are too many."""
        of_client = self._waiting.setdefault(connection.client_name, {})
        of_client[connection] = None
        if len(of_client) > self._waiting_limit:
            self._close(next(iter(of_client)))
        elif len(self._admitted) + sum(map(len, self._waiting.values())) > self._limit:
            crowd = max(self._waiting.values(), key=len)
            oldest = next(iter(crowd))
            if oldest is connection and self._admitted:  # nobody else waits
                idle = (one for one in self._admitted if one.is_idle)
                oldest = next(idle, next(iter(self._admitted)))
            self._close(oldest)

    def admit(self, connection: DashboardConnection) -> None:
        """Record that a request on `connection` was let in."""
        self.remove(connection)
        self._admitted[connection] = None

    def remove(self, connection: DashboardConnection) -> None:
        self._admitted.pop(connection, None)
        of_client = self._waiting.get(connection.client_name, {})
        of_client.pop(connection, None)
        if not of_client:
            self._waiting.pop(connection.client_name, None)

    def _close(self, connection: DashboardConnection) -> None:
        self.remove(connection)
        connection.transport.abort()


class DashboardConnection(H11Protocol):
    """One connection. The app calls `admit` from the request's state when it lets the request in."""

    def __init__(self, table: ConnectionTable, *, app_state: dict[str, Any], **arguments: Any) -> None:
        super().__init__(app_state=app_state | {"admit": self._admit}, **arguments)
        self._table = table
        self._deadline: asyncio.TimerHandle | None = None
        self.client_name = ""
        self.is_idle = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.client_name = _client_name(self.client)
        self._start_deadline()
        self._table.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._table.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        if not self.is_idle:
            self.is_idle = True
            self._start_deadline()  # for the next request
        super().on_response_complete()

    def _admit(self) -> None:
        if not self.transport.is_closing():
            self.is_idle = False
            self._stop_deadline()
            self._table.admit(self)

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class DashboardServer(uvicorn.Server):
    """Serves the runs of `index`, to clients with `token` where it is given."""

    def __init__(self, index: RunIndex, token: str | None = None, cookie: str = "ludus_ui") -> None:
        table = ConnectionTable(max_connections())
        config = uvicorn.Config(
            create_app(index, token=token, cookie=cookie),
            http=partial(DashboardConnection, table),  # type: ignore[arg-type]
            loop="asyncio",
            ws="none",
            log_config=None,
            access_log=False,  # it would write the token down
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            # asyncio accepts as many before it handles any of them: they must not use up the open files
            backlog=_ACCEPTED_AT_ONCE,
        )
        super().__init__(config)
        self._index = index

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        own, ours = logging.getLogger("uvicorn"), logging.getLogger("ludus")
        own.setLevel(logging.WARNING)
        own.handlers, own.propagate = ours.handlers, ours.propagate
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_QUEUE)  # the system's queue is not what asyncio accepts at once

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._index.begin_stop()  # open streams end by themselves, and nobody waits for them
        super().handle_exit(sig, frame)


def max_connections() -> int:
    """Return how many connections may be open: three quarters of this process's open-file limit, or fewer."""
    files = open_files_limit()
    return MAX_CONNECTIONS if files is None else max(min(MAX_CONNECTIONS, files * 3 // 4), _ACCEPTED_AT_ONCE)


def max_waiting(connections: int) -> int:
    """Return how many of `connections` one client may hold before it has sent a whole request.

    A large share: a new connection is closed only after this many newer ones arrived, and until then its request must
    be read. The rest stays free for other clients.
    """
    return connections * 3 // 4


def _client_name(address: tuple[str, int] | None) -> str:
    """Return the client's address; for IPv6 its network, because one client has all of its addresses."""
    host = "" if address is None else address[0]
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(host)
        if found.version == 6 and found.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return host
