"""The network side of the stand-in: the protocol of a Unity build, one connection per simulator."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ludus.games.unity import frames
from ludus.games.unity.cdr import CdrError, Message, compile_messages
from ludus.games.unity.simulator.drawing import as_png, draw
from ludus.games.unity.simulator.tank import Yard
from ludus.games.unity.use_case import load_use_case

SELF = "Ludus's stand-in simulator, not a Unity build"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


@dataclass(frozen=True)
class StandInOptions:
    """Options of a stand-in: `latency` seconds before each answer, `camera` image size in pixels (0: no image)."""

    use_case: str = "uc1"
    seed: int = 0
    sample_time: float = 0.1
    latency: float = 0.0
    camera: int = 0
    obstacles: int = 4


class UnityStandIn:
    """One simulator. `run` connects, serves, and reconnects until it is cancelled."""

    def __init__(self, index: int, options: StandInOptions = StandInOptions()) -> None:  # noqa: B008  # frozen
        self.index = index
        self.options = options
        self.say: Callable[[str], None] = lambda text: None
        self.yard = Yard(
            options.use_case,
            seed=options.seed * 1_000 + index,
            n_obstacles=options.obstacles,
            dt=options.sample_time,
        )
        self.use_case = load_use_case(options.use_case)
        codecs = compile_messages(self.use_case.messages)
        services = self.use_case.services
        self._requests = {"step": codecs[services.step.request], "reset": codecs[services.reset.request]}
        self._responses = {"step": codecs[services.step.response], "reset": codecs[services.reset.response]}

    async def run(self, host: str, port: int) -> None:
        """Connect and serve until cancelled. A refused or broken connection is retried."""
        pause, reported = _FIRST_PAUSE, False
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, port)
            except OSError as error:
                if not reported:
                    self.say(
                        f"simulator {self.index}: connection to {host}:{port} failed ({error}); retrying"
                    )
                    reported = True
            else:
                self.say(f"simulator {self.index}: connected to {host}:{port}")
                pause, reported = _FIRST_PAUSE, False
                try:
                    await self.serve(reader, writer)
                except (OSError, asyncio.IncompleteReadError):
                    self.say(f"simulator {self.index}: {host}:{port} closed the connection; retrying")
                except (frames.FrameError, CdrError) as error:
                    self.say(f"simulator {self.index}: {host}:{port} sent invalid data ({error}); retrying")
                finally:
                    writer.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do the handshake, register the services, answer requests."""
        writer.write(frames.KEEPALIVE)
        call: int | None = None
        while True:
            frame = await frames.read_frame(reader)
            if frame.destination == frames.HANDSHAKE:
                self.register(writer)
            elif frame.destination == frames.REQUEST:
                call = int(frame.json()["srv_id"])
            elif not frame.is_keepalive and not frame.is_command and call is not None:
                received = time.time_ns()
                if self.options.latency:
                    await asyncio.sleep(self.options.latency)
                answer = self.answer(frame.destination.rpartition("/")[2], frame.payload, received)
                writer.write(
                    frames.pack_command(frames.RESPONSE, {"srv_id": call})
                    + frames.pack_frame(frame.destination, answer)
                )
                call = None
                with contextlib.suppress(ConnectionError):  # the next read raises
                    await writer.drain()

    def register(self, writer: asyncio.StreamWriter) -> None:
        """Register the services, with the final NUL that Unity adds to strings."""
        for service, described in (
            ("step", self.use_case.services.step),
            ("reset", self.use_case.services.reset),
        ):
            content = {"topic": self.use_case.topic(service, self.index), "message_name": described.type}
            writer.write(frames.pack_frame(frames.UNITY_SERVICE, json.dumps(content).encode() + b"\0"))
        hello = f"{SELF}: use case {self.use_case.name}, env {self.index}"
        writer.write(frames.pack_frame("__log", hello.encode() + b"\0"))

    def answer(self, service: str, payload: bytes, received: int) -> bytes:
        """Return the response to a call of `service`; `received` is a time in nanoseconds."""
        request = self._requests[service].decode(payload)
        if service == "reset":
            self.yard.reset()
        else:
            self.yard.step(request["action"]["tank"])
        response: Message = {
            "request_received_timestamp": _stamp(received),
            "compressed_image": self._image(),
            "state": self.yard.state(),
            "response_sent_timestamp": _stamp(time.time_ns()),
        }
        return self._responses[service].encode(response)

    def _image(self) -> dict[str, Any]:
        header = {"frame_id": SELF}
        if not self.options.camera:
            return {"header": header, "format": ""}
        return {"header": header, "format": "png", "data": as_png(draw(self.yard, self.options.camera))}


async def run_simulators(
    n: int,
    host: str,
    port: int,
    options: StandInOptions,
    *,
    first: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Run `n` stand-ins until cancelled: number `first` at `port`, the others at the following ports."""
    standins = [UnityStandIn(index, options) for index in range(first, first + n)]
    for standin in standins:
        standin.say = say
    await asyncio.gather(
        *(standin.run(host, port + index) for index, standin in enumerate(standins)),
    )


def _stamp(nanoseconds: int) -> dict[str, int]:
    return {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}
