"""Access control of the dashboard.

`Guard` answers who may ask: by default only pages of this machine, never a foreign site through the user's browser
(Host and Origin are checked), and with a token anybody who has it. `RunsFolder` answers what may be read: plain files
below the runs folder, through no link.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlencode

from ludus.errors import UserError
from ludus.posix import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK

TOKEN_VARIABLE = "LUDUS_UI_TOKEN"
MUTATION_HEADER = "x-ludus-ui"
"""Every call that changes something carries it: another site's page cannot set it without asking first."""

_MIN_TOKEN = 16
_MAX_BODY = 64 << 10  # bytes of a request: the largest is a number of steps
_PUBLIC = ("/static/style.css", "/static/icon.svg")  # what the page that asks for the token looks like
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9_.-]{1,255}))(?::[0-9]{1,5})?")
_SAFE_METHODS = ("GET", "HEAD")
_OWN_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; form-action "
)
_PAGE_POLICY = _OWN_PAGE + "'none'"
_LOGIN_POLICY = _OWN_PAGE + "'self'"
REPORT_POLICY = (
    # in an origin of its own: it can ask the dashboard nothing. The page itself says which scripts are its own
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "x-dns-prefetch-control": "off",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without a port, can only mean this machine."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def token_for(host: str) -> str | None:
    """The token that serving on `host` needs: the one in LUDUS_UI_TOKEN, a new one, or None on loopback.

    UserError for one that could be guessed.
    """
    given = os.environ.get(TOKEN_VARIABLE, "")
    if given:
        if len(given) < _MIN_TOKEN:
            raise UserError(
                f"the token has {len(given)} characters, which can be guessed",
                where=f"environment variable {TOKEN_VARIABLE}",
                fix=f"use {_MIN_TOKEN} or more, or unset it: a fresh one is made where it is needed",
            )
        return given
    return None if is_loopback(host) else secrets.token_urlsafe(24)


class Guard:
    """ASGI middleware: refuses unauthorised requests, and sends every response with strict headers."""

    def __init__(self, app: Any, token: str | None, cookie: str = "ludus_ui") -> None:
        self._app = app
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no websockets here

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                own = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in given]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            await _answer(send_with_headers, 403, refusal)
        elif self._token is None or self._has_token(headers):
            await self._let_in(scope, headers, receive, send_with_headers)
        elif scope["path"] in _PUBLIC:
            await self._app(scope, receive, send_with_headers)
        elif (given := dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")) is not None:
            await self._log_in(scope, headers, given, send_with_headers)
        else:
            await _ask_for_token(send_with_headers)

    async def _let_in(self, scope: dict[str, Any], headers: dict[str, str], receive: Any, send: Any) -> None:
        """Pass a request on once all of it is there: until then its connection counts as one that waits."""
        try:
            body = await _read_body(receive, int(headers.get("content-length", 0)))
        except _BodyTooLarge:
            await _answer(send, 413, f"a request has {_MAX_BODY:,} bytes at most")
            return
        if body is None:
            return  # the client has gone
        if (admit := scope.get("state", {}).get("admit")) is not None:
            admit()
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_rest() -> Any:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_rest, send)

    def _refusal(self, method: str, headers: dict[str, str]) -> str | None:
        """Return why the request is refused, or None if it is accepted."""
        host = headers.get("host", "")
        # Without a token only names of this machine are served: a site whose name is made to point here (DNS
        # rebinding) still says its own name. With one, the browser has no cookie for that name.
        if self._token is None and not is_loopback(_hostname(host)):
            return "this dashboard is only for this machine: open it as localhost or 127.0.0.1"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return "requests from other sites are refused"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and (
            method not in _SAFE_METHODS or headers.get("sec-fetch-mode") != "navigate"
        ):
            return "requests from other sites are refused"
        if method not in _SAFE_METHODS and headers.get(MUTATION_HEADER) != "1":
            return f"what changes something needs the header {MUTATION_HEADER}: 1"
        return None

    def _has_token(self, headers: dict[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and _equal(cookie.value, self._cookie_value())

    def _is_token(self, given: str) -> bool:
        return self._token is not None and _equal(given, self._token)

    def _cookie_value(self) -> str:
        """Return the cookie that replaces the token in the browser, so that the token itself is not stored there."""
        return hmac.new((self._token or "").encode(), b"ludus ui cookie", hashlib.sha256).hexdigest()

    async def _log_in(self, scope: dict[str, Any], headers: dict[str, str], given: str, send: Any) -> None:
        """Trade the token in the address for a cookie, and lose it from the address."""
        if not self._is_token(given):
            await _ask_for_token(send)
            return
        query = [(k, v) for k, v in parse_qsl(scope["query_string"].decode("latin-1")) if k != "token"]
        # a path of two slashes would be another host's address
        target = "/" + scope["path"].lstrip("/\\").replace("\\", "/")
        location = target.encode("utf-8", "replace").decode("latin-1") + (
            f"?{urlencode(query)}" if query else ""
        )
        location = location if location.isascii() and location.isprintable() else "/"
        secure = "; Secure" if headers.get("x-forwarded-proto") == "https" else ""
        cookie = f"{self._cookie}={self._cookie_value()}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}"
        await _answer(send, 303, "", extra={"location": location, "set-cookie": cookie})


class RunsFolder:
    """Read-only access to plain files below `root`. A link anywhere on the way is refused with PermissionError."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()

    def open(self, *parts: str) -> BinaryIO:
        """The file `root/part/part/…` for reading; OSError where there is none, or it is a link or no plain file."""
        folder = self._open_folder(parts[:-1])
        try:
            # non-blocking: opening a pipe must not wait for its writer
            descriptor = _open(parts[-1], os.O_RDONLY | O_NONBLOCK, folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PermissionError(f"{parts[-1]!r} is not a plain file")
        return os.fdopen(descriptor, "rb")

    def read(self, *parts: str, limit: int) -> bytes:
        """The whole file; OSError as for `open`, and where it is larger than `limit`."""
        with self.open(*parts) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(f"{parts[-1]!r} has more than {limit:,} bytes")
        return data

    def tail(self, *parts: str, size: int) -> bytes:
        """The last `size` bytes of the file; OSError as for `open`."""
        with self.open(*parts) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)

    def files(self, *parts: str) -> list[tuple[str, os.stat_result]]:
        """Name and status of the plain files in a folder, by name; hidden ones, links and the rest are left out."""
        return [(n, s) for n, s in self._entries(parts) if stat.S_ISREG(s.st_mode)]

    def folders(self, *parts: str) -> list[str]:
        """Names of the folders in a folder, as `files`."""
        return [n for n, s in self._entries(parts) if stat.S_ISDIR(s.st_mode)]

    def _entries(self, parts: tuple[str, ...]) -> list[tuple[str, os.stat_result]]:
        try:
            folder = self._open_folder(parts)
        except OSError:
            return []
        found = []
        try:
            for name in sorted(os.listdir(folder)):
                if not name.startswith("."):
                    found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
        except OSError:
            pass  # removed meanwhile
        finally:
            os.close(folder)
        return found

    def _open_folder(self, parts: tuple[str, ...]) -> int:
        folder = os.open(self.root, os.O_RDONLY | O_DIRECTORY)
        for part in parts:
            try:
                below = _open(part, os.O_RDONLY | O_DIRECTORY, folder)
            finally:
                os.close(folder)
            folder = below
        return folder


def _open(part: str, flags: int, folder: int) -> int:
    if part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part:
        raise PermissionError(f"{part!r} does not name a file")
    return os.open(part, flags | O_NOFOLLOW | O_CLOEXEC, dir_fd=folder)


def _hostname(host: str) -> str:
    """Return the Host header without its port; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]) if found else ""


