"""The journal of a study, which several processes write to; each may be killed at any time.

Optuna's own lock is the existence of a file: if a killed process leaves it behind, everything waits for half a minute.
And an incomplete line of such a process would make the journal unreadable. Needs Optuna.
"""

from __future__ import annotations

import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ludus.posix import lock_file

_LONGEST_LINE = 1 << 20


def open_journal(path: Path) -> JournalStorage:
    """Return the storage of a study in the file `path`, which is created if needed."""
    return JournalStorage(JournalFileBackend(str(path), lock_obj=_KernelLock(path)))


class _KernelLock(JournalFileOpenLock):
    """A kernel lock (flock), which is released when its process dies. Taking it removes an incomplete line."""

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self._journal = journal
        self._descriptor = -1

    def acquire(self) -> bool:
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock_file(descriptor)
            _drop_unfinished_line(self._journal)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        os.close(self._descriptor)


def _drop_unfinished_line(path: Path) -> None:
    """Remove an incomplete last line: we hold the lock, so its writer is dead."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(size - _LONGEST_LINE, 0)
        file.seek(start)
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(start + tail.rfind(b"\n") + 1)
