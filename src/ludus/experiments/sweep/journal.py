"""The journal of a study, on which several processes write and any of them may be killed at any moment.

Optuna's own lock is a file that exists: one left behind by a killed process stops everybody for half a minute. And
half a line, left behind by the same process, would make the journal unreadable for good. Needs Optuna.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

_LONGEST_LINE = 1 << 20


def open_journal(path: Path) -> JournalStorage:
    """The storage for a study in the file `path`, which is made if it is not there."""
    return JournalStorage(JournalFileBackend(str(path), lock_obj=_KernelLock(path)))


class _KernelLock(JournalFileOpenLock):
    """Held by the kernel (flock), so that it ends with its process; who takes it finds whole lines only."""

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self._journal = journal
        self._descriptor = -1

    def acquire(self) -> bool:
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _drop_unfinished_line(self._journal)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        os.close(self._descriptor)


def _drop_unfinished_line(path: Path) -> None:
    """Whoever wrote it is dead, for the lock is ours: what it meant to say was never said."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(size - _LONGEST_LINE, 0)
        file.seek(start)
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(start + tail.rfind(b"\n") + 1)
