"""Frames of the ROS-TCP protocol: a destination and a payload, each preceded by its length, with size limits.

Destinations that begin with two underscores are commands with JSON or text; an empty one is a keepalive.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_DESTINATION = 1_024
LONGEST_COMMAND = 64 * 1_024
LONGEST_PAYLOAD = 16 * 1_024 * 1_024

HANDSHAKE = "__handshake"
UNITY_SERVICE = "__unity_service"
REQUEST = "__request"
RESPONSE = "__response"
LOGS = {"__log": "info", "__warn": "warning", "__warning": "warning", "__error": "error"}
PROTOCOL = {"version": "v0.7.0", "metadata": json.dumps({"protocol": "ROS2"})}

_LENGTH = struct.Struct("<I")


class FrameError(ValueError):
    """Bytes that are not a frame of this protocol."""


@dataclass(frozen=True)
class Frame:
    """One frame, without the final NUL that Unity may add to strings."""

    destination: str
    payload: bytes

    @property
    def is_keepalive(self) -> bool:
        return not self.destination

    @property
    def is_command(self) -> bool:
        return self.destination.startswith("__")

    def text(self) -> str:
        """Return the text of a log frame: plain, or the field `text` of a JSON object."""
        plain = self.payload.decode("utf-8", errors="replace").rstrip("\0")
        with contextlib.suppress(FrameError):
            return str(self.json().get("text", plain))
        return plain

    def json(self) -> dict[str, Any]:
        """Return the payload of a command. FrameError if it is not a JSON object."""
        try:
            found = json.loads(self.payload.decode("utf-8").rstrip("\0"))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FrameError(f"{self.destination}: expected a JSON object, got {self.payload[:60]!r}")
        return found


def pack_frame(destination: str, payload: bytes = b"") -> bytes:
    name = destination.encode("utf-8")
    return _LENGTH.pack(len(name)) + name + _LENGTH.pack(len(payload)) + payload


def pack_command(destination: str, content: Mapping[str, Any]) -> bytes:
    return pack_frame(destination, json.dumps(content).encode("utf-8"))


KEEPALIVE = pack_frame("")


class FrameParser:
    """Splits incoming bytes into frames. It buffers at most one frame, within the size limits."""

    def __init__(self, longest: int = LONGEST_PAYLOAD) -> None:
        self._longest = longest
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes. FrameError if a length exceeds its limit, before buffering it."""
        held = self._held
        held += data
        start = 0
        try:
            while (end := self._end(start)) is not None:
                middle = start + 4 + _LENGTH.unpack_from(held, start)[0]
                yield Frame(_name(held[start + 4 : middle]), bytes(held[middle + 4 : end]))
                start = end
        finally:
            del held[:start]

    def _end(self, start: int) -> int | None:
        """Return the end of the frame that begins at `start`; None while it is incomplete."""
        held = self._held
        if len(held) < start + 4:
            return None
        size = _LENGTH.unpack_from(held, start)[0]
        if size > LONGEST_DESTINATION:
            raise FrameError(f"a destination of {size:,} bytes, expected at most {LONGEST_DESTINATION:,}")
        middle = start + 4 + size
        if len(held) < middle + 4:
            if len(held) >= middle:
                _name(held[start + 4 : middle])  # raises early if it is invalid
            return None
        size = _LENGTH.unpack_from(held, middle)[0]
        most = LONGEST_COMMAND if held.startswith(b"__", start + 4) else self._longest
        if size > most:
            name = _name(held[start + 4 : middle])
            raise FrameError(f"a payload of {size:,} bytes for '{name}', expected at most {most:,}")
        end = middle + 4 + int(size)
        return end if len(held) >= end else None


def _name(raw: bytearray) -> str:
    try:
        return raw.decode("utf-8").rstrip("\0")
    except UnicodeDecodeError:
        raise FrameError("the destination is not UTF-8") from None


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Read the next frame of a stream.

    Raises asyncio.IncompleteReadError if the peer closes the connection, and OSError if the connection breaks.
    """
    parser = FrameParser()
    head = await reader.readexactly(4)
    list(parser.feed(head))
    name = await reader.readexactly(_LENGTH.unpack(head)[0] + 4)
    for frame in parser.feed(name):
        return frame
    return next(parser.feed(await reader.readexactly(_LENGTH.unpack(name[-4:])[0])))
