"""The endpoint follows the protocol of Unity's connector, and tolerates faulty clients."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ludus.errors import UserError
from ludus.games.unity import endpoint as endpoint_module
from ludus.games.unity.endpoint import Endpoint, Lost
from ludus.games.unity.frames import FrameError, pack_frame, read_frame

DATA = Path(__file__).parents[2] / "data" / "unity"
STEP, RESET = "/uc1_environment_0/step", "/uc1_environment_0/reset"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def with_endpoint(scenario: Callable[[Endpoint], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        endpoint = Endpoint(0, "127.0.0.1", 0, [STEP, RESET], **options)
        await endpoint.open()
        try:
            await scenario(endpoint)
        finally:
            await endpoint.close()

    asyncio.run(asyncio.wait_for(main(), 20))


async def connect(endpoint: Endpoint) -> Streams:
    return await asyncio.open_connection("127.0.0.1", endpoint.port)


async def register(endpoint: Endpoint, *topics: str, end: bytes = b"\0") -> Streams:
    reader, writer = await connect(endpoint)
    for topic in topics or (STEP, RESET):
        content = json.dumps({"topic": topic, "message_name": "interfaces_pkg/UC1EnvironmentStep"}).encode()
        writer.write(pack_frame("__unity_service", content + end))
    await read_frame(reader)  # the handshake
    return reader, writer


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the peer closes the connection."""
    while await reader.read(1_000):
        pass


def test_handshake_and_call_match_the_protocol_bytes() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        reader, writer = await connect(endpoint)
        handshake = b'{"version": "v0.7.0", "metadata": "{\\"protocol\\": \\"ROS2\\"}"}'
        raw = struct.pack("<I", 11) + b"__handshake" + struct.pack("<I", len(handshake)) + handshake
        assert await reader.readexactly(len(raw)) == raw
        for topic in (STEP, RESET):
            writer.write(pack_frame("__unity_service", json.dumps({"topic": topic}).encode()))
        assert await endpoint.wait(5)
        for number in (1001, 1002):
            asked = endpoint.request(STEP, b"payload")
            command = f'{{"srv_id": {number}}}'.encode()
            raw = pack_frame("__request", command) + pack_frame(STEP, b"payload")
            assert await reader.readexactly(len(raw)) == raw
            writer.write(pack_frame("__response", command + b"\0") + pack_frame(STEP + "\0", b"answer"))
            assert await endpoint.answer(asked, 5) == b"answer"

    with_endpoint(scenario)


def test_recorded_session_of_unity_is_parsed_in_chunks_of_any_size() -> None:
    """Strings include their final NUL, JSON has no spaces; the answer was recorded from a ROS library."""
    cases = json.loads((DATA / "cdr.json").read_text("utf-8"))
    answer = next(bytes.fromhex(case["bytes"]) for case in cases if case["message"] == "Response")

    def said(destination: bytes, payload: bytes) -> bytes:
        return struct.pack("<I", len(destination)) + destination + struct.pack("<I", len(payload)) + payload

    opening = bytes(8)  # a keepalive
    opening += said(b"__subscribe\0", b'{"topic":"/tf","message_name":"tf2_msgs/TFMessage"}')
    for name, kind in ((b"step", b"Step"), (b"reset", b"Reset")):
        topic = b'"topic":"/uc1_environment_0/' + name + b'","message_name":"interfaces_pkg/UC1Environment'
        opening += said(b"__unity_service\0", b"{" + topic + kind + b'"}')
    reply = said(b"__response\0", b'{"srv_id":1001}') + said(b"/uc1_environment_0/step\0", answer)

    async def scenario(endpoint: Endpoint) -> None:
        reader, writer = await connect(endpoint)
        await read_frame(reader)
        for start in range(0, len(opening), 7):
            writer.write(opening[start : start + 7])
            await asyncio.sleep(0)
        assert await endpoint.wait(5)
        asked = endpoint.request(STEP, b"")
        for start in range(0, len(reply), 5):
            writer.write(reply[start : start + 5])
            await asyncio.sleep(0)
        assert await endpoint.answer(asked, 5) == answer

    with_endpoint(scenario)


