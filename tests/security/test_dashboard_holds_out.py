"""Slow, half-sent, large and malformed requests: a client with the token is still answered."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from dashboard_site import Site, serving, wait_until, write_run

from ludus.reports.web import connections

TOKEN = "correct-horse-battery-staple"
HOST = b"Host: 127.0.0.1\r\n"
WITH_TOKEN = HOST + f"Authorization: Bearer {TOKEN}\r\n".encode()
HALF_SENT = [
    b"",
    b"GET / HT",
    b"GET /api/runs HTTP/1.1\r\n" + HOST + b"X: ",
    b"POST /api/runs/x/resume HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{",
    b"GET /static/style.css HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("runs")
    write_run(root, "one", [1.0])
    with serving(root, token=TOKEN) as found:
        yield found


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process have 1,000 connections open, where it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2_000 if hard == resource.RLIM_INFINITY else min(2_000, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def begin(port: int, request: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    with contextlib.suppress(OSError):  # the server may have closed it already
        connection.sendall(request)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Return all bytes that arrive until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65536):
            found += chunk
    return found


def is_open(connection: socket.socket) -> bool:
    """Return whether the connection is still open; read and drop what has arrived."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    finally:
        connection.settimeout(30)
    return False


def ask(port: int) -> tuple[bytes, float]:
    """The answer to a request with the token, and how long it took."""
    start = time.monotonic()
    with begin(port, b"GET /api/runs HTTP/1.1\r\n" + WITH_TOKEN + b"Connection: close\r\n\r\n") as connection:
        return answer(connection), time.monotonic() - start


@pytest.mark.parametrize("open_files", [256, 1024])
def test_the_token_is_answered_within_2_seconds_next_to_1000_half_open_connections(
    tmp_path: Path, open_files: int, many_files: None
) -> None:
    write_run(tmp_path / "runs", "one", [1.0])
    command = [sys.executable, "-m", "ludus", "ui", "--port", "0", "--json", "--root", str(tmp_path / "runs")]
    shell = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh", *command]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LUDUS_UI_TOKEN": TOKEN}
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=said, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        held: list[socket.socket] = []
        ended = threading.Event()
        flood = threading.Thread(target=_reopen, args=(port, held, ended))
        try:
            assert ask(port)[0].startswith(b"HTTP/1.1 200")
            held.extend(begin(port, HALF_SENT[number % len(HALF_SENT)]) for number in range(1000))
            flood.start()
            times = []
            for _ in range(10):
                text, seconds = ask(port)
                assert text.startswith(b"HTTP/1.1 200") and b'"name":"one"' in text
                times.append(seconds)
                time.sleep(0.1)
            assert max(times) < 2, times
        finally:
            process.kill()
            ended.set()
            if flood.ident is not None:
                flood.join()
            for connection in held:
                connection.close()
    said_of_itself = [line.split()[0] for line in (tmp_path / "said").read_text().splitlines()]
    assert said_of_itself == ["dashboard", "runs", "end"]  # no complaint about open files


def _reopen(port: int, held: list[socket.socket], ended: threading.Event) -> None:
    """Open what the server has closed again, a hundred at a time."""
    while not ended.wait(0.05):
        closed = [place for place, connection in enumerate(held) if not is_open(connection)]
        for place in closed[:100]:
            held[place].close()
            with contextlib.suppress(OSError):
                held[place] = begin(port, HALF_SENT[place % len(HALF_SENT)])


def test_the_oldest_that_wait_are_closed_and_a_stream_that_was_let_in_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 80)
    with serving(tmp_path, token=TOKEN) as site:
        stream = begin(site.port, b"GET /api/events HTTP/1.1\r\n" + WITH_TOKEN + b"\r\n")
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        held = [begin(site.port, HALF_SENT[2]) for _ in range(60 + 40)]  # three quarters of 80 may wait
        wait_until(lambda: not any(map(is_open, held[:40])), 5)
        assert all(map(is_open, held[40:])) and is_open(stream)
        for connection in (stream, *held):
            connection.close()


def test_a_request_sent_late_is_answered_when_newer_connections_are_opened_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 192)  # the limit with 256 open files
    write_run(tmp_path, "one", [1.0])
    with serving(tmp_path, token=TOKEN) as site, begin(site.port, b"") as connection:
        held = [begin(site.port, HALF_SENT[2]) for _ in range(100)]
        wait_until(lambda: all(map(is_open, held)), 5)
        connection.sendall(b"GET /api/runs HTTP/1.1\r\n" + WITH_TOKEN + b"Connection: close\r\n\r\n")
        assert answer(connection).startswith(b"HTTP/1.1 200")
        for one in held:
            one.close()


