"""Keys and tokens of the environment are in nothing that is written, shown or listed: planted, used, and looked for."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ludus.cli.app import main
from ludus.secret_values import secret_values, without_secrets

CANARIES = {
    "OPENAI_API_KEY": "sk-canary-openai-0f3b9c2d7e",
    "WANDB_API_KEY": "canarywandb4a5b6c7d8e9f00112233445566778899",
    "AWS_ACCESS_KEY_ID": "AKIACANARYCANARY0001",
    "AWS_SECRET_ACCESS_KEY": "canary/aws+secret/77d1e0a2b3c4d5e6f7a8",
    "AWS_SESSION_TOKEN": "canary-aws-session-91ab23cd45ef",
    "HF_TOKEN": "hf_canaryhuggingface0123456789",
    "LUDUS_UI_TOKEN": "canary-ui-token-5d2f8a1b0c3e",
}
ENV = """\
import os
import gymnasium as gym
import numpy as np

class Telling(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fails_at=10**9):
        self.fails_at, self.life, self.steps = fails_at, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.life += 1
        self.steps += 1
        if self.life == self.fails_at:  # as libraries do that print the request they sent
            key = os.environ["OPENAI_API_KEY"]
            raise RuntimeError(f"401 for url https://h/?key={key}, Authorization: Bearer {key!r}")
        return np.zeros(2, np.float32), 1.0, False, self.steps == 20, {}

gym.register("Telling-v0", Telling)
"""
SMALL = [
    *["n_envs=2", "hyperparams.n_steps=64", "hyperparams.batch_size=64", "hyperparams.policy_net_arch=[8]"],
    *["checkpoint.every=256", "evaluation.every=256", "evaluation.episodes=1"],
]


class Echo(http.server.BaseHTTPRequestHandler):
    """A server that gives back whatever it was sent, headers included, as errors do."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = {"error": {"message": f"bad request: {dict(self.headers)} {body.decode()[:200]}"}}
        data = json.dumps(answer).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_PUT = do_GET = do_HEAD = do_POST

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def echoing() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class Listing(threading.Thread):
    """Looks at the command lines of all processes, again and again, for what must not be there."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found: set[str] = set()
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        own = str(os.getpid())
        while not self._over.wait(0.05):
            self.looks += 1
            for folder in Path("/proc").iterdir():
                if not folder.name.isdecimal() or folder.name == own:
                    continue
                try:
                    line = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                self.found |= {name for name, value in CANARIES.items() if value.encode() in line}

    def stop(self) -> None:
        self._over.set()
        self.join()


def forms(value: str) -> list[bytes]:
    return [value.encode(), urllib.parse.quote(value, safe="").encode()]


def leaks(folder: Path) -> dict[str, list[str]]:
    """The canaries in the files below `folder`, also in those that are packed, and in the files' names."""
    found: dict[str, list[str]] = {}
    for path in folder.rglob("*"):
        texts = [str(path.relative_to(folder)).encode()]
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            texts.append(data)
            if data[:2] == b"\x1f\x8b":
                texts.append(gzip.decompress(data))
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    texts += [archive.read(name) for name in archive.namelist()]
        for name, value in CANARIES.items():
            if any(form in text for form in forms(value) for text in texts):
                found.setdefault(name, []).append(str(path.relative_to(folder)))
    return found


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        **CANARIES,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(folder / "code"),
        "WANDB_MODE": "offline",
        "HOME": str(folder),
        **more,
    }


