"""A curve drawn with block characters, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int, height: int = 1) -> list[str]:
    """`values`, spread over `width` columns, as `height` lines of text (top line first).

    The lowest value is one eighth of a line high, the highest fills all lines. A column without a value
    repeats the one before it; columns before the first value and after the last are blank.
    """
    columns = _columns(values, width)
    known = [value for value in columns if value is not None]
    if not known:
        return [" " * width] * height
    low, high = min(known), max(known)
    top = 8 * height
    levels = []
    for value in columns:
        if value is None:
            levels.append(0)
        elif high - low <= 1e-9 * max(
            abs(high), abs(low)
        ):  # a mean of equal values is not always equal to them
            levels.append(top // 2)
        else:
            levels.append(1 + round((value - low) / (high - low) * (top - 1)))
    return [
        "".join(_BLOCKS[min(max(level - 8 * line, 0), 8)] for level in levels)
        for line in reversed(range(height))
    ]


def _columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """The mean of the finite values in each of `width` equal slices, gaps between them filled."""
    count = len(values)
    columns: list[float | None] = []
    last_filled = 0
    for column in range(width):
        start = column * count // width
        stop = max(start + 1, (column + 1) * count // width)
        inside = [value for value in values[start:stop] if value is not None and math.isfinite(value)]
        if inside:
            columns.append(sum(inside) / len(inside))
            last_filled = column + 1
        else:
            columns.append(columns[-1] if columns else None)
    return columns[:last_filled] + [None] * (width - last_filled)
