"""Calls that only POSIX systems have, under names that Windows knows too: using them there raises UserError.

Parts that need it (worker processes, several trainings at a time, the dashboard) are imported everywhere, and say what
is missing when they are used. docs/reference/platforms.md lists them.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import IO

from ludus.errors import UserError

HAS_FILE_LOCKS = sys.platform != "win32"

if sys.platform == "win32":
    SIGKILL = SIGHUP = signal.SIGTERM
    O_CLOEXEC = O_DIRECTORY = O_NOFOLLOW = O_NONBLOCK = 0

    def kill_group(group: int) -> None:
        """Kill every process of a group."""
        raise _unsupported("process groups")

    def leads_group() -> bool:
        """Return whether this process leads its group."""
        return False

    def lock_file(file: int | IO[str], *, wait: bool = True) -> None:
        """Lock an open file, for as long as it is open."""
        raise _unsupported("file locks of the kernel")

    def page_size() -> int:
        """Return the bytes of a page of memory."""
        raise OSError("unknown")

    def physical_memory() -> int:
        """Return the bytes of this machine's memory. Raises OSError where the system does not say."""
        raise OSError("unknown")

    def open_files_limit() -> int | None:
        """Return how many files this process may open; None: no limit."""
        return None

    def peak_memory_of_children() -> float:
        """Return the peak memory, in KiB, of any child that has exited."""
        return 0.0

else:
    import fcntl
    import resource

    SIGKILL, SIGHUP = signal.SIGKILL, signal.SIGHUP
    O_CLOEXEC, O_DIRECTORY = os.O_CLOEXEC, os.O_DIRECTORY
    O_NOFOLLOW, O_NONBLOCK = os.O_NOFOLLOW, os.O_NONBLOCK

    def kill_group(group: int) -> None:
        """Kill every process of a group; 0: this process's own."""
        os.killpg(group, SIGKILL)

    def leads_group() -> bool:
        """Return whether this process leads its group."""
        return os.getpgrp() == os.getpid()

    def lock_file(file: int | IO[str], *, wait: bool = True) -> None:
        """Lock an open file, for as long as it is open. BlockingIOError if another has it and `wait` is false."""
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def page_size() -> int:
        """Return the bytes of a page of memory."""
        return os.sysconf("SC_PAGE_SIZE")

    def physical_memory() -> int:
        """Return the bytes of this machine's memory. Raises OSError or ValueError where the system does not say."""
        return page_size() * os.sysconf("SC_PHYS_PAGES")

    def open_files_limit() -> int | None:
        """Return how many files this process may open; None: no limit."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return None if soft == resource.RLIM_INFINITY else soft

    def peak_memory_of_children() -> float:
        """Return the peak memory, in KiB, of any child that has exited."""
        held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return held / 1024 if sys.platform == "darwin" else held


def _unsupported(what: str) -> UserError:
    return UserError(f"this needs {what}, which Windows does not have", fix="use Linux or macOS, or WSL")
