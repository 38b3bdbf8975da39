"""Files that exist whole or not at all.

Everything in this folder touches the disk through the small functions below, called as `atomic.rename(…)`,
so a fault test can replace one of them and make any single operation fail or end the process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

TEMPORARY_PREFIX = ".tmp-"
"""Names of unfinished things: `.tmp-<what>-<pid>`."""


def make_directory(path: Path) -> None:
    """Create one directory; FileExistsError if something of that name is there."""
    path.mkdir()


def write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def write_by(path: Path, writer: Callable[[Path], object]) -> None:
    """Let `writer` write the file itself, for libraries that stream large files to a path."""
    writer(path)


def sync(path: Path) -> None:
    """Return once the file's content, or the directory's list of names, is on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows has no way to sync a directory
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename in one step; a file at `target` is replaced, a non-empty directory there is an OSError."""
    os.replace(source, target)


def remove(path: Path) -> None:
    """Delete a file, or a directory with all it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def fsync_directory(path: Path | str) -> None:
    """Make the names in a directory (creations, renames, deletions) survive a power cut."""
    sync(Path(path))


def write_atomic(path: Path | str, data: bytes | str) -> None:
    """Write a file so that a reader, now or after a crash, finds the old content or the new, never a part."""
    path = Path(path)
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{threading.get_ident()}-{os.getpid()}")
    try:
        write_bytes(temporary, data.encode() if isinstance(data, str) else data)
        sync(temporary)
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    fsync_directory(path.parent)


def remove_stale_temporaries(directory: Path) -> None:
    """Remove what dead processes, or a failed write of this one, left unfinished in `directory`."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
        owner = path.name.rpartition("-")[2]
        if owner.isdecimal() and (int(owner) == os.getpid() or not is_alive(int(owner))):
            remove(path)


def is_alive(pid: int) -> bool:
    if sys.platform != "win32":  # os.kill(pid, 0) would end the process there
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass  # alive, and owned by another user
    return True
