"""A server on loopback that speaks as little HTTP as it likes: it stalls, drops, drips, floods and talks nonsense."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MOVE = json.dumps(
    {"choices": [{"message": {"content": "[4]"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
).encode()
Behaviour = Callable[[socket.socket], None]


def whole(body: bytes, code: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {code}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def says(data: bytes) -> Behaviour:
    return lambda line: line.sendall(data)


def stalls(after: bytes = b"") -> Behaviour:
    def behave(line: socket.socket) -> None:
        line.sendall(after)
        time.sleep(30)

    return behave


def drips(data: bytes) -> Behaviour:
    """A byte every twentieth of a second: no single wait is long."""

    def behave(line: socket.socket) -> None:
        for byte in data:
            line.sendall(bytes([byte]))
            time.sleep(0.05)

    return behave


def floods(head: bytes, again: bytes) -> Behaviour:
    def behave(line: socket.socket) -> None:
        line.sendall(head)
        while True:
            line.sendall(again)

    return behave


BEHAVIOURS: dict[str, Behaviour] = {
    "stalls": stalls(),
    "stalls in the headers": stalls(HEAD),
    "stalls in the body": stalls(HEAD + b"Content-Length: 500\r\n\r\n{"),
    "drips headers": drips(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 4000),
    "drips the body": drips(HEAD + b"Content-Length: 4000\r\n\r\n" + b" " * 4000),
    "drips a refusal": drips(b"HTTP/1.1 500 No\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000),
    "drops": says(b""),
    "drops in the body": says(HEAD + b"Content-Length: 500\r\n\r\n" + MOVE[:20]),
    "drops in a chunk": says(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc"),
    "talks no HTTP": says(b"\x00\xffSSH-2.0-nobody\r\n\r\n"),
    "lies about its length": says(HEAD + b"Content-Length: -7\r\n\r\nabc"),
    "answers no JSON": says(whole(b"<html>hello</html>")),
    "answers other JSON": says(whole(b'{"choices": []}')),
    "answers deep JSON": says(whole(b"[" * 200_000)),
    "answers an infinite number": says(whole(MOVE.replace(b'"prompt_tokens": 1', b'"prompt_tokens": 1e999'))),
    "answers broken UTF-8": says(whole(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}')),
    "answers 500": says(whole(b'{"error": {"message": "no"}}', "500 Internal Server Error")),
    "answers 500 with deep JSON": says(whole(b'{"error": ' + b"[" * 200_000, "500 Internal Server Error")),
    "sends elsewhere": says(
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    ),
    "floods": floods(HEAD + b"\r\n", b"x" * 65_536),
    "floods headers": floods(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "floods chunks": floods(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000),
}


@contextlib.contextmanager
def serving(behave: Behaviour) -> Iterator[str]:
    """The address, as OPENAI_BASE_URL takes it, of a server that treats every connection so."""
    listener = socket.create_server(("127.0.0.1", 0))
    lines: list[socket.socket] = []

    def serve(line: socket.socket) -> None:
        with contextlib.suppress(OSError), line:
            line.recv(65_536)
            behave(line)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = listener.accept()
                lines.append(line)
                threading.Thread(target=serve, args=(line,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.close()
        for line in lines:
            with contextlib.suppress(OSError):
                line.close()
