"""Read files that may come from another person: only plain files, and only up to a maximum size.

Reading a pipe could block forever, a link could lead to files that the sender must not reach, and a very large file
could fill the memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_REFUSALS = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def is_refusal(error: BaseException) -> bool:
    """Return whether the machine refused to read now: no permission, too many open files, no memory.

    Nothing is known of the file then. It must not be called missing or damaged, nor be replaced by something older.
    """
    return isinstance(error, OSError) and error.errno in _REFUSALS


def open_plain(path: Path | str, *, links: bool = False) -> BinaryIO:
    """Open a plain file for reading. OSError if it does not exist or is not a plain file.

    `links`: the last part of `path` may be a link, as everything in the cache of a model hub is.
    """
    # non-blocking: opening a pipe must not wait for its writer
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags | (0 if links else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path | str, limit: int, *, links: bool = False) -> bytes:
    """The content of a plain file; OSError as for `open_plain`, and where it is longer than `limit`."""
    with open_plain(path, links=links) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return data


def way_out(folder: Path, *, besides: str = "") -> Path | None:
    """Return a path in `folder` that is a link to the outside, a pipe or a device; None if there is no such path.

    The subfolder `besides`, which another program owns, is not searched.
    """
    inside = os.path.realpath(folder)
    pending = [inside]
    while pending:
        # a folder that was removed, or cannot be opened, leads nowhere
        with contextlib.suppress(FileNotFoundError, PermissionError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if os.path.commonpath([inside, target]) != inside:
                        return folder / os.path.relpath(entry.path, inside)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.path != os.path.join(inside, besides):
                        pending.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    return folder / os.path.relpath(entry.path, inside)
    return None
