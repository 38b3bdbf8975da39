"""Simulators that die, hang, send invalid answers or never connect: reported, dropped, used after reconnect."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import free_ports, playing, unity_spec

from ludus.envs.make import make_env
from ludus.errors import EnvFault, SimulatorLost, UserError
from ludus.games.unity.frames import pack_frame
from ludus.games.unity.hook import UseCaseHook
from ludus.games.unity.simulator.client import StandInOptions, UnityStandIn
from ludus.games.unity.vector import UnityVectorEnv


def steps_until(envs: UnityVectorEnv, wanted: bool, index: int) -> int:
    """Step until env `index` is dropped (or no longer dropped); return the number of steps."""
    for number in range(1, 5_000):
        _, rewards, _, _, infos = envs.step(np.zeros((envs.num_envs, 2), np.float32))
        dropped = infos.get("dropped", np.zeros(envs.num_envs, bool))
        others = [i for i in range(envs.num_envs) if i != index]
        assert not dropped[others].any(), "the others continue"
        assert np.isfinite(rewards).all()
        if dropped[index] == wanted:
            return number
        time.sleep(0.001)
    raise AssertionError("never")


def play(envs: UnityVectorEnv, steps: int) -> None:
    for _ in range(steps):
        envs.step(np.zeros((envs.num_envs, 2), np.float32))


class Hanging(UnityStandIn):
    """Stops reading after the first step request, and keeps the connection open."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.StreamReader()

        async def forward() -> None:
            while data := await reader.read(65_536):
                if b"/step" not in data:
                    relay.feed_data(data)

        forwarding = asyncio.ensure_future(forward())
        try:
            await super().serve(relay, writer)
        finally:
            forwarding.cancel()


class Babbling(UnityStandIn):
    """Answers steps with invalid bytes."""

    def answer(self, service: str, payload: bytes, received: int) -> bytes:
        return super().answer(service, payload, received) if service == "reset" else b"\0\1\0\0garbage"


class Flooding(UnityStandIn):
    """Answers a step with endless valid frames, none of which is the answer."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.StreamReader()

        async def forward() -> None:
            while data := await reader.read(65_536):
                if b"/step" not in data:
                    relay.feed_data(data)
                    continue
                for _ in range(200):
                    writer.write(pack_frame("/noise", b"x" * 10_000))
                    await writer.drain()

        forwarding = asyncio.ensure_future(forward())
        try:
            await super().serve(relay, writer)
        finally:
            forwarding.cancel()


class Dropping(UnityStandIn):
    """Closes the connection in the middle of the answer to a step."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        await super().serve(reader, writer)

    def answer(self, service: str, payload: bytes, received: int) -> bytes:
        answer = super().answer(service, payload, received)
        if service == "step":
            self._writer.write(pack_frame("/half", answer)[:-10])
            self._writer.close()
        return answer


def test_dead_simulator_is_dropped_and_used_again_after_reconnect(caplog: pytest.LogCaptureFixture) -> None:
    with playing(3) as standins, caplog.at_level(logging.INFO, "ludus"):
        envs = UnityVectorEnv(unity_spec(standins.port), 3)
        envs.reset()
        envs.step(np.zeros((3, 2), np.float32))
        standins.stop(1)
        steps_until(envs, True, 1)
        address = f"127.0.0.1:{standins.port + 1}"
        assert (
            f"simulator 1 at {address}" in caplog.text and "loss 1 of 10; the others continue" in caplog.text
        )
        standins.start(1)
        steps_until(envs, False, 1)
        assert f"simulator 1 at {address} is back" in caplog.text
        assert (envs.simulators.losses, envs.simulators.reconnected) == (1, 1)
        envs.close()


def test_reset_does_not_wait_for_a_dead_simulator() -> None:
    with playing(2) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), 2)
        envs.reset()
        standins.stop(0)
        obs, _ = envs.reset()  # does not wait for it
        assert obs.shape == (2, 25)
        steps_until(envs, True, 0)
        standins.start(0)
        steps_until(envs, False, 0)
        envs.close()


