"""Compiled kernels: where they are kept, and a message while they are compiled.

numba stores compiled kernels next to the source, or else below the home directory. If it can write to neither, it
raises an error: then Ludus chooses another folder. Stored kernels are executed when they are loaded, so nobody else may
be able to write to that folder.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "NUMBA_CACHE_DIR"
_MESSAGE_SECONDS = 10.0  # between two messages
_log = logging.getLogger("ludus.kernels")


def ensure_kernel_cache_dir() -> None:
    """Tell numba where to keep what it compiles, if it would find no place by itself."""
    if os.environ.get(VARIABLE) or _writable(Path(__file__).parent) or _writable(_home_cache()):
        return
    folder = str(_private_folder())
    os.environ[VARIABLE] = folder  # for the processes that this one starts, too
    if "numba" in sys.modules:  # it has read the variable already
        from numba import config

        config.CACHE_DIR = folder  # type: ignore[attr-defined]  # numba makes its settings up as it goes


@cache
def announce_compiling() -> None:
    """Report kernels of Ludus that numba compiles from here on, instead of loading them from its cache."""
    from numba.core import event

    class Notice(event.Listener):
        """Reports the first kernel, then every few seconds the one that is being compiled."""

        def __init__(self) -> None:
            self._number, self._reported_at = 0, -_MESSAGE_SECONDS

        def on_start(self, event: Any) -> None:
            kernel = event.data["dispatcher"].py_func
            if not kernel.__module__.startswith("ludus."):
                return
            self._number += 1
            if time.monotonic() - self._reported_at < _MESSAGE_SECONDS:
                return
            self._reported_at = time.monotonic()
            if self._number == 1:
                _log.info("compiling kernels: about a minute, once on this machine")
            else:
                _log.info("compiling kernels: number %d, %s", self._number, kernel.__qualname__)

        def on_end(self, event: Any) -> None:
            """Nothing to report: another kernel may follow."""

    event.register("numba:compile", Notice())  # type: ignore[no-untyped-call]


def _home_cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache) if cache else Path(os.path.expanduser("~")) / ".cache"


def _writable(folder: Path) -> bool:
    """Return True if files can be created in `folder`, or the folder itself if it does not exist."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _private_folder() -> Path:
    """One folder for all processes of this user, so that a kernel is compiled once; a new one if that is not safe."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(tempfile.gettempdir()) / f"ludus-kernels-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if stat.S_ISDIR(found.st_mode) and own and not found.st_mode & 0o022:
            return folder
    except OSError:
        pass  # somebody has put something else there
    return Path(tempfile.mkdtemp(prefix="ludus-kernels-"))
