"""Memory that the driver shares with its workers: an anonymous file, mapped by both.

It has no name, in /dev/shm or anywhere else: it is gone with the last process that holds it, however that
dies.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile


def anonymous_file() -> int:
    """Return the descriptor of a new, empty file without a name, in memory if the system supports it."""
    if sys.platform == "linux":
        try:
            return os.memfd_create("ludus-batch")
        except (AttributeError, OSError):
            pass  # an old C library has no such call, a sandbox may forbid it
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def map_file(descriptor: int, nbytes: int) -> mmap.mmap:
    """Map the first `nbytes` of the file as shared memory; a shorter file grows."""
    if os.fstat(descriptor).st_size < nbytes:
        os.ftruncate(descriptor, nbytes)
    return mmap.mmap(descriptor, nbytes)
