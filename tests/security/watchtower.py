"""Detect whether a payload did anything: by sentinel files, a forbidden folder, and Python's audit hooks.

`Watch` is put around a command. Payloads touch `pwned` if they are run; the folder `outside` holds secrets and a file
to be overwritten, and no path in it may be opened, listed, changed or printed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ludus.cli.app import main

SECRET = "TOP-SECRET-7f3a"
# what only code that was brought along, or a shell, would do
_DEEDS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "pty.spawn",
)
_OPENING = (
    "open",
    "os.listdir",
    "os.scandir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.chmod",
)
_HARMFUL = ("os", "posix", "subprocess", "shutil", "sys", "importlib", "runpy", "hostile_runs")
_watching: list[Watch] = []


@dataclass
class Watch:
    """One try. `here` is a folder of its own; `outside` in it is out of bounds."""

    here: Path
    deeds: list[str] = field(default_factory=list)
    may: tuple[str, ...] = ()
    """Deeds that the command does by itself."""

    def __post_init__(self) -> None:
        self.mark = self.here / "pwned"
        self.outside = self.here / "outside"
        (self.outside / "folder").mkdir(parents=True)
        for name in ("secret.txt", "secret.json", "folder/secret.log", "folder/secret.mp4"):
            (self.outside / name).write_text(f'{{"secret": "{SECRET}"}}\n')
        self._before = self._state()

    def run(self, *words: str) -> tuple[int, str]:
        """Run `ludus WORDS…`; return exit code and output. AssertionError if anything was run, touched or printed."""
        said = io.BytesIO()
        # as Python opens them: what cannot be encoded fails on stdout, and is written out on stderr
        out = io.TextIOWrapper(said, "utf-8", write_through=True)
        err = io.TextIOWrapper(said, "utf-8", "backslashreplace", write_through=True)
        with self.looking(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in words])
        text = said.getvalue().decode()
        self.check(text)
        return code, text

    def check(self, said: str = "") -> None:
        """AssertionError unless all is as it was."""
        assert not self.mark.exists(), "the payload was run"
        assert self.deeds == [], self.deeds
        assert self._state() == self._before, "the folder outside was changed"
        assert SECRET not in said, "a secret was printed"
        for path in self.here.rglob("*"):
            if self.outside not in path.parents and path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    assert SECRET.encode() not in file.read(8 << 20), f"a secret was copied to {path}"
        assert "Traceback" not in said, said[-3_000:]

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        _install()
        _watching.append(self)
        try:
            yield
        finally:
            _watching.remove(self)

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "pickle.find_class" and arguments[0] not in _HARMFUL:
            return  # numba reads what it has compiled before
        if event == "subprocess.Popen" and arguments[0] == "uname":
            return  # Python's own platform module
        if event in _DEEDS and event not in self.may:
            self.deeds.append(f"{event} {arguments!r:.200}")
        elif event in _OPENING:
            for one in arguments[:2]:
                if isinstance(one, str | bytes | os.PathLike) and self._is_outside(os.fsdecode(one)):
                    self.deeds.append(f"{event} {one!r}")

    def _is_outside(self, path: str) -> bool:
        # by its own name only: access through a link is detected by what was changed or printed
        return os.path.abspath(path).startswith(str(self.outside) + os.sep) or path == str(self.outside)

    def _state(self) -> dict[str, tuple[Any, ...]]:
        found: dict[str, tuple[Any, ...]] = {}
        for path in sorted(self.outside.rglob("*")):
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
        return found


_installed: list[Callable[..., None]] = []
_inside = threading.local()


def _install() -> None:
    if _installed:
        return

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _watching and not getattr(_inside, "busy", False) and (event in _DEEDS or event in _OPENING):
            _inside.busy = True
            try:
                for watch in list(_watching):
                    watch.saw(event, arguments)
            finally:
                _inside.busy = False

    sys.addaudithook(hook)  # for good: Python has no way to take one back
    _installed.append(hook)