def test_when_all_were_let_in_the_idle_and_then_the_oldest_make_room(tmp_path: Path) -> None:
    write_run(tmp_path, "one", [1.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "MAX_CONNECTIONS", 16)
        with serving(tmp_path) as site:
            whole = b"GET %s HTTP/1.1\r\n" + HOST + b"\r\n"
            idle = begin(site.port, whole % b"/api/runs")
            assert idle.recv(65536).startswith(b"HTTP/1.1 200")
            streams = []
            for _ in range(17):
                streams.append(begin(site.port, whole % b"/api/events"))
                assert streams[-1].recv(65536).startswith(b"HTTP/1.1 200")
            wait_until(lambda: not is_open(idle) and not is_open(streams[0]), 5)
            assert all(map(is_open, streams[1:]))
            for connection in (idle, *streams):
                connection.close()


@pytest.mark.parametrize("request_", HALF_SENT[:4])
def test_a_request_that_does_not_come_to_its_end_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    whole = request_.replace(HOST, WITH_TOKEN + b"X-Ludus-Ui: 1\r\n")
    with begin(site.port, whole) as connection:
        connection.settimeout(5)
        assert answer(connection) == b""


def test_a_head_that_comes_letter_by_letter_is_given_up_also_after_a_request(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    for first in (b"", b"GET /static/icon.svg HTTP/1.1\r\n" + HOST + b"\r\n"):
        with begin(site.port, first) as connection:
            if first:
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            start = time.monotonic()
            while is_open(connection) and time.monotonic() - start < 5:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"G")
                time.sleep(0.05)
            assert time.monotonic() - start < 5


def test_a_stream_outlives_the_time_for_a_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with begin(site.port, b"GET /api/events HTTP/1.1\r\n" + WITH_TOKEN + b"\r\n") as stream:
        time.sleep(0.8)
        assert is_open(stream)


def test_reports_that_take_long_leave_threads_to_other_requests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ludus.reports import report

    drawn, finish = [], threading.Event()

    def slow_page(*arguments: object) -> str:
        drawn.append(1)
        assert finish.wait(60)
        return "the page"

    monkeypatch.setattr(report, "run_page", slow_page)
    (run,) = json.loads(ask(site.port)[0].partition(b"\r\n\r\n")[2])["runs"]
    path = f"/api/runs/{run['id']}/report".encode()
    request = b"GET " + path + b" HTTP/1.1\r\n" + WITH_TOKEN + b"Connection: close\r\n\r\n"
    asked = [begin(site.port, request) for _ in range(60)]
    try:
        wait_until(lambda: drawn)
        time.sleep(0.5)
        for _ in range(5):
            text, seconds = ask(site.port)
            assert text.startswith(b"HTTP/1.1 200") and seconds < 2
    finally:
        finish.set()
    answers = [answer(connection) for connection in asked]
    good = sum(b"the page" in text for text in answers)
    refused = sum(text.startswith(b"HTTP/1.1 503") and b"try again" in text for text in answers)
    assert good >= 1 and good + refused == 60, (good, refused)
    for connection in asked:
        connection.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_400_megabytes_is_not_read(site: Site, chunked: bool) -> None:
    head = b"POST /api/runs/x/resume HTTP/1.1\r\n" + WITH_TOKEN + b"X-Ludus-Ui: 1\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: 400000000\r\n\r\n"
    piece = b"x" * 1_000_000
    sent = 0
    with begin(site.port, head) as connection, contextlib.suppress(ConnectionError):
        for _ in range(400):
            connection.sendall(b"f4240\r\n" + piece + b"\r\n" if chunked else piece)
            sent += 1
    assert sent < 20
    body = b"10001\r\n" + b"x" * 65537 + b"\r\n" if chunked else b""
    with begin(site.port, head + body) as connection:
        assert answer(connection).startswith(b"HTTP/1.1 413")


NASTY = [
    b"http://[",
    b"http://[::1",
    b"http://[]",
    b"//[",
    b"[",
    b"http://\xff",
    b"http://a]b",
    b"http://127.0.0.1:99999999",
    b"\xe2\x80\xae",
    b"%",
    b"bytes=-",
    b"bytes=9-1",
    b"bytes=999999999999999999-999999999999999999",
    b"=;;=\x7f",
    b"a=b; a[=c",
    b"Bearer \xff\xfe",
    b"=?utf-8?b?////?=",
    b"," * 2000,
    b"9" * 5000,
]
HEADERS = [
    b"Origin",
    b"Host",
    b"Cookie",
    b"Authorization",
    b"Range",
    b"If-None-Match",
    b"Accept",
    b"Sec-Fetch-Site",
]


@pytest.mark.parametrize("name", [*HEADERS, b"Expect", b"Connection", b"X-Forwarded-Proto", b"Content-Type"])
def test_no_header_breaks_the_server(site: Site, name: bytes) -> None:
    for value in NASTY:
        lines = b"" if name == b"Host" else HOST
        if name != b"Authorization":
            lines += f"Authorization: Bearer {TOKEN}\r\n".encode()
        status, _, _ = site.ask(
            b"GET /api/runs HTTP/1.1\r\nConnection: close\r\n" + lines + name + b": " + value + b"\r\n\r\n"
        )
        assert status < 500, value
        if name == b"Origin":
            assert status in (400, 403), value


@pytest.mark.parametrize(
    "path",
    [
        "/api/series?runs=RUN&metrics=step&from=nan&to=inf",
        "/api/series?runs=RUN&metrics=step&from=1e999&to=-1e999",
        "/api/series?runs=%ff&metrics=%00&x=%ff&points=99999999999999999999",
        "/api/events?since=-1&watch=:::&watch=RUN:%ff:",
        "/run/%00", "/%ff%fe", "/?token=%ff", "/static/%2e%2e", "/api/runs/%5b", "/?" + "&" * 3000,
    ],
)  # fmt: skip
def test_no_address_breaks_the_server(site: Site, path: str) -> None:
    found = json.loads(ask(site.port)[0].partition(b"\r\n\r\n")[2])
    path = path.replace("RUN", found["runs"][0]["id"])
    with begin(site.port, f"GET {path} HTTP/1.1\r\n".encode() + WITH_TOKEN + b"\r\n") as connection:
        assert int(connection.recv(65536).split()[1]) < 500