def test_call_ignores_keepalives_unknown_commands_and_topics() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        _, writer = await register(endpoint)
        assert await endpoint.wait(5)
        asked = endpoint.request(STEP, b"")
        writer.write(pack_frame("") + pack_frame("__topic_list", b"{}") + pack_frame("/camera", b"image"))
        writer.write(pack_frame("__response", b'{"srv_id": 77}') + pack_frame(STEP, b"of nobody"))
        writer.write(
            pack_frame("__response", b'{"srv_id": 1001}') + pack_frame("") + pack_frame(STEP, b"mine")
        )
        assert await endpoint.answer(asked, 5) == b"mine"

    with_endpoint(scenario)


def test_endpoint_sends_keepalives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "KEEPALIVE_SECONDS", 0.01)

    async def scenario(endpoint: Endpoint) -> None:
        reader, _ = await register(endpoint)
        assert (await read_frame(reader)).is_keepalive

    with_endpoint(scenario)


def test_unity_logs_keep_their_level_and_cannot_inject_lines() -> None:
    on_log: list[tuple[int, str]] = []

    async def scenario(endpoint: Endpoint) -> None:
        _, writer = await register(endpoint)
        writer.write(pack_frame("__log", b"started\0") + pack_frame("__warn", b"slow\nERROR forged \x1b[31m"))
        writer.write(pack_frame("__error", b"\xff" + b"x" * 5_000))
        writer.write(pack_frame("__log", b'{"text": "as commands carry it"}\0') + pack_frame("__log", b"[1]"))
        while len(on_log) < 5:
            await asyncio.sleep(0.001)

    with_endpoint(scenario, on_log=lambda level, line: on_log.append((level, line)))
    assert [level for level, _ in on_log] == [
        logging.INFO, logging.WARNING, logging.ERROR, logging.INFO, logging.INFO,
    ]  # fmt: skip
    assert on_log[0][1] == "simulator 0: started"
    assert on_log[1][1] == "simulator 0: slow ERROR forged  [31m"
    assert len(on_log[2][1]) < 2_100
    assert [line for _, line in on_log[3:]] == ["simulator 0: as commands carry it", "simulator 0: [1]"]


def test_logs_per_second_are_limited() -> None:
    on_log: list[str] = []

    async def scenario(endpoint: Endpoint) -> None:
        _, writer = await register(endpoint)
        assert await endpoint.wait(5)
        writer.write(pack_frame("__log", b"again") * 5_000)
        asked = endpoint.request(STEP, b"")
        writer.write(pack_frame("__response", b'{"srv_id": 1001}') + pack_frame(STEP, b""))
        await endpoint.answer(asked, 10)

    with_endpoint(scenario, on_log=lambda level, line: on_log.append(line))
    assert 0 < len(on_log) <= 500


@pytest.mark.parametrize(
    ("garbage", "what"),
    [
        (struct.pack("<I", 2**31), "destination of 2,147,483,648 bytes"),
        (pack_frame(STEP)[:-4] + struct.pack("<I", 2**32 - 1), "payload of 4,294,967,295 bytes"),
        (pack_frame("__log")[:-4] + struct.pack("<I", 10**6), "payload of 1,000,000 bytes for '__log'"),
        (pack_frame("__response", b"[" * 50_000), "expected a JSON object"),
        (pack_frame("__response", b'{"srv_id": "1001"}'), "without srv_id"),
        (pack_frame("__unity_service", b'{"topic": 5}'), "without a topic"),
        (struct.pack("<I", 2) + b"\xff\xff", "not UTF-8"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "destination of"),
    ],
)
def test_invalid_data_closes_the_connection_with_the_reason(garbage: bytes, what: str) -> None:
    async def scenario(endpoint: Endpoint) -> None:
        reader, writer = await register(endpoint)
        assert await endpoint.wait(5)
        asked = endpoint.request(STEP, b"")
        writer.write(garbage)
        with pytest.raises(Lost, match="sent invalid data") as caught:
            await endpoint.answer(asked, 5)
        assert what in str(caught.value)
        await closed(reader)
        assert not endpoint.connected

    with_endpoint(scenario)


