"""Threads that share out the parts of one call, thousands of times a second, and work on the rows of large arrays.

For compiled work that releases the GIL and takes a millisecond or less. A pool that makes a future for every part takes
longer than that to start and finish it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

from ludus.runs.limits import usable_cores
from ludus.types import Array

Part = TypeVar("Part")
Result = TypeVar("Result")

LARGE = 1 << 23
"""Size in bytes from which several threads are faster."""


class PartThreads:
    """`number` threads that exit with the process; several callers may use them at once."""

    def __init__(self, number: int) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        for k in range(number):
            threading.Thread(target=self._work, name=f"ludus-part-{k}", daemon=True).start()

    def begin(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> Callable[[], list[Result]]:
        """Start `work` on each part. Returns a function that waits and returns the results in their order.

        The first error is raised there, when all have ended.
        """
        results: list[Any] = [None] * len(parts)
        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def do(k: int) -> None:
            try:
                results[k] = work(parts[k])
            except BaseException as error:  # raised by the function that waits
                ended.put(error)
            else:
                ended.put(None)

        def wait() -> list[Result]:
            errors = [ended.get() for _ in parts]
            first = next((error for error in errors if error is not None), None)
            if first is not None:
                raise first
            return results

        for k in range(len(parts)):
            self._waiting.put(lambda k=k: do(k))  # type: ignore[misc]  # mypy takes no default for a lambda
        return wait

    def _work(self) -> None:
        while True:
            self._waiting.get()()


@cache
def part_threads(number: int) -> PartThreads:
    """Return the threads of this process; there is one set for each number."""
    return PartThreads(number)


if hasattr(os, "register_at_fork"):  # a forked process has no threads
    os.register_at_fork(after_in_child=part_threads.cache_clear)


def on_rows(array: Array, work: Callable[[slice], Result]) -> list[Result]:
    """Call `work` for parts of the rows of `array`, on several threads. It should release the GIL."""
    parts = usable_cores() if array.nbytes >= LARGE else 1
    if parts == 1:
        return [work(slice(0, len(array)))]
    edges = [len(array) * k // parts for k in range(parts + 1)]
    return part_threads(parts).begin(work, list(map(slice, edges, edges[1:])))()
