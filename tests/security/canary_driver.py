"""Runs commands of Ludus on hostile runs in a process of its own, and records what they do outside their folders.

`python canary_driver.py BASE` reads cases from stdin, one JSON object per line, and prints one result for each. Below
BASE are `good/` (runs as they were trained), `desk/` (the working directory, with the hostile copy `received`),
`outside/` (nothing in it may be touched), `home/` and `tmp/`. Python's audit hooks report every file that is opened,
every process, connection and listening socket, and every piece of code that is executed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BASE = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path()
DESK, OUTSIDE = BASE / "desk", BASE / "outside"
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "os.fork", "pty.spawn")
_PATHS = (
    "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link",
    "os.symlink", "os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.copyfile", "shutil.move",
)  # fmt: skip
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/bin", "/opt", "/run")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECONDS = 30


class Hung(BaseException):
    """A command that has not ended in time."""


class Observer:
    """Lists what was done outside, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.deeds: list[str] = []
        self._busy = False
        code = [Path(path) for path in sysconfig.get_paths().values()]
        source = importlib.util.find_spec("ludus")
        assert source is not None and source.origin is not None
        code += [
            Path(sys.prefix),
            Path(sys.base_prefix),
            Path(source.origin).parents[2],
            Path(__file__).parent,
        ]
        own = [DESK, BASE / "home", BASE / "tmp"]
        self._writable = tuple(f"{path}{os.sep}" for path in own)
        code += [Path(entry) for entry in sys.path if entry]
        places = [*code, *(path.resolve() for path in code), *map(Path, _SYSTEM)]
        self._readable = self._writable + tuple(f"{path}{os.sep}" for path in places)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or self._busy:
            return
        self._busy = True
        try:
            deed = self._judge(event, arguments)
            if deed is not None:
                self.deeds.append(f"{event}: {deed:.300}")
        finally:
            self._busy = False

    def _judge(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        if event in _STARTS:
            return None if arguments and arguments[0] == "uname" else repr(arguments[:2])
        if event in ("socket.connect", "socket.bind", "socket.sendto"):
            address = arguments[1]
            local = isinstance(address, tuple) and address[0] in _LOOPBACK
            return None if event == "socket.bind" and local else repr(address)
        if event in ("socket.getaddrinfo", "socket.gethostbyname"):
            return None if arguments[0] in (*_LOOPBACK, None) else repr(arguments[0])
        if event == "exec":
            file = str(getattr(arguments[0], "co_filename", ""))
            return file if file.startswith(str(BASE)) else None
        if event == "ctypes.dlopen":
            return str(arguments[0]) if str(arguments[0]).startswith(str(BASE)) else None
        if event == "open":
            mode, flags = arguments[1] or "", arguments[2] or 0
            writes = any(letter in str(mode) for letter in "wax+") or flags & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT
            )
            return self._leaves(arguments[0], self._writable if writes else self._readable)
        if event in _PATHS:
            found = [self._leaves(one, self._readable) for one in arguments[:2]]
            return next((one for one in found if one is not None), None)
        return None

    @staticmethod
    def _leaves(path: Any, allowed: tuple[str, ...]) -> str | None:
        """Return the path where it is outside the folders in `allowed`."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None  # an open descriptor
        text = os.path.abspath(os.fsdecode(path))
        if "__pycache__" in text and not text.startswith(str(BASE)):
            return None  # where Python and numba keep what they have compiled
        return None if f"{text}{os.sep}".startswith((*allowed, "/dev/null/")) else text


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def prepare(case: dict[str, Any]) -> None:
    """Put a copy of the run on the desk, changed as the case says, next to code that nobody may run."""
    from hostile_runs import newest, put

    from ludus.config.plain_yaml import read_yaml, write_yaml

    for left in DESK.iterdir():
        if left.name == case.get("keep"):
            continue
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    run = DESK / "received"
    shutil.copytree(BASE / "good" / case["run"], run)
    config, _ = read_yaml(run / "config.yaml")
    for dotted, value in case["changes"].items():
        node = config
        *sections, key = dotted.split(".")
        for section in sections:
            found = node[int(section)] if isinstance(node, list) else node.get(section)
            if not isinstance(found, dict | list):
                found = node[section] = {}
            node = found
        node[key] = value
    (run / "config.yaml").write_text(write_yaml(config))
    if case.get("info"):
        info = json.loads((run / "run.json").read_text())
        info.pop("sha256", None)
        (run / "run.json").write_text(json.dumps(info | case["info"]))
    (run / ".mirror").mkdir()
    if case.get("mirrored"):
        state = {"at": case["mirrored"], "loose": {}, "seen": {}}
        (run / ".mirror" / "state.json").write_text(json.dumps(state))
    if case.get("opponent"):
        state = json.loads((newest(run) / "state.json").read_text())
        hidden = {"kind": "version", "version": 1, "parent": "learner", "listed": True, "weight": 1000.0}
        state["league"]["members"] += [{"name": case["opponent"], **hidden}]
        state["league"]["ratings"][case["opponent"]] = [25.0, 8.0]
        put(run, "state.json", json.dumps(state).encode())
    payload = (BASE / "payload.py").read_text()
    for place in (run, DESK, DESK / "models"):
        place.mkdir(exist_ok=True)
        (place / "canary_code.py").write_text(payload)


def attempt(case: dict[str, Any], observer: Observer) -> dict[str, Any]:
    """Run the command of one case and return how it ended, what it printed, and what it did outside."""
    import gymnasium as gym

    from ludus.cli.app import main

    prepare(case)
    registered, modules, path = dict(gym.registry), set(sys.modules), list(sys.path)
    out, err = io.StringIO(), io.StringIO()
    observer.deeds.clear()
    try:
        with in_time(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            observer.on = True
            code = main(case["words"])
    except Hung:
        code = -1
    finally:
        observer.on = False
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BASE)):
            del sys.modules[name]
    gym.registry.clear()
    gym.registry.update(registered)
    sys.path[:] = path
    return {
        "code": code,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "deeds": list(dict.fromkeys(observer.deeds)),
    }


def drive() -> None:
    os.chdir(DESK)
    observer = Observer()
    sys.addaudithook(observer)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line), observer)), file=answers, flush=True)


if __name__ == "__main__":
    drive()
