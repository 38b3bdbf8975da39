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

TRY_AGAIN_AFTER = 32
AT_MOST_AFTER = 256
LATELY = 3


class CoreChoice:
    """Picks 1 or `most` cores for each call, by how long the last few calls took at best.

    The best time counts: a process that wakes up for a moment makes one call slow, and steady load makes all of them
    slow. The choice that was left is tried again after some calls, after twice as many each time that nothing comes of
    it. Only for kernels whose result does not depend on the choice. Calls are assumed to be of one size.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.cores = most
        self._lately: dict[int, deque[float]] = {1: deque(maxlen=LATELY), most: deque(maxlen=LATELY)}
        self._settled = most
        self._calls_left = self._wait = TRY_AGAIN_AFTER

    @contextmanager
    def choose(self) -> Iterator[int]:
        """The number of cores for the call that the with-block makes."""
        started = time.perf_counter()
        cores = self.cores
        yield cores
        if self.most > 1:
            self.took(cores, time.perf_counter() - started)

    def took(self, cores: int, seconds: float) -> None:
        """Take note of a call, and pick for the next one."""
        self._lately[cores].append(seconds)
        self._calls_left -= 1
        other = 1 if cores != 1 else self.most
        if not self._lately[other]:
            self.cores = other
        elif self._calls_left <= 0:
            self._lately[other].clear()  # what it took long ago says nothing
            self._calls_left = self._wait = min(2 * self._wait, AT_MOST_AFTER)
            self.cores = other
        else:
            self.cores = min(self._lately, key=lambda tried: min(self._lately[tried]))
            if self.cores != self._settled:
                self._settled = self.cores
                self._wait = TRY_AGAIN_AFTER
                self._calls_left = min(self._calls_left, self._wait)