@pytest.mark.faults
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_canaries_are_nowhere_after_runs_crashes_pages_and_failed_mirrors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    record_fault: Any,
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "telling.py").write_text(ENV)
    work = tmp_path / "work"
    work.mkdir()
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.chdir(work)
    listing = Listing()
    listing.start()
    said: list[str] = []

    def ludus(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["ludus", *arguments])
        code = main(list(arguments))
        out, err = capfd.readouterr()
        said.append(f"$ ludus {arguments[0]}\n{out}\n{err}")
        return code

    train = ["train", "--algo", "ppo", "--env", "telling:Telling-v0", *SMALL]
    try:
        with echoing() as address:
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
            assert ludus(*train, "total_timesteps=512", "vector=process", "name=well") == 0, said[-1]
            crash = [*train, "total_timesteps=4096", "env.kwargs.fails_at=120"]
            assert ludus(*crash, "vector=serial", "name=crashed") == 3, said[-1]
            # in a worker that is replaced until nobody believes in it any more
            assert ludus(*crash, "vector=process", "name=crashed-too") == 3, said[-1]
            # typed as $OPENAI_API_KEY and the like, which a shell fills in where nobody asks for it
            key, name, secret = (
                CANARIES[k] for k in ("OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            )
            typed = f"mirror=s3://{name}:{urllib.parse.quote(secret, safe='')}@bucket/runs"
            assert ludus(*train, "total_timesteps=128", typed) == 2, said[-1]
            assert ludus("match", f"openai:m?api_key={key}", "random", "--env", "TicTacToe-v0") == 2, said[-1]
            for arguments in (
                ["report", "well"],
                ["analyze", "well", "--episodes", "1"],
                ["runs", "--json"],
                ["mirror", "well", "s3://bucket/runs"],
                ["match", "openai:canary?retries=0", "random", "--env", "TicTacToe-v0", "--games", "2"],
                ["compare", "--env", "telling:Telling-v0", "--algos", "ppo,a2c", "--seeds", "1", *SMALL[:1],
                 "total_timesteps=512", "env.kwargs.fails_at=120", "--out", "compared"],
            ):  # fmt: skip
                ludus(*arguments)
            pages = ask_dashboard(work, environment(tmp_path))
    finally:
        listing.stop()
    output = "\n".join(said)
    shown = {name for name, value in CANARIES.items() for form in forms(value) if form.decode() in output}
    served = {name for name, value in CANARIES.items() if name != "LUDUS_UI_TOKEN" and value in pages}
    written = leaks(tmp_path)
    looks = 4 * len(CANARIES)
    bad = len(shown) + len(served) + len(written) + len(listing.found)
    record_fault("secrets: in files, output, pages, process list", looks, looks - bad)
    assert not written
    assert not shown, output
    assert not served
    assert not listing.found
    assert listing.looks > 20
    assert "401 for url" in output, "the env's own error is shown, all the same"
    assert "***" in output
    assert sum(1 for path in work.rglob("*") if path.is_file()) > 20


def ask_dashboard(folder: Path, env: dict[str, str]) -> str:
    """All the pages of `ludus ui` that a browser would open first, as text."""
    server = subprocess.Popen(
        [sys.executable, "-m", "ludus", "ui", "--port", "0", "--json"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        text = ""
        while not (found := re.search(r"http://127[^\s\"?]*", text)):
            line = server.stdout.readline()
            assert line, text
            text += line
        url = found.group()
        bearer = {"Authorization": f"Bearer {CANARIES['LUDUS_UI_TOKEN']}"}
        pages = ""
        deadline = time.monotonic() + 30
        while not pages and time.monotonic() < deadline:
            try:
                for path in ("", "api/runs"):
                    request = urllib.request.Request(url.rstrip("/") + "/" + path, headers=bearer)
                    pages += urllib.request.urlopen(request, timeout=10).read().decode()
            except OSError:
                time.sleep(0.1)
        assert pages
        return pages
    finally:
        server.kill()
        server.wait()


def test_a_secret_is_hidden_as_it_is_as_python_writes_it_and_as_an_address_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "a b/c\n'long'")
    assert without_secrets("key=a b/c\n'long'!") == "key=***!"
    assert without_secrets(repr({"k": "a b/c\n'long'"})) == """{'k': "***"}"""
    assert without_secrets("?key=a%20b%2Fc%0A%27long%27&x") == "?key=***&x"


def test_secrets_are_recognised_by_their_key() -> None:
    given = {
        "OPENAI_API_KEY": "0123456789",
        "DB_PASSWORD": "abcdefgh",
        "SOME_TOKEN_FILE": "/run/secrets/token",
        "SHORT_KEY": "abc",
        "KEYBOARD": "qwertyuiop",
        "TOKENIZERS_PARALLELISM": "false-or-not",
        "PATH": "/usr/bin",
    }
    assert secret_values(given) == ["0123456789", "abcdefgh"]


def test_log_hides_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ludus.tracking.logs import attach_log_file, detach

    monkeypatch.setenv("WANDB_API_KEY", CANARIES["WANDB_API_KEY"])
    handler = attach_log_file(tmp_path / "train.log")
    try:
        try:
            raise ValueError(f"refused: {CANARIES['WANDB_API_KEY']}")
        except ValueError:
            logging.getLogger("ludus.test").warning("it failed", exc_info=True)
    finally:
        detach(handler)
    text = (tmp_path / "train.log").read_text()
    assert "ValueError: refused: ***" in text
    assert CANARIES["WANDB_API_KEY"] not in text
