"""The protocol of the mod balatrobot: JSON-RPC 2.0 over HTTP, one connection for each request.

A call ends in one of three ways: a result, a refusal by the game (`CallRefused`), or a fault of the connection
(`CallFailed`). After a fault nobody knows whether the request was carried out: ask for the game's state.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 12346
MAX_REQUEST = 65_536  # bytes; the mod refuses a longer body
MAX_ANSWER = 8 << 20
_CHUNK = 64 << 10

INTERNAL_ERROR = "INTERNAL_ERROR"
BAD_REQUEST = "BAD_REQUEST"
INVALID_STATE = "INVALID_STATE"
NOT_ALLOWED = "NOT_ALLOWED"
ERROR_CODES = {INTERNAL_ERROR: -32000, BAD_REQUEST: -32001, INVALID_STATE: -32002, NOT_ALLOWED: -32003}

# the methods of every version since 1.4.1; newer ones are asked for with rpc.discover
BASE_METHODS = frozenset(
    (
        *("health", "gamestate", "rpc.discover", "start", "menu", "select", "skip", "play", "discard"),
        *("cash_out", "next_round", "reroll", "buy", "sell", "use", "pack", "rearrange"),
    )
)


class CallFailed(Exception):
    """No usable answer came: refused or lost connection, timeout, or an answer that is not of the protocol."""


class CallRefused(Exception):
    """The game answered with an error: nothing was done. `name` is a key of ERROR_CODES."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class GameConnection:
    """Calls methods of the game at one address."""

    def __init__(self, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, timeout: float = 60.0) -> None:
        self.host, self.port, self.timeout = host, port, timeout
        self._calls = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def call(self, method: str, params: dict[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Return the result of a method. Raises CallRefused or CallFailed."""
        self._calls += 1
        request = {"jsonrpc": "2.0", "method": method, "params": params or {}, "id": self._calls}
        limit = self.timeout if timeout is None else timeout
        connection = http.client.HTTPConnection(self.host, self.port, timeout=limit)
        try:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            text = _body(connection.getresponse(), time.monotonic() + limit)
        except TimeoutError:
            raise CallFailed(f"no answer to '{method}' within {limit:g} s") from None
        except http.client.HTTPException as error:
            raise CallFailed(f"invalid HTTP answer to '{method}' ({type(error).__name__})") from None
        except UnicodeError:
            raise CallFailed(f"'{self.host}' is not a valid host name") from None
        except OSError as error:
            raise CallFailed(f"'{method}' failed: {error.strerror or type(error).__name__}") from None
        finally:
            connection.close()
        return _result(text, self._calls, method)


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(_CHUNK):  # returns what has arrived, so that the deadline is checked
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise CallFailed(f"the answer is longer than {MAX_ANSWER:,} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def _result(text: bytes, call: int, method: str) -> Any:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise CallFailed(f"the answer to '{method}' is not JSON") from None
    if not isinstance(answer, dict):
        raise CallFailed(f"the answer to '{method}' is not a JSON object")
    error = answer.get("error")
    if answer.get("id") != call and not (isinstance(error, dict) and answer.get("id") is None):
        raise CallFailed(f"the answer to '{method}' belongs to another request")  # to one that was given up
    if isinstance(error, dict):
        data = error.get("data")
        name = data.get("name") if isinstance(data, dict) else None
        raise CallRefused(str(name or error.get("code"))[:100], str(error.get("message"))[:1000])
    if "result" not in answer:
        raise CallFailed(f"the answer to '{method}' has neither result nor error")
    return answer["result"]


def offered_methods(document: Any) -> frozenset[str]:
    """Return the names of the methods in an OpenRPC document, with those that every version has."""
    methods = document.get("methods") if isinstance(document, dict) else None
    found = [row.get("name") for row in methods if isinstance(row, dict)] if isinstance(methods, list) else []
    return BASE_METHODS | {name for name in found if isinstance(name, str)}


def title_and_version(document: Any) -> str:
    """Return title and version of an OpenRPC document; empty if it has none."""
    info = document.get("info") if isinstance(document, dict) else None
    if not isinstance(info, dict):
        return ""
    return " ".join(str(info[key])[:200] for key in ("title", "version") if key in info)
