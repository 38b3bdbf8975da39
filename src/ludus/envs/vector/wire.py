"""The protocol of driver and worker: numbered frames over a socket pair.

A step's frames have no payload unless an env has infos; the arrays travel in shared memory.
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

_HEADER = struct.Struct("<BIQ")  # kind, number, length of the payload
_LONGEST_PAYLOAD = 1 << 34  # bytes: a longer one is not a frame of ours
_LEAST_RECEIVE, _MAX_RECEIVE = 1 << 12, 1 << 20  # bytes per receive


class Kind(IntEnum):
    """The kind of a frame: a command or an answer."""

    BUILD = 0  # payload: a `Blueprint`
    ATTACH = 1  # payload: the number of envs in the batch
    STEP = 2
    CALL = 3  # payload: (method of EnvChunk, its arguments)
    CLOSE = 4
    DONE = 5  # payload: the result, or nothing for an empty list
    ERROR = 6  # payload: a LudusError


class Garbage(EOFError):
    """The received bytes are not a frame, because something else writes to the socket."""


class Channel:
    """Sends and receives whole frames. An interrupted receive loses nothing."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = bytearray()

    def send(self, kind: Kind, number: int, payload: bytes = b"", *, timeout: float | None = None) -> None:
        """Send a frame. Raises TimeoutError if the other end does not receive it, OSError if it is closed."""
        self._socket.settimeout(timeout)
        self._socket.sendall(_HEADER.pack(kind, number, len(payload)) + payload)

    def receive(self, deadline: float | None = None) -> tuple[Kind, int, bytes]:
        """Return the next frame: kind, number, payload.

        Raises TimeoutError past `deadline` (of `time.monotonic`), EOFError or OSError when the other end
        is gone, and Garbage, an EOFError, when the received bytes are invalid.
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
            # an answer that has already arrived is read even after the deadline
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            self._socket.settimeout(left)
            data = self._socket.recv(min(max(missing, _LEAST_RECEIVE), _MAX_RECEIVE))
            if not data:
                raise EOFError
            received += data

    def readable(self) -> bool:
        """Return whether data or the end of the stream has arrived."""
        return bool(self._received) or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


def pack(value: Any) -> bytes:
    """Pickle `value`. Raises what pickling raises."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # cloudpickle is slower, but accepts lambdas and classes of __main__
        return bytes(cloudpickle.dumps(value))


def unpack(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301  # from our own child or parent, never from a file


class Later:
    """A pickled registration of the user, unpickled on first use because that imports its modules."""

    def __init__(self, value: Any) -> None:
        self._packed = bytes(cloudpickle.dumps(value))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return unpack(self._packed)(*args, **kwargs)

    @property
    def metadata(self) -> Any:
        """Gymnasium reads it before it builds an env."""
        return getattr(unpack(self._packed), "metadata", {})


def unpack_answer(payload: bytes) -> Any:
    """Unpickle the answer of a worker; no bytes are an empty list. Raises Garbage if it cannot be read."""
    try:
        return unpack(payload) if payload else []
    except Exception as error:  # unpickling foreign bytes may raise anything
        raise Garbage from error
