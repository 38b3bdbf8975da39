"""A cluster that a run starts for itself is its own: no other run joins it, and nothing of it outlives the run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import same

from ludus.runs.directory import RunDirectory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LUDUS = [sys.executable, "-m", "ludus"]
SMALL = ["n_envs=2", "hyperparams.n_steps=64", "hyperparams.batch_size=64", "hyperparams.n_epochs=1"]
PLAIN = ["evaluation=null", "tracking.tensorboard=false", "tracking.every=128", "timestamp=false"]
TRAIN = [
    "train",
    "--algo",
    "ppo",
    "--env",
    "CartPole-v1",
    "--scale",
    "auto",
    "scale.collectors=2",
    *SMALL,
    *PLAIN,
]


class Machine:
    """Commands that share a folder for Ray's files and a mark by which what they start is found.

    Shared memory counts as theirs if `processes` has seen it in one of them: others use this machine, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ray_files = Path(
            tempfile.mkdtemp(prefix="ludus-t-", dir="/tmp")
        )  # short: sockets are made there
        self._mark = f"LUDUS_TEST_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self._environment = os.environ | {"RAY_TMPDIR": str(self.ray_files), name: value}
        self._memory: set[str] = set()

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start `ludus WORDS` in a process group of its own."""
        with (self.folder / "said.txt").open("a") as said:
            return subprocess.Popen(
                [*LUDUS, *words],
                cwd=self.folder,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def finish(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LUDUS, *words],
            cwd=self.folder,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a command with its process group."""
        self.processes()  # takes note of their shared memory
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def run(self, name: str) -> Path:
        return self.folder / "runs" / "CartPole-v1" / "PPO" / name

    def processes(self) -> dict[int, str]:
        """Return the processes of this test that still run: Ray overwrites environments, but they name Ray's folder."""
        found = {}
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if not process.name.isdecimal() or int(process.name) == os.getpid():
                    continue
                said = (process / "cmdline").read_bytes()
                links = [os.readlink(link) for link in (process / "fd").iterdir()]
                if (
                    self._mark.encode() in (process / "environ").read_bytes()
                    or os.fsencode(self.ray_files) in said
                    or any(link.startswith(str(self.ray_files)) for link in links)
                ):
                    found[int(process.name)] = said.replace(b"\0", b" ").decode(errors="replace")[:200]
                    maps = (process / "maps").read_text().splitlines()
                    links += [line.split(maxsplit=5)[5] for line in maps if "/dev/shm/" in line]
                    self._memory |= {link for link in links if link.startswith("/dev/shm/")}
        return found

    def left(self) -> list[str]:
        """Return what the commands left behind: processes, files of Ray, shared memory."""
        files = [str(path) for path in self.ray_files.rglob("*") if path.name != "ray_current_cluster"]
        processes = self.processes().values()
        return [*processes, *files, *filter(os.path.exists, sorted(self._memory))]

    def left_after(self, seconds: float) -> list[str]:
        deadline = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def clear(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.ray_files, ignore_errors=True)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.clear()


