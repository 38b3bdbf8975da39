"""Limits of the system on open files and memory. They are checked before a run starts."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ludus.errors import UserError

_SPARE_FILES = 32  # for checkpoints, metrics, modules that are imported late
LEAST_MEMORY = 1100 << 20  # measured: a small run needs 600 MiB, and as much address space again
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def require_open_files(more: int, what: str) -> None:
    """Ensure that `what` can open `more` files; raises the soft limit of this process if allowed.

    Raises UserError otherwise.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = _open_files() + more + _SPARE_FILES
        if soft == resource.RLIM_INFINITY or soft >= needed:
            return
        if hard == resource.RLIM_INFINITY or hard >= needed:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
                return
        raise UserError(
            f"this process may have {soft} files open at once, and {what} needs {needed}",
            where="the limit of open files",
            fix=f"raise it (ulimit -n {max(needed, 1024)}), or use fewer envs, or `vector: serial`",
        )


def memory_limit() -> int | None:
    """Return the memory limit in bytes, the least of machine, container and process limit; None if unknown."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(fields["MemTotal"].split()[0]) * 1024)
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" means no limit
            found.append(int(Path(path).read_text()))
    if sys.platform != "win32":
        import resource

        own = resource.getrlimit(resource.RLIMIT_AS)[0]
        if own != resource.RLIM_INFINITY:
            found.append(own)
    return min(found, default=None)


def require_memory_to_train() -> None:
    """Raise UserError if memory is too small to load torch and the kernels; the linker's own error is unclear."""
    limit = memory_limit()
    if limit is not None and limit < LEAST_MEMORY:
        raise UserError(
            f"this process can have {limit >> 20:,} MiB of memory, and training needs at least {LEAST_MEMORY >> 20:,}",
            where="the limit of memory",
            fix="raise it (ulimit -v, or that of the container)",
        )


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 16


def usable_cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
