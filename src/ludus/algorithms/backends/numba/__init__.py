"""Fused CPU kernels for MLP policies: a whole update, or a whole decision, in one compiled call.

They work in place on the memory of the torch parameters and of the torch optimizer's moments. The torch
learners stay the reference; tests hold the kernels to them.

`CoreChoice` finds out whether a second core helps: on a busy machine two cores that wait for each other are far slower.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

RETRY_AFTER_CALLS = 32
MAX_RETRY_AFTER_CALLS = 256
CALLS_KEPT = 3


class CoreChoice:
    """Picks 1 or `max_cores` cores for each call, by how long the last few calls took at best.

    The best time counts: a process that wakes up for a moment makes one call slow, and steady load makes all of them
    slow. The choice that was left is tried again after some calls, after twice as many each time that nothing comes of
    it. Only for kernels whose result does not depend on the choice. Calls are assumed to be of one size.
    """

    def __init__(self, max_cores: int) -> None:
        self.max_cores = max_cores
        self.cores = max_cores
        self._recent: dict[int, deque[float]] = {
            1: deque(maxlen=CALLS_KEPT),
            max_cores: deque(maxlen=CALLS_KEPT),
        }
        self._settled = max_cores
        self._calls_left = self._wait = RETRY_AFTER_CALLS

    @contextmanager
    def choose(self) -> Iterator[int]:
        """The number of cores for the call that the with-block makes."""
        started = time.perf_counter()
        cores = self.cores
        yield cores
        if self.max_cores > 1:
            self.took(cores, time.perf_counter() - started)

    def took(self, cores: int, seconds: float) -> None:
        """Take note of a call, and pick for the next one."""
        self._recent[cores].append(seconds)
        self._calls_left -= 1
        other = 1 if cores != 1 else self.max_cores
        if not self._recent[other]:
            self.cores = other
        elif self._calls_left <= 0:
            self._recent[other].clear()  # what it took long ago says nothing
            self._calls_left = self._wait = min(2 * self._wait, MAX_RETRY_AFTER_CALLS)
            self.cores = other
        else:
            self.cores = min(self._recent, key=lambda tried: min(self._recent[tried]))
            if self.cores != self._settled:
                self._settled = self.cores
                self._wait = RETRY_AFTER_CALLS
                self._calls_left = min(self._calls_left, self._wait)
