"""SIGKILL at a random moment, resume, and the run ends with the bytes of one that was never interrupted."""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path

import pytest
from driver import drive
from killable_runs import learned, newest, start, wait_for_checkpoint, write_config

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.mark.parametrize("backend", ["serial", pytest.param("process", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "algorithm", ["PPO", *(pytest.param(name, marks=pytest.mark.long) for name in ("A2C", "DQN", "SAC"))]
)
def test_a_killed_and_resumed_run_ends_with_the_same_bytes(
    algorithm: str, backend: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path, algorithm, vector=backend)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(killed, config, pause=0.0005)
    try:
        wait_for_checkpoint(killed, process)
        time.sleep(random.Random(f"{algorithm} {backend}").uniform(0.0, 0.7))
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, "the run ended before it was killed"
    reached = newest(killed)
    drive(str(killed), str(config))
    drive(str(whole), str(config))
    expected, found = learned(whole), learned(killed)
    for part in expected:
        assert found[part] == expected[part], f"{part} differs after a kill beyond step {reached}"
