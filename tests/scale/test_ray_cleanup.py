"""What is left of a Ray cluster ends with its driver: whoever writes its logs, and nobody else. Ray is not needed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ludus.scale.ray_cleanup as undertaker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

DRIVER = """
import os, subprocess, sys
script, logs = sys.argv[1:]
undertaker = subprocess.Popen([sys.executable, "-I", script, logs, str(os.getpid())], start_new_session=True)
print(undertaker.pid, flush=True)
sys.stdin.read()
"""
HOLDER = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"


class Cluster:
    """Processes that hold files of a session's logs open, and a driver that has an undertaker."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "a session/logs"
        self.logs.mkdir(parents=True)
        self._all: list[subprocess.Popen[str]] = []
        self.driver = self._start("-c", DRIVER, undertaker.__file__, str(self.logs))

    def holder(self, path: Path, mode: str) -> subprocess.Popen[str]:
        path.touch()
        return self._start("-c", HOLDER, str(path), mode)

    def end(self) -> None:
        for process in self._all:
            process.kill()
            process.communicate()

    def _start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._all.append(process)
        assert process.stdout is not None and process.stdout.readline()
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.end()


def test_who_writes_the_logs_of_a_dead_driver_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    writers = [cluster.holder(cluster.logs / "raylet.out", mode) for mode in ("w", "a", "r+")]
    neighbour = tmp_path / "a session/logs of another"
    neighbour.mkdir()
    others = [
        cluster.holder(cluster.logs / "gcs.out", "r"),  # reads them, as `tail -f` does
        cluster.holder(neighbour / "raylet.out", "w"),
    ]
    cluster.driver.kill()
    for writer in writers:
        assert writer.wait(10) == -9
    time.sleep(0.5)
    assert [other.poll() for other in others] == [None, None]


def test_of_a_driver_that_lives_nothing_is_ended(cluster: Cluster) -> None:
    writer = cluster.holder(cluster.logs / "raylet.out", "w")
    time.sleep(3 * undertaker._LOOK_SECONDS + undertaker._POLITE_SECONDS)
    assert writer.poll() is None
