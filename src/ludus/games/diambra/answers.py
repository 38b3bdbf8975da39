"""Fast decoding of an engine's answers: only the parts that changed since the last answer are parsed.

Often only the frame changes between two steps, and the protobuf version that the client needs is pure Python. Parsing
the states of two fighters takes longer than everything else Ludus does in a step, when all engines answer at once.
"""

from __future__ import annotations

from typing import Any

from diambra.engine import model

_FIRST_FIELD = (
    0x0A  # wire format: field 1 with a length. It is the answer's observation, and the observation's frame.
)


class AnswerReader:
    """Decodes the answers of one engine to `StepResetResponse`. A result is valid until the next `read`."""

    def __init__(self) -> None:
        self._around: tuple[bytes, bytes] | None = None
        self._response: Any = None

    def read(self, data: bytes) -> Any:
        """Return `StepResetResponse.FromString(data)`, with the same errors."""
        where = _find_frame(data)
        if where is None:
            return model.StepResetResponse.FromString(data)
        around = data[: where.start], data[where.stop :]
        if around == self._around:
            self._response.observation.frame = data[where]
            return self._response
        response = model.StepResetResponse.FromString(data)
        # if a message has several frames, the last one counts
        alone = response.observation.frame == data[where]
        self._around, self._response = (around, response) if alone else (None, None)
        return response


def _find_frame(data: bytes) -> slice | None:
    """Return the position of a frame at the start of an answer, where it is if fields are written in order."""
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
    """Decode the varint at `at`; return it and its end. IndexError if it does not end."""
    size = 0
    for shift in range(0, 64, 7):  # the longest varint of protobuf; an invalid one must not be read further
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return size, at
    raise IndexError
