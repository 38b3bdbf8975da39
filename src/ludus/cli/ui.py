"""`ludus ui`: the web dashboard of a runs folder."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Json, Root
from ludus.cli.output import Output
from ludus.errors import MissingExtra, UserError

if TYPE_CHECKING:
    from ludus.reports.web.index import RunIndex

PORT = 8642

EXAMPLES = """\b
Examples:
  ludus ui --open
  ludus ui --root /data/runs --port 9000
  ludus ui --host 0.0.0.0    from other machines, with a token
"""


def ui(
    root: Root = "runs",
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on; other machines need a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65535, help="Port to listen on; 0 chooses a free one."
        ),
    ] = PORT,
    browser: Annotated[bool, typer.Option("--open", help="Open the dashboard in the browser.")] = False,
    json: Json = False,
) -> None:
    """View runs in the browser: live curves, comparison, videos; stop and resume them."""
    from ludus.reports.web.security import token_for

    output = Output(json)
    if any(importlib.util.find_spec(module) is None for module in ("starlette", "uvicorn")):
        raise MissingExtra("the web dashboard", "web")
    folder = Path(root)
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"'{root}' is not a folder", where="command line: --root", fix="give a folder of runs"
        )
    token = token_for(host)
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    address = _address(host, number)
    url = address if token is None else f"{address}?token={token}"
    where = str(folder) if folder.exists() else f"{folder}, which is not there yet"
    output.pairs([("dashboard", url), ("runs", where), ("end", "Ctrl-C")])
    if not output.json:
        output.console.file.flush()
    output.result({"url": url, "host": host, "port": number, "root": str(folder), "token": token})

    from ludus.reports.web.index import RunIndex

    if browser:
        import threading
        import webbrowser

        threading.Timer(0.7, webbrowser.open, [url]).start()
    _serve(RunIndex(folder), listening, token, f"ludus_ui_{number}")


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket at that address; UserError if it is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except socket.gaierror:
        raise UserError(
            f"'{host}' is not an address",
            where="command line: --host",
            fix="give an IP address, such as 127.0.0.1",
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(
            f"cannot listen on {host}, port {port}: {reason.lower()}",
            where="command line: --host, --port",
            fix="another dashboard may run there already: open it, or choose another with --port",
        ) from None
    return listening


def _address(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::", ""):
        host = _own_address()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _own_address() -> str:
    """Return the address of this machine in its network, as far as it can be determined."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 1))  # sends nothing: it only chooses the way
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _serve(index: RunIndex, listening: socket.socket, token: str | None, cookie: str) -> None:
    """Serve until Ctrl-C or a signal."""
    from ludus.reports.web.connections import DashboardServer

    try:
        DashboardServer(index, token, cookie).run(sockets=[listening])
    except KeyboardInterrupt:
        return  # the way it is meant to end
