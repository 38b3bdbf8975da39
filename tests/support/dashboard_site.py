"""Runs folders to look at, and the real server on a free port of loopback."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ludus.reports.web.connections import DashboardServer
from ludus.reports.web.index import RunIndex


def write_run(root: Path, name: str, rewards: list[float] | None = None, **info: Any) -> Path:
    """A finished run with one row per reward, 100 steps apart."""
    path = root / "CartPole-v1" / "PPO" / name
    path.mkdir(parents=True)
    known = {"name": name, "env_id": "CartPole-v1", "algorithm": "PPO", "status": "finished", "seed": 1}
    (path / "run.json").write_text(json.dumps(known | {"created": "2026-11-01T10:00:00+00:00"} | info))
    (path / "config.yaml").write_text(f"name: {name}\nalgorithm: PPO\ntotal_timesteps: 1000\nseed: 1\n")
    append_rows(path, rewards or [])
    return path


def append_rows(path: Path, rewards: list[float], first: int = 1) -> None:
    with (path / "metrics.jsonl").open("a") as file:
        for i, reward in enumerate(rewards, start=first):
            row = {
                "step": 100 * i,
                "updates": i,
                "episodes": 3 * i,
                "rollout/ep_rew_mean": reward,
                "time/fps": 900.0,
            }
            file.write(json.dumps(row | {"time/seconds": float(i)}) + "\n")


class Site:
    """A dashboard that is being served."""

    def __init__(self, port: int, index: RunIndex) -> None:
        self.port = port
        self.index = index
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return json.loads(response.read())

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"content-type": "application/json", "x-ludus-ui": "1"}
        request = urllib.request.Request(
            self.url + path, json.dumps(body or {}).encode(), headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def id_of(self, name: str) -> str:
        """The id of a run, which the index may be about to find."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [run["id"] for run in self.get("/api/runs")["runs"] if run["name"] == name]
            return bool(found)

        wait_until(is_there)
        return found[0]

    def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send these very bytes; the status, headers and body of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            connection.settimeout(60)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers, body


@contextmanager
def serving(root: Path, token: str | None = None) -> Iterator[Site]:
    """The real app under uvicorn, on a free port; its index in a temporary file."""
    index = RunIndex(root, cache=None, scan_every=0.3)
    listening = socket.create_server(("127.0.0.1", 0))
    server = DashboardServer(index, token)
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Site(listening.getsockname()[1], index)
    finally:
        index.begin_stop()
        server.should_exit = True
        thread.join(60)
        listening.close()


def wait_until(holds: Callable[[], Any], seconds: float = 60.0) -> None:
    """Return as soon as `holds()` does; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
