"""HTTP requests with a total deadline.

The timeout of a socket starts again with every byte, so a slow server could keep a request open for hours.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.request
from typing import Any


class Deadline:
    """Opens requests and closes their connections at the deadline."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self.passed = False

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self._timer.join()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def open(self, request: urllib.request.Request) -> Any:
        """Return urllib's response to `request`."""
        opener = urllib.request.build_opener(_NoRedirect, _Plain(self), _Encrypted(self))
        return opener.open(request, timeout=self._seconds)

    def connect(self, *args: Any, **kwargs: Any) -> socket.socket:
        """Like socket.create_connection."""
        made = socket.create_connection(*args, **kwargs)
        with self._lock:
            self._connections.append(
                made.dup()
            )  # with TLS the socket is wrapped, and only the duplicate can be closed
        return made

    def _cut(self) -> None:
        with self._lock:
            self.passed = True
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_connecting(http.client.HTTPConnection, self._deadline), request)


class _Encrypted(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_connecting(http.client.HTTPSConnection, self._deadline), request)


def _connecting(kind: Any, deadline: Deadline) -> Any:
    """Makes connections of `kind` that `deadline` can cut."""

    def make(*args: Any, **kwargs: Any) -> Any:
        connection = kind(*args, **kwargs)
        connection._create_connection = deadline.connect
        return connection

    return make


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the key to another server."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None
