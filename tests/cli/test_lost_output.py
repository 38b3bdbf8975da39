"""Output to a full disk or a closed pipe: training continues and the log reports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import TINY, Command

from ludus.cli.app import main
from ludus.runs.directory import RunDirectory, list_runs

TRAIN = ["train", "--env", "CartPole-v1", "--steps", "256", *TINY]
PYTHON = [sys.executable, "-m", "ludus"]


def finished(folder: Path) -> RunDirectory:
    (run,) = list_runs(folder / "runs")
    assert run.info()["status"] == "finished" and run.info()["steps"] == 256
    return run


def alarms(run: RunDirectory) -> list[str]:
    lines = (run.logs_dir / "train.log").read_text().splitlines()
    return [line for line in lines if "ALARM" in line]


@pytest.mark.parametrize(
    ("full", "options"),
    [("stdout", []), ("stdout", ["--verbose"]), ("stdout", ["--json"]), ("stderr", ["--json"])],
)
def test_a_full_disk_under_the_output_does_not_end_a_training(
    ludus: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, options: list[str]
) -> None:
    with open("/dev/full", "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, full, stream)
        assert main([*TRAIN, *options]) == 0
    run = finished(tmp_path)
    if (full, options) != ("stdout", ["--json"]):  # whose one line comes after the log was closed
        (alarm,) = alarms(run)
        assert full in alarm and "No space left on device" in alarm


@pytest.mark.parametrize("streams", [["stdout"], ["stdout", "stderr"]])
def test_a_process_whose_output_is_full_ends_with_0(tmp_path: Path, streams: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PYTHON, *TRAIN], cwd=tmp_path, timeout=120, **dict.fromkeys(streams, full))
    assert done.returncode == 0
    assert len(alarms(finished(tmp_path))) >= 1


def test_closed_output_pipe_does_not_end_the_run(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PYTHON, *TRAIN, "--verbose"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdout is not None and training.stderr is not None
        assert "run" in training.stdout.readline()
        training.stdout.close()  # as `| head -1` does
        said = training.stderr.read()
    assert training.returncode == 0
    (alarm,) = alarms(finished(tmp_path))
    assert "stdout" in alarm and "Broken pipe" in alarm
    assert said.count("ALARM") == 1 and "Traceback" not in said


def test_a_process_without_standard_streams_trains(tmp_path: Path) -> None:
    closed = (
        "import os, sys; os.close(1); os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", closed, "-m", "ludus", *TRAIN, "vector=process"], cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0
    finished(tmp_path)


def test_an_env_that_prints_to_a_full_disk_is_not_at_fault(
    ludus: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talker.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Talker(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        print('step', flush=True)\n"
        "        return super().step(action)\n"
        "gym.register('Talker-v0', Talker, max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with open("/dev/full", "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["train", "--env", "talker:Talker-v0", "--steps", "256", *TINY]) == 0
    finished(tmp_path)


def test_a_message_on_a_full_disk_keeps_its_exit_code(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PYTHON, "train", "no_such_preset"], cwd=tmp_path, stdout=full, stderr=full, timeout=60
        )
    assert done.returncode == 2


def test_a_listing_that_cannot_be_written_is_still_an_error(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PYTHON, "presets"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 2 and "No space left on device" in done.stderr


def test_the_streams_are_put_back(ludus: Command) -> None:
    before = sys.stdout, sys.stderr
    ludus(*TRAIN)
    assert (sys.stdout, sys.stderr) == before and os.fstat(1)
