"""Two processes that resume one run at the same moment: one trains it, the other gets an error that names the first."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import alone, newest, write_config

from ludus.cli.app import main
from ludus.errors import UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.lock import holder
from ludus.training.factory import open_trainer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and flock")


def start(run: Path, output: Path, gate: int) -> int:
    """A child that waits at the gate, then types `ludus resume RUN`; what it prints goes to `output`."""
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = sys.stderr = output.open("w", buffering=1)
            os.read(gate, 1)
            os._exit(main(["resume", str(run), "--quiet"]))
        finally:
            os._exit(99)
    return child


def ended(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def one_round(run: Path, folder: Path, number: int) -> str:
    """Start two at once, see that one is refused by the other's name, and end the other; what went wrong."""
    before = newest(run)
    waiting, gate = os.pipe()
    outputs = [folder / f"said-{number}-{which}" for which in "ab"]
    children = [start(run, output, waiting) for output in outputs]
    os.close(waiting)
    os.write(gate, b"..")  # a byte for each
    os.close(gate)
    deadline = time.monotonic() + 60
    loser = code = None
    while loser is None and time.monotonic() < deadline:
        for which, child in enumerate(children):
            code = ended(child, 0.01)
            if code is not None:
                loser = which
                break
    if loser is None:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return "both train"
    winner = children[1 - loser]
    said = outputs[loser].read_text()
    trouble = ""
    if code != 2 or f"in use by process {winner} on {socket.gethostname()}" not in said:
        trouble = f"the second ended with {code} and said: {said}"
    elif holder(run) != (winner, socket.gethostname()):
        trouble = f"the run is held by {holder(run)}, not {winner}"
    while newest(run) <= before and not trouble and time.monotonic() < deadline:
        time.sleep(0.005)  # it trains
    # one time it ends well, one time it leaves its lock behind
    os.kill(winner, signal.SIGTERM if number % 2 else signal.SIGKILL)
    code = ended(winner, 60)
    if code is None:
        os.kill(winner, signal.SIGKILL)
        os.waitpid(winner, 0)
    if code != (143 if number % 2 else -signal.SIGKILL):
        trouble = trouble or f"the first ended with {code}: {outputs[1 - loser].read_text()}"
    if newest(run) <= before:
        trouble = trouble or "nobody trained"
    if CheckpointManager(run / "checkpoints").newest_intact() is None:
        trouble = trouble or "no checkpoint to resume from"
    return trouble


def rounds(folder: Path, number: int, record_fault: Any) -> None:
    config = write_config(folder, "PPO", total_timesteps=128, threads=1, checkpoint={"every": 128, "keep": 2})
    run = folder / "run"
    drive(str(run), str(config))
    _, _, text = (run / "config.yaml").read_text().partition("\n")
    (run / "config.yaml").write_text(text.replace("total_timesteps: 128", "total_timesteps: 1000000000"))
    trouble = [problem for problem in (one_round(run, folder, turn) for turn in range(number)) if problem]
    record_fault("two processes resume one run", number, number - len(trouble), "nothing")
    assert trouble == [], trouble
    assert (run / "run.lock").exists() and holder(run) is None  # what is left of a lock holds nothing


@pytest.mark.faults
@alone
def test_one_of_two_resumes_started_together_trains_fifty_times(tmp_path: Path, record_fault: Any) -> None:
    rounds(tmp_path, 50, record_fault)


def test_a_run_that_another_trained_meanwhile_is_not_set_back(tmp_path: Path) -> None:
    config = write_config(
        tmp_path, "PPO", total_timesteps=256, threads=1, checkpoint={"every": 128, "keep": 0}
    )
    drive(str(tmp_path / "run"), str(config))
    run = RunDirectory.open(tmp_path / "run")
    late, quick = open_trainer(run), open_trainer(run)
    late.resume(run)
    quick.resume(run)
    quick.train(512)
    with pytest.raises(UserError, match="another process has trained this run"):
        late.train()
    assert newest(run.path) == 512
    late.close()
    quick.close()
