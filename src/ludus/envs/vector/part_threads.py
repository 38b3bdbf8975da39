"""Threads that share out the parts of one call, thousands of times a second.

For compiled work that lets go of the interpreter's lock and takes a millisecond or less. A pool that makes a future
for every part takes longer than that to hand it out and hear of its end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


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
