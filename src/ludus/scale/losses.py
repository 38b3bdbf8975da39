"""Count lost workers, and end the run when there are too many."""

from __future__ import annotations

import logging
import time
from collections import deque

from ludus.errors import CollectorsLost
from ludus.scale.cluster import keep_logs

_log = logging.getLogger("ludus.scale")
_WITHIN_SECONDS = 3600.0


class Losses:
    """Counter of lost workers. A run tolerates `max_lost` of them within an hour."""

    def __init__(self, max_lost: int) -> None:
        self.total = 0
        self._max_lost = max_lost
        self._when: deque[float] = deque()

    def count(self, cause: str) -> None:
        """Count one more loss. CollectorsLost, with its cause, if that is one too many."""
        keep_logs()
        now = time.monotonic()
        self.total += 1
        self._when.append(now)
        while self._when and now - self._when[0] > _WITHIN_SECONDS:
            self._when.popleft()
        _log.warning("%s (%d within an hour, %d are tolerated)", cause, len(self._when), self._max_lost)
        if len(self._when) > self._max_lost:
            raise CollectorsLost(
                f"{len(self._when)} workers were lost within an hour, the last: {cause}",
                where="scale.max_failures",
                fix="check the cause in logs/train.log and in Ray's logs on that machine; then resume the run",
            )
