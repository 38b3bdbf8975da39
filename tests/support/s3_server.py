"""A real S3 server on loopback (moto's), with a door in front of it that can be made to refuse or to cut off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
REFUSALS = {
    "expired": ("400 Bad Request", "ExpiredToken", "The provided token has expired."),
    "full": ("507 Insufficient Storage", "XMinioStorageFull", "Storage backend has reached its minimum free"),
    "read-only": ("403 Forbidden", "AccessDenied", "Access Denied"),
    "broken": ("400 Bad Request", "IncompleteBody", "You did not provide the bytes that you announced"),
}
KEY_ID, SECRET = "AKIAQYLPMN5HFIQR7XYA", "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


class Door:
    """Lets requests through until `refuse` says what to answer instead; `after` of them come first.

    `writes_only` lets reading pass. `seen` holds method and path of every request.
    """

    def __init__(self, application: Callable[..., Any]) -> None:
        self._application = application
        self.refuse: str | None = None
        self.writes_only = False
        self.after = 0
        self.seen: list[tuple[str, str]] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        self.seen.append((method, environ["PATH_INFO"]))
        if self.refuse is not None and (method in ("PUT", "POST", "DELETE") or not self.writes_only):
            if self.after > 0:
                self.after -= 1
            else:
                status, code, message = REFUSALS[self.refuse]
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start(status, [("Content-Type", "application/xml")])
                return [] if method == "HEAD" else [ERROR.format(code=code, message=message).encode()]
        return self._application(environ, start)  # type: ignore[no-any-return]


class QuietHandler(MotoRequestHandler):
    def log_request(self, *arguments: Any) -> None:
        pass


@contextmanager
def s3_server() -> Iterator[tuple[str, Door]]:
    """The address of the server, and its door."""
    door = Door(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, door, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", door
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
