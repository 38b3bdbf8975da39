"""A real disk that fills up, and a real loss of permission: alarms, exit code 4, and nothing saved is lost."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import alone, learned, newest, write_config

from ludus.cli.app import main
from ludus.errors import EXIT_STORAGE
from ludus.runs.checkpoints import CheckpointManager

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs, changes users"),
]


@pytest.fixture(params=[250, 400, 550, 700, 850])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of so many kB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}k,mode=777", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def config_for(folder: Path) -> Path:
    return write_config(
        folder,
        "PPO",
        total_timesteps=128 * 40,
        threads=1,
        checkpoint={"every": 128, "keep": 0},  # one after the other, until there is no room
        evaluation={"every": None},
        tracking={"every": 128, "tensorboard": False},
    )


def type_in_child(output: Path, *arguments: str, user: int | None = None) -> int:
    """`ludus ARGUMENTS…` in a forked child; its process id."""
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = sys.stderr = output.open("w", buffering=1)
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os._exit(main(list(arguments)))
        finally:
            os._exit(99)
    return child


def exit_code(child: int, seconds: float = 120.0) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("it did not end")


def check_end(run: Path, code: int, said: str) -> int:
    """It said so twice, gave up the third time, and every checkpoint is whole; returns the newest."""
    assert code == EXIT_STORAGE, said
    assert said.count("ALARM") >= 2, said
    assert "Traceback" not in said
    assert f"ludus resume {run}" in said
    for checkpoint in CheckpointManager(run / "checkpoints").list():
        checkpoint.verify()
    return newest(run)


@alone
def test_full_disk_is_reported(small_disk: Path, tmp_path: Path, record_fault: Any) -> None:
    config, run = config_for(tmp_path), small_disk / "run"
    drive(str(tmp_path / "whole"), str(config))
    child = type_in_child(tmp_path / "said", "train", str(config), f"run_dir={run}")
    code = exit_code(child)
    said = (tmp_path / "said").read_text()
    reached = check_end(run, code, said)
    assert 128 < reached < 128 * 40
    assert "No space left" in said or "could not be saved" in said
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    drive(str(run), str(config))
    same = learned(run) == learned(tmp_path / "whole")
    record_fault("a tmpfs full of checkpoints", 1, int(same), "two intervals, trained again")
    assert same


@alone
def test_lost_write_permission_is_reported(record_fault: Any) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else, who may be refused")
    folder = Path("/tmp") / f"ludus-permission-{os.getpid()}"  # pytest's own folders are closed to others
    folder.mkdir()
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, nobody, nobody)
    try:
        config, run = config_for(folder), folder / "run"
        config.write_text(config.read_text().replace(str(128 * 40), str(10**9)))
        short = folder / "short.yaml"
        short.write_text(config.read_text().replace(str(10**9), "128"))
        drive(str(folder / "warm"), str(short))  # so that nobody has to compile
        child = type_in_child(folder / "said", "train", str(config), f"run_dir={run}", user=nobody)
        deadline = time.monotonic() + 120
        while newest(run) < 256:
            assert os.waitpid(child, os.WNOHANG)[0] == 0, (folder / "said").read_text()
            assert time.monotonic() < deadline, "it never came so far"
            time.sleep(0.02)
        os.chown(run / "checkpoints", 0, 0)
        os.chmod(run / "checkpoints", 0o755)
        code = exit_code(child)
        os.chown(run / "checkpoints", nobody, nobody)
        reached = check_end(run, code, (folder / "said").read_text())
        record_fault("permission lost while a run trains", 1, 1, "two intervals")
        assert reached >= 256
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
