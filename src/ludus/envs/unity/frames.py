"""Frames of the ROS-TCP protocol: a destination and a payload, each after its length; limits against hostile ones.

Destinations that begin with two underscores are commands with JSON or text; an empty one keeps the line alive.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
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
        """The payload of a log."""
        return self.payload.decode("utf-8", errors="replace").rstrip("\0")

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


async def read_frame(reader: asyncio.StreamReader, longest: int = LONGEST_PAYLOAD) -> Frame:
    """The next frame. FrameError for lengths beyond the limits, before anything of that size is read.

    Raises asyncio.IncompleteReadError where the other end stops, and OSError where the connection breaks.
    """
    size = _LENGTH.unpack(await reader.readexactly(4))[0]
    if size > LONGEST_DESTINATION:
        raise FrameError(f"a destination of {size:,} bytes; no more than {LONGEST_DESTINATION:,} are taken")
    try:
        destination = (await reader.readexactly(size)).decode("utf-8").rstrip("\0")
    except UnicodeDecodeError:
        raise FrameError("a destination that is not UTF-8") from None
    size = _LENGTH.unpack(await reader.readexactly(4))[0]
    most = LONGEST_COMMAND if destination.startswith("__") else longest
    if size > most:
        raise FrameError(f"a payload of {size:,} bytes for '{destination}'; no more than {most:,} are taken")
    return Frame(destination, await reader.readexactly(size))
