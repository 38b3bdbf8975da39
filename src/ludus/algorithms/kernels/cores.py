"""Whether a second core helps right now. On a busy machine two cores that wait for each other are far slower."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

TRY_AGAIN_AFTER = 64


class CoreChoice:
    """Picks 1 or `most` cores for each call, by how long calls took lately.

    Only for kernels whose result does not depend on the choice. Calls are assumed to be of one size.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.cores = most
        self._seconds: dict[int, float] = {}
        self._calls = 0

    @contextmanager
    def choose(self) -> Iterator[int]:
        """The number of cores for the call that the with-block makes."""
        started = time.perf_counter()
        cores = self.cores
        yield cores
        if self.most == 1:
            return
        self._seconds[cores] = time.perf_counter() - started
        self._calls += 1
        if len(self._seconds) < 2 or self._calls % TRY_AGAIN_AFTER == 0:
            self.cores = 1 if cores != 1 else self.most
        else:
            self.cores = min(self._seconds, key=lambda tried: self._seconds[tried])
