"""Frames of the ROS-TCP protocol: a destination and a payload, each after its length; limits against hostile ones.

Destinations that begin with two underscores are commands with JSON or text; an empty one keeps the line alive.
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
    """Bytes that are no frame of this protocol."""


@dataclass(frozen=True)
class Frame:
    """One frame, without the NUL that Unity may count into its texts."""

    destination: str
    payload: bytes

    @property
    def is_keepalive(self) -> bool:
        return not self.destination

    @property
    def is_command(self) -> bool:
        return self.destination.startswith("__")

    def text(self) -> str:
        """The payload of a log: plain, or as `text` in the JSON that commands carry."""
        plain = self.payload.decode("utf-8", errors="replace").rstrip("\0")
        with contextlib.suppress(FrameError):
            return str(self.json().get("text", plain))
        return plain

    def json(self) -> dict[str, Any]:
        """The payload of a command; FrameError when it is not an object."""
        try:
            found = json.loads(self.payload.decode("utf-8").rstrip("\0"))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FrameError(f"{self.destination} carries no JSON object: {self.payload[:60]!r}")
        return found


def pack_frame(destination: str, payload: bytes = b"") -> bytes:
    name = destination.encode("utf-8")
    return _LENGTH.pack(len(name)) + name + _LENGTH.pack(len(payload)) + payload


def pack_command(destination: str, content: Mapping[str, Any]) -> bytes:
    return pack_frame(destination, json.dumps(content).encode("utf-8"))


KEEPALIVE = pack_frame("")


class FrameParser:
    """Frames out of bytes as they arrive. Holds one frame at the most, and no more than the limits allow."""

    def __init__(self, longest: int = LONGEST_PAYLOAD) -> None:
        self._longest = longest
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. FrameError for lengths beyond the limits, before so much is held."""
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
        """Where the frame that begins at `start` ends; None while it is not all there."""
        held = self._held
        if len(held) < start + 4:
            return None
        size = _LENGTH.unpack_from(held, start)[0]
        if size > LONGEST_DESTINATION:
            raise FrameError(
                f"a destination of {size:,} bytes; no more than {LONGEST_DESTINATION:,} are taken"
            )
        middle = start + 4 + size
        if len(held) < middle + 4:
            if len(held) >= middle:
                _name(held[start + 4 : middle])  # garbage is not waited upon
            return None
        size = _LENGTH.unpack_from(held, middle)[0]
        most = LONGEST_COMMAND if held.startswith(b"__", start + 4) else self._longest
        if size > most:
            name = _name(held[start + 4 : middle])
            raise FrameError(f"a payload of {size:,} bytes for '{name}'; no more than {most:,} are taken")
        end = middle + 4 + int(size)
        return end if len(held) >= end else None


def _name(raw: bytearray) -> str:
    try:
        return raw.decode("utf-8").rstrip("\0")
    except UnicodeDecodeError:
        raise FrameError("a destination that is not UTF-8") from None


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """The next frame of a stream, for those who wait for one at a time.

    Raises asyncio.IncompleteReadError where the other end stops, and OSError where the connection breaks.
    """
    parser = FrameParser()
    head = await reader.readexactly(4)
    list(parser.feed(head))
    name = await reader.readexactly(_LENGTH.unpack(head)[0] + 4)
    for frame in parser.feed(name):
        return frame
    return next(parser.feed(await reader.readexactly(_LENGTH.unpack(name[-4:])[0])))
