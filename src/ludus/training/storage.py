"""Failing disks: the first failures are logged, and the third in a row of one kind ends the run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ludus.errors import StorageError

_log = logging.getLogger("ludus.training")
MAX_FAILURES = 3


class Storage:
    """Counts failed writes to the run at `where`; `hint` says how to resume once the disk works again."""

    def __init__(self, where: Path, hint: Callable[[], str]) -> None:
        self._where = where
        self._hint = hint
        self._failures: Counter[str] = Counter()

    @contextmanager
    def tolerating(self, what: str, alarm: str) -> Iterator[None]:
        """Log an OSError as an alarm and continue training; the third in a row is a StorageError.

        `what` names the files that fail together, `alarm` says what is missing now and when it is tried again.
        """
        try:
            yield
        except OSError as error:
            self._failures[what] += 1
            if self._failures[what] >= MAX_FAILURES:
                raise self._ended(
                    f"{what} could not be saved {MAX_FAILURES} times in a row", error
                ) from error
            _log.error("ALARM: %s: %s. Training goes on", alarm, error)
        else:
            del self._failures[what]

    @contextmanager
    def requiring(self, what: str) -> Iterator[None]:
        """Turn an OSError into a StorageError: without `what` the run cannot continue, or has not ended well."""
        try:
            yield
        except OSError as error:
            raise self._ended(f"{what} could not be saved", error) from error

    def _ended(self, what: str, error: OSError) -> StorageError:
        hint = self._hint() or "no checkpoint was saved before: start the run again"
        return StorageError(
            f"{what}: {error}\n  where: {self._where}\n  fix:   mend or empty the disk; {hint}"
        )