def wait_for_rows(run: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def test_a_private_cluster_is_not_joined_and_leaves_nothing(machine: Machine) -> None:
    first = machine.start(*TRAIN, "--name", "first", "--steps", "100_000_000")
    wait_for_rows(machine.run("first"), first)
    status = machine.finish("cluster", "status")
    assert status.returncode == 2 and "belongs to no Ray cluster" in status.stderr, (
        status.stdout + status.stderr
    )
    second = machine.start(*TRAIN, "--name", "second", "--steps", "100_000_000")
    wait_for_rows(machine.run("second"), second)
    machine.kill(first)
    rows = (machine.run("second") / "metrics.jsonl").stat().st_size
    deadline = time.monotonic() + 60
    while (machine.run("second") / "metrics.jsonl").stat().st_size < rows + 2000:
        assert second.poll() is None, "it ended with the first"
        assert time.monotonic() < deadline
        time.sleep(0.1)
    second.terminate()
    assert second.wait(60) == 143
    assert machine.left_after(10) == []


def test_an_address_that_a_killed_cluster_left_is_not_tried(machine: Machine) -> None:
    (machine.ray_files / "ray").mkdir()
    (machine.ray_files / "ray" / "ray_current_cluster").write_text("127.0.0.1:6379")
    done = machine.finish(*TRAIN, "--steps", "256", "--json")
    assert done.returncode == 0, done.stderr
    (machine.ray_files / "ray" / "ray_current_cluster").unlink()
    (machine.ray_files / "ray").rmdir()
    assert machine.left_after(5) == []


def test_a_cluster_that_the_environment_names_has_to_answer(machine: Machine) -> None:
    done = machine.finish(*TRAIN, "--steps", "256", RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 3 and "RAY_ADDRESS: 127.0.0.1:1" in lines[1], done.stderr


def test_a_cluster_that_ends_while_a_run_waits_for_room_is_an_error(machine: Machine) -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, client_port = one.getsockname()[1], other.getsockname()[1]
    up = machine.finish(
        *["cluster", "up", "--cpus", "0", "--port", str(port), "--client-port", str(client_port)]
    )
    assert up.returncode == 0, up.stderr
    waits = machine.start(*TRAIN, "--steps", "256")
    deadline = time.monotonic() + 120
    while not list(machine.ray_files.rglob("python-core-driver-*")):
        assert waits.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(5)
    for pid, command in machine.processes().items():
        if "/gcs_server " in command or "/raylet/raylet " in command:
            os.kill(pid, signal.SIGKILL)
    assert waits.wait(90) == 3
    said = (machine.folder / "said.txt").read_text()
    assert "error: the Ray cluster of this run has ended" in said and "fix:" in said, said


HANGING_ENV = """
import pathlib, time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Hanging(CartPoleEnv):
    def __init__(self, folder, where, **options):
        super().__init__(**options)
        self._folder, self._where = pathlib.Path(folder), where

    def step(self, action):
        self._hang("step")
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._hang("reset")
        return super().reset(seed=seed, options=options)

    def _hang(self, where):
        if where == self._where and (self._folder / "hang").exists():
            (self._folder / "hung").touch()
            time.sleep(100_000)

gymnasium.register("Hanging-v0", Hanging, max_episode_steps=100)
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_collector_with_a_hanging_env_does_not_delay_a_stop(
    machine: Machine, where: str, mode: str
) -> None:
    if (where, mode) == ("reset", "async"):
        pytest.skip("only the start of the games has a seeded reset")
    (machine.folder / "hanging_env.py").write_text(HANGING_ENV)
    words = [word.replace("CartPole-v1", "hanging_env:Hanging-v0") for word in TRAIN]
    kwargs = [f"env.kwargs.folder={machine.folder}", f"env.kwargs.where={where}", f"scale.mode={mode}"]
    life = machine.start(*words, *kwargs, "run_dir=run", "--steps", "100_000_000", "checkpoint.every=512")
    run = machine.folder / "run"
    wait_for_rows(run, life)
    deadline = time.monotonic() + 120
    while not newest(run):  # a later barrier hangs, not that of the start
        assert life.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    (machine.folder / "hang").touch()
    while not (machine.folder / "hung").exists():
        assert life.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
    life.terminate()
    said = machine.folder / "said.txt"
    assert life.wait(60) == 143, said.read_text()[-2000:]  # without a fix it never ends
    assert RunDirectory.open(run).info()["status"] == "interrupted"
    assert machine.left_after(10) == []


def test_a_private_cluster_that_ends_is_started_again_by_resume(machine: Machine) -> None:
    life = machine.start(*TRAIN, "--name", "first", "--steps", "100_000_000", "checkpoint.every=512")
    wait_for_rows(machine.run("first"), life)
    for pid, command in machine.processes().items():
        if "/gcs_server " in command or "/raylet/raylet " in command:
            os.kill(pid, signal.SIGKILL)
    assert life.wait(90) == 3
    said = (machine.folder / "said.txt").read_text()
    assert "error: the Ray cluster of this run has ended" in said, said
    assert "ludus resume RUN" in said and "ludus cluster up" not in said, said


def newest(run: Path) -> int:
    return max((int(path.name) for path in (run / "checkpoints").glob("[0-9]*")), default=0)


def storm(machine: Machine, kills: int, seed: int, record_fault: Any) -> None:
    """Kill the process group of a run on its private cluster, while Ray starts or while it trains; resume at once."""
    words = [*TRAIN, "--steps", str(4096 * kills), "checkpoint.every=512", "checkpoint.keep=3"]
    whole = machine.finish(*words, "--name", "whole")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    run, chance, killed = machine.run("cut"), random.Random(seed), 0
    for _ in range(kills):
        resumable = newest(run)
        again = ["resume", str(run), "--exact"] if resumable else [*words, "--name", "cut"]
        if not resumable:
            shutil.rmtree(run, ignore_errors=True)
        life = machine.start(*again)
        early, deadline = chance.random() < 0.3, time.monotonic() + 180
        while not early and newest(run) <= resumable and life.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(subprocess.TimeoutExpired):
            life.wait(chance.uniform(0.0, 8.0 if early else 1.0))
        assert life.returncode in (None, 0), (machine.folder / "said.txt").read_text()[-3000:]
        killed += life.returncode is None
        machine.kill(life)
    done = machine.finish("resume", str(run), "--exact")
    left = machine.left_after(10)
    survived = done.returncode == 0 and not left
    record_fault("process group of a run on Ray killed, resumed at once", killed, killed * survived)
    assert done.returncode == 0, done.stdout + done.stderr
    same(RunDirectory.open(machine.run("whole")), RunDirectory.open(run))
    assert left == []
    assert killed > kills / 2, "the run ended before it was killed"


def test_a_run_that_is_killed_with_its_group_is_resumed_at_once(machine: Machine, record_fault: Any) -> None:
    storm(machine, kills=3, seed=1, record_fault=record_fault)


@pytest.mark.faults
@pytest.mark.parametrize("seed", [2, 3])
def test_a_storm_of_kills_on_a_loaded_machine(machine: Machine, seed: int, record_fault: Any) -> None:
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        storm(machine, kills=12, seed=seed, record_fault=record_fault)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
