"""An error at every single file operation of a run, of every kind that disks have.

Training continues with an alarm, or ends with exit code 4 and a resumable checkpoint; a disk that stays broken ends
it. The policy and the files are those of a run without disk errors.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import learned
from test_damaged_files import self_play_config
from test_kill_at_every_call import OPERATIONS, classic_config

from ludus.config.loading import load_config
from ludus.errors import EXIT_STORAGE, StorageError
from ludus.runs import atomic
from ludus.runs.checkpoints import CheckpointManager
from ludus.tracking.jsonl import JsonlWriter
from ludus.tracking.logs import LogFile
from ludus.training.factory import create_trainer

ERRORS = {
    "disk full": errno.ENOSPC,
    "read-only": errno.EROFS,
    "permission lost": errno.EACCES,
    "quota": errno.EDQUOT,
    "input/output error": errno.EIO,
}
KEPT = ("status", "checkpoint", "policy", "metrics", "episodes")
"""A save that failed takes the mark of a best policy with it, and a last one is written after its barrier."""


class Disk:
    """Fails at operation number `at`, and if it `stays` broken at all that follow."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done = 0
        self.at: int | None = None
        self.stays = False
        self.error = errno.ENOSPC
        self.failed: list[str] = []
        for operation in OPERATIONS:
            patch.setattr(atomic, operation, self._failing(getattr(atomic, operation)))
        for method in ("flush", "sync"):
            patch.setattr(JsonlWriter, method, self._failing(getattr(JsonlWriter, method)))
        patch.setattr(LogFile, "flush", self._failing(LogFile.flush))

    def _failing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            number, self.done = self.done, self.done + 1
            if self.at is not None and (number == self.at or (self.stays and number > self.at)):
                self.failed.append(original.__qualname__)
                raise OSError(self.error, os.strerror(self.error))
            return original(*arguments)

        return call


class Alarms(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def alarms() -> Iterator[list[str]]:
    handler = Alarms()
    logging.getLogger("ludus").addHandler(handler)
    yield handler.lines
    logging.getLogger("ludus").removeHandler(handler)


def trouble_with(
    run: Path, config: Path, disk: Disk, whole: dict[str, Any], new_output: Callable[[], str]
) -> str:
    """Train a new run with the disk as it is set; what is wrong with how that went."""
    disk.done, disk.failed = 0, []
    trainer = create_trainer(None, load_config(config, [f"run_dir={run}"]).config)
    try:
        result = trainer.train()
    except StorageError as error:
        if error.exit_code != EXIT_STORAGE or "fix:" not in str(error):
            return f"ended badly: {error}"
    except OSError as error:
        if trainer.num_timesteps:  # type: ignore[attr-defined]
            return f"ended in {error!r} after {trainer.num_timesteps} steps"  # type: ignore[attr-defined]
        disk.at = None
        return ""  # it never began, and the command line says so in three lines
    else:
        if result.status != "finished":  # type: ignore[attr-defined]
            return f"ended as {result.status}"  # type: ignore[attr-defined]
        if disk.stays and set(disk.failed) != {"StreamHandler.flush"}:  # the last lines of the log
            return f"did not notice that nothing is written any more: {disk.failed}"
        if disk.failed and "ALARM" not in new_output():
            return "no alarm"
    finally:
        disk.at = None
        trainer.close()
    store = CheckpointManager(run / "checkpoints")
    for checkpoint in store.list():
        checkpoint.verify()
    if (run / "config.yaml").exists() and store.newest_intact() is not None:
        drive(str(run), str(config))
        found = learned(run)
        differing = [part for part in KEPT if found[part] != whole[part]]
        return f"{differing} differ" if differing else ""
    return ""


def fail_everywhere(
    folder: Path,
    config: Path,
    disk: Disk,
    new_output: Callable[[], str],
    record_fault: Any,
    *,
    stays: bool = False,
    every: int = 1,
) -> None:
    """One run for each operation that fails; the kinds of error take turns."""
    drive(str(folder / "whole"), str(config))
    operations, whole = disk.done, learned(folder / "whole")
    assert operations > 60
    tries: Counter[str] = Counter()
    trouble: dict[str, list[str]] = {}
    for number in range(0, operations, every):
        error = list(ERRORS)[number // every % len(ERRORS)]
        disk.at, disk.stays, disk.error = number, stays, ERRORS[error]
        problem = trouble_with(folder / "run", config, disk, whole, new_output)
        name = f"{error}, {'from one file operation on' if stays else 'at one file operation'}"
        tries[name] += 1
        if problem:
            trouble.setdefault(name, []).append(f"operation {number}: {problem}")
        shutil.rmtree(folder / "run", ignore_errors=True)
    for name, number in tries.items():
        survived = number - len(trouble.get(name, []))
        record_fault(name, number, survived, "one interval, trained again" if stays else "nothing learnt")
    assert trouble == {}


@pytest.fixture
def new_output(alarms: list[str], capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Function that returns the output of the log and stderr since its last call."""

    def take() -> str:
        said = "\n".join(alarms) + capsys.readouterr().err
        alarms.clear()
        return said

    return take


@pytest.mark.faults
@pytest.mark.parametrize(("stays", "every"), [(False, 1), (True, 3)])
def test_failure_of_every_operation_loses_no_checkpoint(
    stays: bool, every: int, disk: Disk, new_output: Callable[[], str], tmp_path: Path, record_fault: Any
) -> None:
    fail_everywhere(
        tmp_path, classic_config(tmp_path), disk, new_output, record_fault, stays=stays, every=every
    )


@pytest.mark.faults
@pytest.mark.parametrize(("stays", "every"), [(False, 2), (True, 7)])
def test_failing_calls_in_self_play_lose_no_checkpoint(
    stays: bool, every: int, disk: Disk, new_output: Callable[[], str], tmp_path: Path, record_fault: Any
) -> None:
    pytest.importorskip("textarena")
    fail_everywhere(
        tmp_path, self_play_config(tmp_path), disk, new_output, record_fault, stays=stays, every=every
    )
