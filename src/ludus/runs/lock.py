"""One process trains a run at a time.

The lock is the kernel's (flock), not the file's existence: it ends with the process that holds it, however
that process ends, so a `run.lock` left behind means nothing.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import sys
import time
import weakref
from pathlib import Path
from types import TracebackType

from ludus.errors import UserError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_log = logging.getLogger("ludus.runs")
_FAR_AWAY = 1 << 30  # msvcrt locks bytes, and locked bytes cannot be read: lock one beyond the text
# do not follow links, because the lock file is written to; do not block on a pipe
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_TRIES, _PAUSE = 15, 0.02
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLock:
    """Context manager that holds `run.lock` in the run directory `path`; UserError if another holds it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path) / "run.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        descriptor = os.open(self.path, _OPEN | os.O_CREAT, 0o666)
        try:
            _lock_patiently(descriptor)
        except OSError as error:
            if error.errno in _TAKEN:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise UserError(
                    f"run is in use by {holder}",
                    where=str(self.path.parent),
                    fix="wait for it to end, or stop it first",
                ) from None
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                os.close(descriptor)
                raise
            _log.warning(
                "the file system of %s does not support locks: this run is not protected against a second process",
                self.path.parent,
            )
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        self._descriptor = descriptor
        _held.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would race with the next holder.
        if self._descriptor is not None:
            _unlock(self._descriptor)
            self.close_descriptor()

    def close_descriptor(self) -> None:
        """Close this process's descriptor. The lock stays if another process shares it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path | str) -> bool:
    """Return True if a process holds the lock of the run directory `path`. The check locks it for a moment."""
    try:
        descriptor = os.open(Path(path) / "run.lock", _OPEN)
    except OSError:
        return False
    try:
        _lock(descriptor, shared=True)
        _unlock(descriptor)
    except OSError as error:
        return error.errno in _TAKEN
    finally:
        os.close(descriptor)
    return False


def holder(path: Path | str) -> tuple[int, str] | None:
    """Return process id and host of the process that locks the run directory `path`; None if it is not locked."""
    if not is_locked(path):
        return None
    try:
        text = (Path(path) / "run.lock").read_text("utf-8", errors="replace")[:300]
    except OSError:
        return None
    pid, _, host = text.strip().partition(" ")
    return (int(pid), host) if pid.isascii() and pid.isdecimal() else None


def _lock_patiently(descriptor: int) -> None:
    """Like `_lock`, with retries: a check by `is_locked` holds the lock for a moment."""
    for _ in range(_TRIES - 1):
        try:
            _lock(descriptor)
            return
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        time.sleep(_PAUSE)
    _lock(descriptor)


def _holder(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    pid, _, host = os.read(descriptor, 300).decode(errors="replace").strip().partition(" ")
    return f"process {pid} on {host}" if pid.isdecimal() else "another process"


if sys.platform == "win32":

    def _lock(descriptor: int, shared: bool = False) -> None:
        os.lseek(descriptor, _FAR_AWAY, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR_AWAY, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _lock(descriptor: int, shared: bool = False) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _drop_in_forked_child() -> None:
        """Close the descriptor in a forked worker, which would otherwise hold the lock after its parent's death."""
        for lock in list(_held):
            lock.close_descriptor()

    os.register_at_fork(after_in_child=_drop_in_forked_child)
