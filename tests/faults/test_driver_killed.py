"""A driver that is killed leaves nothing behind: no process and no shared memory, five seconds later."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from leftovers import Marked, command_lines, seconds_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
ROOT = Path(__file__).parents[2]
SMALL = ["n_envs=2", "total_timesteps=100_000_000", "tracking.tensorboard=false", "tracking.every=500"]
PROCESS = [*SMALL, "vector=process"]


def has_rows(folder: Path) -> Any:
    return lambda: any(path.stat().st_size for path in folder.rglob("metrics.jsonl"))


def check(command: Marked, name: str, number: int, record_fault: Any) -> None:
    try:
        command.end(number)
        gone = command.seconds_until_gone()
        processes = command_lines(command.others())
        record_fault(f"driver killed: {name}", 1, int(gone is not None))
        assert gone is not None, f"left after 5 s:\n{processes}"
    finally:
        command.clear()


@pytest.mark.parametrize("worked", [0.0, 6.0])  # seconds: while it imports, and while it trains
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.faults
def test_benchmark_leaves_no_process_when_killed(
    number: int, worked: float, tmp_path: Path, record_fault: Any
) -> None:
    command = Marked(tmp_path, "-m", "ludus", "bench", "speed", "ppo-cartpole", "--steps", "100_000_000")
    command.wait_for(lambda: any(seconds_of(pid) >= worked for pid in command.others()))
    check(command, "bench", number, record_fault)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("train, process backend", ["train", "--algo", "ppo", "--env", "CartPole-v1", *PROCESS]),
        (
            "comparison",
            [
                "compare",
                "--env",
                "CartPole-v1",
                "--algos",
                "ppo,a2c",
                "--seeds",
                "1",
                "--jobs",
                "2",
                *PROCESS,
            ],
        ),
        ("sweep", ["sweep", "--algo", "a2c", "--env", "CartPole-v1", "--jobs", "2", *PROCESS]),
    ],
)
def test_training_leaves_no_process_when_killed(
    name: str, arguments: list[str], tmp_path: Path, record_fault: Any
) -> None:
    command = Marked(tmp_path, "-m", "ludus", *arguments)
    command.wait_for(has_rows(tmp_path))
    check(command, name, signal.SIGKILL, record_fault)


@pytest.mark.faults
def test_self_play_leaves_no_process_when_killed(tmp_path: Path, record_fault: Any) -> None:
    command = Marked(tmp_path, "-m", "ludus", "train", "tictactoe-tiny")
    command.wait_for(lambda: list(tmp_path.rglob("train.log")))  # its first row would take a while
    check(command, "self-play", signal.SIGKILL, record_fault)


@pytest.mark.faults
def test_comparison_with_hanging_envs_leaves_no_process_when_killed(
    tmp_path: Path, record_fault: Any
) -> None:
    """The runs cannot save and stop: they are in an env that sleeps for an hour, in their own process."""
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    arguments = ["--env", "sleepy:Sleepy-v0", "--algos", "ppo,a2c", "--seeds", "1", "--jobs", "2", *SMALL]
    command = Marked(
        tmp_path, "-m", "ludus", "compare", *arguments, "vector=serial", PYTHONPATH=str(tmp_path)
    )
    command.wait_for(lambda: len(list(tmp_path.glob("asleep-*"))) == 2)
    check(command, "comparison, envs hang", signal.SIGKILL, record_fault)


SLEEPY = """\
import os, pathlib, time
import gymnasium as gym
import numpy as np

class Sleepy(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        self.steps += 1
        if self.steps == 20:
            pathlib.Path(__file__).with_name(f"asleep-{os.getpid()}").touch()
            time.sleep(3600)
        return np.zeros(1, np.float32), 1.0, False, False, {}

gym.register("Sleepy-v0", Sleepy)
"""


@pytest.mark.faults
@pytest.mark.parametrize("name", ["ui", "watch"])
def test_dashboard_leaves_no_process_when_killed(name: str, tmp_path: Path, record_fault: Any) -> None:
    """The run belongs to another command: it continues, and no process of the dashboard is left."""
    run = Marked(tmp_path, "-m", "ludus", "train", "--algo", "a2c", "--env", "CartPole-v1", *SMALL)
    try:
        run.wait_for(has_rows(tmp_path))
        arguments = ["ui", "--port", "0"] if name == "ui" else ["watch"]
        dashboard = Marked(tmp_path, "-m", "ludus", *arguments)
        dashboard.wait_for(lambda: dashboard.said.stat().st_size)
        check(dashboard, name, signal.SIGKILL, record_fault)
        assert run.process.poll() is None
    finally:
        run.clear()


@pytest.mark.faults
@pytest.mark.skipif(not (ROOT / ".venv-scale/bin/python").exists(), reason="there is no .venv-scale")
def test_training_on_ray_leaves_no_process_when_killed(tmp_path: Path, record_fault: Any) -> None:
    command = Marked(
        tmp_path,
        *["-m", "ludus", "train", "--algo", "ppo", "--env", "CartPole-v1", *SMALL],
        *["scale.collectors=2", "hyperparams.n_steps=64", "hyperparams.batch_size=64"],
        python=str(ROOT / ".venv-scale/bin/python"),
    )
    command.wait_for(has_rows(tmp_path))
    check(command, "train on Ray", signal.SIGKILL, record_fault)