@pytest.mark.trust
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Hanging, "did not answer within"),
        (Babbling, "sent an invalid answer"),
        (Flooding, "did not answer within"),
        (Dropping, "connection"),
    ],
)
def test_faulty_simulator_is_disconnected_with_the_reason(
    kind: type[UnityStandIn], what: str, caplog: pytest.LogCaptureFixture, record_fault: Any
) -> None:
    with playing(2) as standins, caplog.at_level(logging.WARNING, "ludus"):
        standins.stop(0)
        standins.start(0, kind(0, StandInOptions("uc1")))
        envs = UnityVectorEnv(unity_spec(standins.port, deadline=0.3), 2)
        envs.reset()
        steps_until(envs, True, 0)
        record_fault(
            "simulator that stalls, drops, floods, babbles", 1, int(what in caplog.text), "1 episode"
        )
        assert what in caplog.text
        standins.stop(0)
        standins.start(0, UnityStandIn(0, StandInOptions("uc1")))
        steps_until(envs, False, 0)
        envs.close()


def test_too_many_losses_raise_with_address_and_fix() -> None:
    with playing(2, make=Babbling) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port, reconnects=3), 2)
        envs.reset()
        with pytest.raises(SimulatorLost) as caught:
            play(envs, 1_000)
        text = str(caught.value)
        assert "sent an invalid answer" in text and "a run tolerates 3 losses" in text
        assert "127.0.0.1:" in text and "check that the Unity build still runs" in text
        envs.close()


def test_simulator_that_does_not_reconnect_in_time_raises() -> None:
    with playing(2) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port, reconnect_seconds=0.2), 2)
        envs.reset()
        standins.stop(1)
        with pytest.raises(SimulatorLost, match=r"did not reconnect within 0\.2 s"):
            play(envs, 5_000)
        envs.close()


def test_run_waits_while_all_simulators_are_lost() -> None:
    with playing(2) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), 2)
        envs.reset()
        standins.stop(0)
        standins.stop(1)
        standins.start(1)
        for _ in range(100):
            *_, infos = envs.step(np.zeros((2, 2), np.float32))
            if "dropped" in infos and not infos["dropped"][1]:
                break
        assert infos["dropped"].tolist() == [True, False]
        envs.close()


def test_lost_simulator_truncates_the_evaluation_episode() -> None:
    with playing(1) as standins:
        env = make_env(unity_spec(standins.port))
        env.reset()
        standins.stop(0)
        standins.start(0)
        _, reward, terminated, truncated, info = env.step(np.zeros(2, np.float32))
        assert (reward, terminated, truncated, info["dropped"]) == (0.0, False, True, True)
        env.reset()
        assert not env.step(np.zeros(2, np.float32))[3]
        env.close()


def test_restart_between_two_steps_drops_the_episode() -> None:
    with playing(2) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port), 2)
        envs.reset()
        envs.step(np.zeros((2, 2), np.float32))
        before = envs.simulators.slots[0].endpoint.generation
        standins.stop(0)
        standins.start(0)
        while envs.simulators.slots[0].endpoint.generation == before:
            time.sleep(0.001)
        *_, infos = envs.step(np.zeros((2, 2), np.float32))
        assert infos["dropped"].tolist() == [True, False]
        envs.close()


def test_missing_simulators_raise_with_a_fix() -> None:
    with playing(1) as standins:
        with pytest.raises(SimulatorLost) as caught:
            UnityVectorEnv(unity_spec(standins.port, connect_seconds=0.5), 3)
        text = str(caught.value)
        assert "2 of 3 simulators did not connect within 0.5 s" in text
        assert f"number 1 at 127.0.0.1:{standins.port + 1}" in text
        assert f"--ros-port {standins.port + 1} --environment-id 1" in text


def test_build_of_another_use_case_is_reported() -> None:
    with playing(1, "uc2") as standins, pytest.raises(SimulatorLost) as caught:
        UnityVectorEnv(unity_spec(standins.port, "uc1", connect_seconds=0.5), 1)
    assert "did not connect" in str(caught.value)