def test_timeout_raises_lost_and_a_late_answer_is_ignored() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        reader, writer = await register(endpoint)
        assert await endpoint.wait(5)
        with pytest.raises(Lost, match=r"did not answer within 0\.05 s"):
            await endpoint.answer(endpoint.request(STEP, b""), 0.05)
        await closed(reader)
        _, writer = await register(endpoint)
        assert await endpoint.wait(5)
        asked = endpoint.request(STEP, b"")
        writer.write(pack_frame("__response", b'{"srv_id": 1001}') + pack_frame(STEP, b"new"))
        assert await endpoint.answer(asked, 5) == b"new"

    with_endpoint(scenario)


def test_broken_connection_raises_lost_at_once() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        _, writer = await register(endpoint)
        assert await endpoint.wait(5)
        asked = endpoint.request(STEP, b"")
        writer.close()
        with pytest.raises(Lost, match=r"(closed|broke) the connection"):
            await endpoint.answer(asked, 10)
        with pytest.raises(Lost, match="not connected"):
            await endpoint.answer(endpoint.request(STEP, b""), 10)

    with_endpoint(scenario)


def test_only_a_connection_with_all_services_replaces_the_current_one() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        first, _ = await register(endpoint)
        assert await endpoint.wait(5)
        await connect(endpoint)  # a port scanner
        await register(endpoint, "/uc2_environment_0/step")  # the wrong build
        asked = endpoint.request(STEP, b"x")
        assert (await read_frame(first)).destination == "__request"
        again, _ = await register(endpoint)  # the build has restarted
        with pytest.raises(Lost, match="replaced by a newer"):
            await endpoint.answer(asked, 5)
        assert endpoint.connected
        endpoint.request(STEP, b"y")
        assert (await read_frame(again)).destination == "__request"

    with_endpoint(scenario)


def test_problem_of_an_unregistered_connection_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_REGISTER_SECONDS", 0.05)

    async def scenario(endpoint: Endpoint) -> None:
        reader, _ = await register(endpoint, "/uc3_environment_0/step")
        await closed(reader)
        while not endpoint.last_problem:
            await asyncio.sleep(0.001)
        assert (
            "registered '/uc3_environment_0/step', expected /uc1_environment_0/reset" in endpoint.last_problem
        )

    with_endpoint(scenario)


def test_unregistered_connections_are_limited_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_REGISTER_SECONDS", 0.05)

    async def scenario(endpoint: Endpoint) -> None:
        guests = [await connect(endpoint) for _ in range(30)]
        for reader, _ in guests:
            await closed(reader)
        await register(endpoint)
        assert await endpoint.wait(5)

    with_endpoint(scenario)


def test_listening_beyond_loopback_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    from ludus.games.unity.settings import UnitySettings

    assert UnitySettings().host == "127.0.0.1"

    async def scenario() -> None:
        wide = Endpoint(0, "0.0.0.0", 0, [STEP])
        await wide.open()
        await wide.close()

    with caplog.at_level(logging.WARNING, "ludus"):
        asyncio.run(scenario())
    assert "reachable from the whole network" in caplog.text


def test_address_in_use_raises_with_a_fix() -> None:
    async def scenario(endpoint: Endpoint) -> None:
        other = Endpoint(3, "127.0.0.1", endpoint.port, [STEP])
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{endpoint.port} for simulator 3"):
            await other.open()

    with_endpoint(scenario)


def test_slow_frame_is_read_and_too_long_frame_is_rejected_early() -> None:
    async def scenario() -> None:
        reader = asyncio.StreamReader()
        for byte in pack_frame("/topic", b"abc"):
            reader.feed_data(bytes([byte]))
        assert (await read_frame(reader)).payload == b"abc"
        reader.feed_data(pack_frame("/topic", b"abc")[:-7] + struct.pack("<I", 17 * 2**20))
        with pytest.raises(FrameError, match="expected at most"):
            await read_frame(reader)

    asyncio.run(scenario())
