"""The stand-in as an HTTP server: one client at a time, one request for each connection."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from ludus.errors import UserError
from ludus.games.balatro.bridge.protocol import (
    BAD_REQUEST,
    ERROR_CODES,
    INTERNAL_ERROR,
    MAX_REQUEST,
    CallRefused,
)
from ludus.games.balatro.bridge.stand_in import StandIn

_REQUEST_SECONDS = 10.0  # a client that has not sent its whole request by then is closed

_log = logging.getLogger(__name__)

_DRAINED = 1 << 20  # bytes of a body that is too long which are read and dropped


class StandInServer(HTTPServer):
    """Answers calls with a stand-in, until `shutdown`. Raises UserError if the port is taken."""

    request_queue_size = 16

    def __init__(self, host: str, port: int) -> None:
        self.stand_in = StandIn()
        try:
            super().__init__((host, port), CallHandler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"cannot listen at {host}:{port}: {error}",
                where="command line: --host, --port",
                fix="choose a free port, for example --port 12347",
            ) from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away; report anything else."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class CallHandler(BaseHTTPRequestHandler):
    """Reads one call and answers it."""

    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_SECONDS
    server: StandInServer

    def setup(self) -> None:
        """Limit the time for the whole request: the next client waits until this one is done."""
        super().setup()
        self._deadline = threading.Timer(_REQUEST_SECONDS, self._give_up)
        self._deadline.daemon = True
        self._deadline.start()

    def finish(self) -> None:
        """Close the connection."""
        self._deadline.cancel()
        super().finish()

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def do_POST(self) -> None:
        """Answer a call."""
        if self.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "Not found: use POST /")
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "Content-Length is missing")
            return
        if not 0 <= length <= MAX_REQUEST:
            self.rfile.read(max(0, min(length, _DRAINED)))  # unread bytes would reset the connection
            self._refuse(HTTPStatus.BAD_REQUEST, f"The body is longer than {MAX_REQUEST} bytes")
            return
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # the client went away, or was too slow
            return
        self._deadline.cancel()
        self._send(HTTPStatus.OK, answer_call(self.server.stand_in, body))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not a POST, or not HTTP."""
        self.request_version = self.protocol_version  # a status line also for what looks like HTTP/0.9
        known = code == HTTPStatus.NOT_IMPLEMENTED  # http.server's answer to a method without a do_…
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.BAD_REQUEST, "Use POST /")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send(status, error_answer(None, CallRefused(BAD_REQUEST, message)))

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def answer_call(stand_in: StandIn, body: bytes) -> dict[str, Any]:
    """Return the JSON-RPC answer to the text of a call."""
    number: int | str | None = None
    try:
        call = _read_call(body)
        number = call["id"]
        method, params = call.get("method"), call.get("params") or {}  # [] is an empty table
        if not isinstance(method, str):
            raise CallRefused(BAD_REQUEST, "Invalid request: 'method' must be a string")
        if not isinstance(params, dict):
            raise CallRefused(BAD_REQUEST, "Invalid request: 'params' must be an object")
        return {"jsonrpc": "2.0", "result": stand_in.answer(method, params), "id": number}
    except CallRefused as refusal:
        return error_answer(number, refusal)
    except Exception as error:  # as the mod answers an exception of its own
        _log.exception("the stand-in failed")
        return error_answer(number, CallRefused(INTERNAL_ERROR, f"{type(error).__name__} in the stand-in"))


def error_answer(number: int | str | None, refusal: CallRefused) -> dict[str, Any]:
    """Return a refusal as a JSON-RPC answer."""
    error = {"code": ERROR_CODES[refusal.name], "message": refusal.message, "data": {"name": refusal.name}}
    return {"jsonrpc": "2.0", "error": error, "id": number}


def _read_call(body: bytes) -> dict[str, Any]:
    """Return a call whose id is valid; others are answered without an id."""
    try:
        call = json.loads(body)
    except (ValueError, RecursionError):
        raise CallRefused(BAD_REQUEST, "Invalid JSON") from None
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0":
        raise CallRefused(BAD_REQUEST, "Invalid request: expected a JSON-RPC 2.0 object")
    if isinstance(call.get("id"), bool) or not isinstance(call.get("id"), int | str):
        raise CallRefused(BAD_REQUEST, "Invalid request: 'id' must be an integer or a string")
    return call
