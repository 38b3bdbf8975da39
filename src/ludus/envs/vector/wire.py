"""What driver and worker say to each other: numbered frames over a socket pair.

A step's frames carry no payload unless an env has an info to tell; the arrays travel in shared memory.
Payloads are pickled: both ends are one program, the worker is our own child, and nothing is read from a file.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from enum import IntEnum
from typing import Any

import cloudpickle

from ludus.errors import LudusError

_HEADER = struct.Struct("<BIQ")  # kind, number, length of the payload
_LONGEST_PAYLOAD = 1 << 34  # bytes: what claims to be longer is no frame of ours
_LEAST_RECEIVE, _MOST_RECEIVE = 1 << 12, 1 << 20  # bytes asked for at once


class Kind(IntEnum):
    """What a frame asks for, or answers."""

    BUILD = 0  # payload: a `Blueprint`
    ATTACH = 1  # payload: the number of envs in the batch
    STEP = 2
    CALL = 3  # payload: (method of EnvChunk, its arguments)
    CLOSE = 4
    DONE = 5  # payload: the result, or nothing for an empty list
    ERROR = 6  # payload: a LudusError in parts


class Garbage(EOFError):
    """What arrived is no frame: something else writes there, and there is no telling where the next frame begins."""


class Channel:
    """Sends and receives whole frames; a receive that was interrupted loses nothing."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = bytearray()

    def send(self, kind: Kind, number: int, payload: bytes = b"", *, timeout: float | None = None) -> None:
        """Raises TimeoutError when the other end does not take the frame, OSError when it is gone."""
        self._socket.settimeout(timeout)
        self._socket.sendall(_HEADER.pack(kind, number, len(payload)) + payload)

    def receive(self, deadline: float | None = None) -> tuple[Kind, int, bytes]:
        """The next frame: kind, number, payload.

        Raises TimeoutError past `deadline` (of `time.monotonic`), EOFError or OSError when the other end
        is gone, and Garbage, an EOFError, when what it sends makes no sense.
        """
        received = self._received
        missing = 0
        while True:
            if len(received) >= _HEADER.size:
                kind, number, length = _HEADER.unpack_from(received)
                if kind >= len(Kind) or length > _LONGEST_PAYLOAD:
                    raise Garbage
                end = _HEADER.size + length
                if len(received) >= end:
                    payload = bytes(received[_HEADER.size : end])
                    del received[:end]
                    return Kind(kind), number, payload
                missing = end - len(received)
            # an answer that is already there is taken even when the deadline has passed
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            self._socket.settimeout(left)
            data = self._socket.recv(min(max(missing, _LEAST_RECEIVE), _MOST_RECEIVE))
            if not data:
                raise EOFError
            received += data

    def readable(self) -> bool:
        """Whether something has arrived, be it the end."""
        return bool(self._received) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


def pack(value: Any) -> bytes:
    """Bytes of `value`; raises whatever pickling raises when it cannot leave its process."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (
        Exception
    ):  # what the quick pickler refuses (lambdas, classes of __main__), the thorough one may take
        return bytes(cloudpickle.dumps(value))


def unpack(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301  # from our own child or parent, never from a file


class Later:
    """What a user registered, as bytes until it is asked for: reading them imports the modules it stands in."""

    def __init__(self, value: Any) -> None:
        self._packed = bytes(cloudpickle.dumps(value))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return unpack(self._packed)(*args, **kwargs)

    @property
    def metadata(self) -> Any:
        """Gymnasium reads it before it builds an env."""
        return getattr(unpack(self._packed), "metadata", {})


def pack_error(error: LudusError) -> bytes:
    """Bytes of an error, in parts: its constructor need not take the arguments that pickle would give it."""
    return pack((type(error), error.args, error.__dict__))


def unpack_answer(payload: bytes) -> Any:
    """What a worker answered, nothing being an empty list. Raises Garbage when it cannot be read."""
    try:
        return unpack(payload) if payload else []
    except Exception as error:  # bytes that something else wrote can raise anything
        raise Garbage from error


def unpack_error(payload: bytes) -> LudusError:
    kind, args, fields = unpack_answer(payload)
    error: LudusError = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error
