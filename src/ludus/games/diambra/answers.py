"""An engine's answers, read by the official message class, though only where they differ from the one before.

Between two steps often nothing but the frame changes, and the protobuf that the client needs is pure Python: reading
the states of two fighters anew takes longer than all that Ludus does in a step, right when all engines answer at once.
"""

from __future__ import annotations

from typing import Any

from diambra.engine import model

_FIRST_FIELD = 0x0A  # on the wire: field 1, with its size. The observation is the answer's, the frame is its.


class AnswerReader:
    """Bytes to `StepResetResponse`, one engine's answers in turn. Each is valid until the next is read."""

    def __init__(self) -> None:
        self._around: tuple[bytes, bytes] | None = None
        self._response: Any = None

    def read(self, data: bytes) -> Any:
        """What `StepResetResponse.FromString(data)` returns; raises what that raises."""
        where = _find_frame(data)
        if where is None:
            return model.StepResetResponse.FromString(data)
        around = data[: where.start], data[where.stop :]
        if around == self._around:
            self._response.observation.frame = data[where]
            return self._response
        response = model.StepResetResponse.FromString(data)
        # of several frames in one message the last one counts
        alone = response.observation.frame == data[where]
        self._around, self._response = (around, response) if alone else (None, None)
        return response


def _find_frame(data: bytes) -> slice | None:
    """The place of a frame that an answer begins with, as it does when fields are written in their order."""
    try:
        if data[0] != _FIRST_FIELD:
            return None
        _, at = _size(data, 1)
        if data[at] != _FIRST_FIELD:
            return None
        size, at = _size(data, at + 1)
    except IndexError:
        return None
    return slice(at, at + size) if at + size <= len(data) else None


def _size(data: bytes, at: int) -> tuple[int, int]:
    """The number written at `at`, seven bits in a byte, and where it ends; IndexError where it does not."""
    size = 0
    for shift in range(0, 64, 7):  # protobuf's longest: a broken one would be read for minutes
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return size, at
    raise IndexError
