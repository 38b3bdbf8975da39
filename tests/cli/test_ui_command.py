"""`ludus ui` from the command line: what it refuses, what it says, and how it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from command_line import Command

from ludus.errors import EXIT_USER_ERROR

pytest.importorskip("uvicorn")


def test_mistakes_are_reported_in_three_lines(
    ludus: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, word in (
            (["--port", port], "in use"),
            (["--port", "99999"], "port"),
            (["--host", "no such host"], "not an address"),
            (["--root", "file"], "not a folder"),
            (["--prt", "1"], "did you mean '--port'"),
        ):
            outcome = ludus("ui", *arguments)
            assert outcome.code == EXIT_USER_ERROR and len(outcome.error_lines) == 3
            assert word in outcome.err
    monkeypatch.setenv("LUDUS_UI_TOKEN", "short")
    outcome = ludus("ui", "--port", "0")
    assert outcome.code == EXIT_USER_ERROR and "guessed" in outcome.err


def test_without_the_extra_the_command_names_it(ludus: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "starlette" else found(name)
    )
    outcome = ludus("ui")
    assert outcome.code == EXIT_USER_ERROR and "ludus-rl[web]" in outcome.err


@pytest.mark.parametrize(("host", "number"), [("127.0.0.1", signal.SIGINT), ("0.0.0.0", signal.SIGTERM)])
def test_it_serves_until_asked_to_end_even_while_somebody_watches(
    tmp_path: Path, host: str, number: int
) -> None:
    command = [sys.executable, "-m", "ludus", "ui", "--port", "0", "--host", host, "--json"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("LUDUS_UI_TOKEN", None)
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        address = f"http://127.0.0.1:{started['port']}/api/events"
        assert (started["token"] is None) == (host == "127.0.0.1") and started["root"] == "runs"
        headers = {} if started["token"] is None else {"authorization": f"Bearer {started['token']}"}
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as stream:
            assert stream.readline() == b"retry: 2000\n"
            process.send_signal(number)
            assert process.wait(20) in (0, 128 + number, -number)
    finally:
        process.kill()
        process.wait()
    assert list((tmp_path / "cache" / "ludus" / "ui").glob("*.sqlite"))
