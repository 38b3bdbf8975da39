"""Processes of a private Ray cluster that write its logs end with the driver, and no others. Needs no Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ludus.scale.private_cluster
import ludus.scale.ray_cleanup as ray_cleanup
from ludus.errors import UserError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

DRIVER = """
import os, subprocess, sys
script, folder = sys.argv[1:]
cleanup = subprocess.Popen([sys.executable, "-I", script, folder, str(os.getpid())], start_new_session=True)
print(cleanup.pid, flush=True)
sys.stdin.read()
"""
HOLDER = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"


class Cluster:
    """Processes that hold files of a session's logs open, and a driver whose cluster is cleaned up after its death."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a cluster"
        self.logs = self.folder / "a session/logs"
        self.logs.mkdir(parents=True)
        self._all: list[subprocess.Popen[str]] = []
        self.driver = self._start("-c", DRIVER, str(ludus.scale.private_cluster._CLEANUP), str(self.folder))

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


def test_what_writes_the_logs_of_a_dead_driver_is_ended_and_its_folder_removed(
    cluster: Cluster, tmp_path: Path
) -> None:
    writers = [cluster.holder(cluster.logs / "raylet.out", mode) for mode in ("w", "a", "r+")]
    neighbour = tmp_path / "a cluster of another"
    neighbour.mkdir()
    others = [
        cluster.holder(cluster.logs / "gcs.out", "r"),  # reads them, as `tail -f` does
        cluster.holder(neighbour / "raylet.out", "w"),
    ]
    cluster.driver.kill()
    for writer in writers:
        assert writer.wait(10) == -9
    deadline = time.monotonic() + 20
    while cluster.folder.exists():
        assert time.monotonic() < deadline, "its folder is left"
        time.sleep(0.05)
    assert neighbour.exists()
    assert [other.poll() for other in others] == [None, None]


def test_processes_of_a_living_driver_are_not_ended(cluster: Cluster) -> None:
    writer = cluster.holder(cluster.logs / "raylet.out", "w")
    time.sleep(3 * ray_cleanup._LOOK_SECONDS + ray_cleanup._POLITE_SECONDS)
    assert writer.poll() is None


class SlowRay:
    """A Ray whose processes take too long to start, the first `failures` times."""

    def __init__(self, parent: Path, failures: int) -> None:
        self._failures = failures
        self.folders: list[Path] = []
        self.started: list[subprocess.Popen[str]] = []
        utils = SimpleNamespace(get_default_system_temp_dir=lambda: str(parent))
        self._common = SimpleNamespace(utils=utils)

    def init(self, *, _temp_dir: str, **_: Any) -> None:
        self.folders.append(Path(_temp_dir))
        command = [sys.executable, "-c", HOLDER, f"{_temp_dir}/gcs.out", "w"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        assert process.stdout is not None and process.stdout.readline()
        if len(self.folders) <= self._failures:
            raise Exception("The current node timed out during startup.")


USUAL = {"RAY_health_check_failure_threshold": "4"}


@pytest.fixture
def threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")


@pytest.mark.usefixtures("threshold")
def test_a_cluster_that_takes_too_long_to_start_is_started_again(tmp_path: Path) -> None:
    ray = SlowRay(tmp_path, failures=1)
    private = ludus.scale.private_cluster.start_private(ray, 2, None, USUAL)
    first, second = ray.started
    assert first.wait(10) == -9 and second.poll() is None
    assert not ray.folders[0].exists() and private.folder == ray.folders[1]
    second.kill()
    second.wait()
    private.remove()
    assert not private.folder.exists()
    assert os.environ[next(iter(USUAL))] == "4"


@pytest.mark.usefixtures("threshold")
def test_a_cluster_that_never_starts_gives_three_lines_and_leaves_nothing(tmp_path: Path) -> None:
    ray = SlowRay(tmp_path, failures=100)
    with pytest.raises(UserError, match="timed out during startup") as refused:
        ludus.scale.private_cluster.start_private(ray, 2, None, USUAL)
    assert len(str(refused.value).splitlines()) == 3
    assert [process.wait(10) for process in ray.started] == [-9] * 4
    assert not any(folder.exists() for folder in ray.folders)