def test_an_error_in_the_users_hook_shows_their_traceback(tmp_path: Path) -> None:
    from test_use_cases import own

    path = own(tmp_path, hook=f"{__name__}:Broken")
    with playing(1) as standins:
        envs = UnityVectorEnv(unity_spec(standins.port, path), 1)
        envs.reset()
        with pytest.raises(EnvFault, match="the hook of use case uc1 raised ZeroDivisionError") as caught:
            envs.step(np.zeros((1, 2), np.float32))
        assert "in reward" in caught.value.user_traceback
        envs.close()


class Broken(UseCaseHook):
    def reward(self, message: Any, values: Any, action: Any, reward: float) -> float:
        return 1 / 0


# Builds that Ludus starts


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Return the stand-in as an executable with the command line of a Unity build, in a folder with a space."""
    folder = tmp_path / "a build"
    folder.mkdir()
    path = folder / "Playground.x86_64"
    path.write_text(
        f'#!/bin/sh\necho "$@" >> "{folder}/started"\nexec "{sys.executable}" -m ludus.games.unity.simulator "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def pids_of(build: Path) -> list[int]:
    """Return the processes of this build, found by their ports."""
    ports = [line.split()[1] for line in (build.parent / "started").read_text().splitlines()]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, NotADirectoryError):
            continue
        if b"ludus.games.unity.simulator" in command and any(port.encode() in command for port in ports):
            found.append(int(entry.name))
    return found


def test_builds_are_started_restarted_and_stopped(build: Path) -> None:
    settings = {"path": str(build), "sample_time": 0.2, "pause": True, "fixed_delta_time": 0.02}
    envs = UnityVectorEnv(unity_spec(0, build=settings), 2)
    envs.reset()
    started = (build.parent / "started").read_text().splitlines()
    ports = [address.rpartition(":")[2] for address in envs.simulators.addresses]
    assert sorted(started) == sorted(
        f"--ros-port {port} --environment-id {index} --pause True --sample-time 0.2 --fixed-delta-time 0.02 --headless"
        for index, port in enumerate(ports)
    )
    victims = [
        pid for pid in pids_of(build) if f"{ports[1]}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(victims[0], signal.SIGKILL)
    steps_until(envs, True, 1)
    steps_until(envs, False, 1)  # it was started again, by itself
    assert len((build.parent / "started").read_text().splitlines()) == 3
    envs.close()
    assert pids_of(build) == []


def test_builds_end_when_training_is_killed(build: Path) -> None:
    script = (
        "import sys, time\n"
        "from ludus.envs.make import EnvSpec\n"
        "from ludus.games.unity.vector import UnityVectorEnv\n"
        "envs = UnityVectorEnv(EnvSpec('ludus/Unity-v0', kwargs={'port': 0, 'build': {'path': sys.argv[1]}}), 1)\n"
        "print('playing', flush=True)\n"
        "time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", script, str(build)], stdout=subprocess.PIPE)
    assert driver.stdout is not None and driver.stdout.readline() == b"playing\n"
    assert len(pids_of(build)) == 1
    driver.kill()
    driver.wait()
    driver.stdout.close()
    for _ in range(500):
        if not pids_of(build):
            return
        time.sleep(0.01)
    raise AssertionError("a build was left behind")


def test_build_that_exits_at_once_shows_its_output(build: Path) -> None:
    build.write_text("#!/bin/sh\necho no display found\nexit 3\n")
    with pytest.raises(SimulatorLost) as caught:
        UnityVectorEnv(unity_spec(0, build={"path": str(build)}), 1)
    assert "the build ended with code 3 and this output:\nno display found" in str(caught.value)


def test_missing_build_waits_for_simulators_or_raises(caplog: pytest.LogCaptureFixture) -> None:
    with playing(1) as standins, caplog.at_level(logging.WARNING, "ludus"):
        spec = unity_spec(standins.port, build={"path": "build/Playground.exe"})
        UnityVectorEnv(spec, 1).close()
        assert "Unity build not found: build/Playground.exe: waiting for simulators" in caplog.text
    with pytest.raises(UserError, match=r"Unity build not found: build/Playground\.exe"):
        UnityVectorEnv(unity_spec(free_ports(1), build={"path": "build/Playground.exe", "launch": True}), 1)
