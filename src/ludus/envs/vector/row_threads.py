"""Work on the rows of a large batch, a part on each core.

Thousands of observations are tens of megabytes. To read or copy them with one thread takes longer than to play the
step that gave them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ludus.envs.vector.part_threads import part_threads
from ludus.runs.limits import usable_cores
from ludus.types import Array

LARGE = 1 << 23
"""Size in bytes from which several threads are faster."""

Result = TypeVar("Result")


def on_rows(array: Array, work: Callable[[slice], Result]) -> list[Result]:
    """Call `work` for parts of the rows of `array`, on several threads. It should release the GIL."""
    parts = usable_cores() if array.nbytes >= LARGE else 1
    if parts == 1:
        return [work(slice(0, len(array)))]
    edges = [len(array) * k // parts for k in range(parts + 1)]
    return part_threads(parts).begin(work, list(map(slice, edges, edges[1:])))()
