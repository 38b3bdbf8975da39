"""SIGKILL in the middle of and after every file operation of a run: it can be resumed, has lost at most one interval,
and ends with the bytes of a run that was never killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import alone, learned, newest, write_config
from test_damaged_files import self_play_config

from ludus.errors import UserError
from ludus.runs import atomic
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.tracking.jsonl import JsonlWriter, read_jsonl
from ludus.training.factory import open_trainer

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]

OPERATIONS = ("make_directory", "write_bytes", "write_by", "sync", "rename", "remove")
MOMENTS = ("half", "after")  # before one is after the one before


def classic_config(folder: Path) -> Path:
    return write_config(
        folder,
        "PPO",
        total_timesteps=384,
        threads=1,  # a process with threads of its own could not be forked
        hyperparams={"n_steps": 64, "batch_size": 64, "n_epochs": 1, "policy_net_arch": [8]},
        checkpoint={"every": 128, "keep": 1},
        evaluation={"every": 128, "episodes": 1},
        tracking={"every": 64, "tensorboard": False},
    )


class Assassin:
    """Counts file operations, and ends the process at one of them."""

    def __init__(self, number: int, moment: str) -> None:
        self._left = number
        self._moment = moment

    def arm(self) -> None:
        for operation in OPERATIONS:
            setattr(atomic, operation, self._watched(getattr(atomic, operation), operation))
        # the rows go to disk past the file layer of checkpoints
        JsonlWriter.flush = self._watched(JsonlWriter.flush, "flush")  # type: ignore[method-assign]
        JsonlWriter.sync = self._watched(JsonlWriter.sync, "sync")  # type: ignore[method-assign]

    def _watched(self, original: Callable[..., Any], operation: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self._left > 0:
                self._left -= 1
                return original(*arguments)
            if self._moment == "half":
                _do_half(original, operation, *arguments)
            else:
                original(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("outlived SIGKILL")

        return call


def _do_half(original: Callable[..., Any], operation: str, *arguments: Any) -> None:
    target = arguments[0]
    if operation in ("write_bytes", "write_by"):
        original(*arguments)
        with open(target, "r+b") as file:
            file.truncate(os.path.getsize(target) // 2)
    elif operation == "remove" and target.is_dir():
        next(target.iterdir()).unlink()
    elif operation == "flush" and target._waiting:
        target._file.write(target._waiting[: len(target._waiting) // 2])


def killed_at(run: Path, config: Path, number: int, moment: str) -> bool:
    """Train in a child that is killed there; False if it came to its end before."""
    child = os.fork()
    if child == 0:
        try:
            Assassin(number, moment).arm()
            drive(str(run), str(config))
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"the run itself failed at operation {number}"
    return status == signal.SIGKILL


def go_on(run: Path, config: Path) -> int | None:
    """Resume the run to its end and return the step it resumed from; None if an error reported no checkpoint."""
    if CheckpointManager(run / "checkpoints").newest_intact() is None:
        # killed before its first checkpoint was in place: starting again is the user's decision
        if (run / "config.yaml").is_file():
            directory = RunDirectory.open(run)
            trainer = open_trainer(directory)
            with pytest.raises(UserError, match="has no checkpoint to resume from"):
                trainer.resume(directory)
            trainer.close()
        shutil.rmtree(run, ignore_errors=True)
        drive(str(run), str(config))
        return None
    step = newest(run)
    drive(str(run), str(config))
    return step


def trouble_after(run: Path, config: Path, interval: int, whole: dict[str, Any]) -> str:
    metrics = run / "metrics.jsonl"
    reached = max((int(row["step"]) for row in read_jsonl(metrics)), default=0) if metrics.exists() else 0
    step = go_on(run, config)
    if reached - (step or 0) > interval:
        return f"{reached} steps were done, and it resumed from {step}"
    found = learned(run)
    differing = [part for part in whole if found[part] != whole[part]]
    left = [path.name for path in run.rglob(".tmp-*")]
    return f"{differing} differ" if differing else f"{left} is left behind" if left else ""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", ["classic", "self-play"])
@alone
def test_a_kill_at_every_file_operation(kind: str, moment: str, tmp_path: Path, record_fault: Any) -> None:
    if kind == "self-play":
        pytest.importorskip("textarena")
    config = classic_config(tmp_path) if kind == "classic" else self_play_config(tmp_path)
    drive(str(tmp_path / "whole"), str(config))
    whole = learned(tmp_path / "whole")
    # a self-play update takes as many turns as its games have
    interval = (
        128
        if kind == "classic"
        else max(int(row["step"]) for row in read_jsonl(tmp_path / "whole" / "metrics.jsonl")) // 2
    )
    trouble = []
    number = 0
    while killed_at(tmp_path / "run", config, number, moment):
        problem = trouble_after(tmp_path / "run", config, interval, whole)
        if problem:
            trouble.append(f"{moment} operation {number}: {problem}")
        shutil.rmtree(tmp_path / "run")
        number += 1
    lost = f"{len(trouble)} runs" if trouble else "at most one interval"
    record_fault("SIGKILL at every file operation", number, number - len(trouble), lost)
    assert trouble == [], trouble
    assert number > 60