def _equal(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


class _BodyTooLarge(Exception):
    """The request is larger than any request of the dashboard."""


async def _read_body(receive: Any, announced: int) -> bytes | None:
    """The body of a request; None if the client went away before its end."""
    if announced > _MAX_BODY:
        raise _BodyTooLarge
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > _MAX_BODY:
            raise _BodyTooLarge
        if not message.get("more_body", False):
            return body


async def _answer(
    send: Any,
    status: int,
    text: str,
    kind: str = "text/plain; charset=utf-8",
    extra: dict[str, str] | None = None,
) -> None:
    """Answer in place of the app, and close the connection: a body that was announced is not waited for."""
    headers = {"content-type": kind, "content-length": str(len(text.encode())), "connection": "close"}
    headers |= extra or {}
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": text.encode()})


async def _ask_for_token(send: Any) -> None:
    policy = {"content-security-policy": _LOGIN_POLICY}
    await _answer(send, 401, _LOGIN_PAGE, "text/html; charset=utf-8", policy)


_LOGIN_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ludus</title><link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css"></head>
<body><main class="login"><form method="get" action="/"><h1>Ludus</h1>
<label><span>Token, as <code>ludus ui</code> printed it</span>
<input name="token" type="password" autocomplete="current-password" required autofocus></label>
<button class="primary">Open</button></form></main></body></html>
"""
