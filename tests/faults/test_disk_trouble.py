"""A disk that fails while a run trains: training continues for a while, and nothing that was saved is lost."""

from __future__ import annotations

import errno
import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from killable_runs import learned, newest, write_config

from ludus.config.loading import load_config
from ludus.errors import EXIT_STORAGE, StorageError
from ludus.runs import atomic
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.tracking.jsonl import JsonlWriter
from ludus.training.base import TrainResult
from ludus.training.factory import create_trainer, open_trainer

FULL = OSError(errno.ENOSPC, "No space left on device")


class Disk:
    """Stands between the store and the disk; fails every write of tensors while `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: Callable[[int], bool] = lambda attempt: False
        self.attempts: list[int] = []
        original = atomic.write_by

        def write_by(path: Path, writer: Callable[[Path], object]) -> None:
            if path.name == "policy.safetensors":
                step = int(path.parent.name.split("-")[1])
                if step not in self.attempts:
                    self.attempts.append(step)
                if self.full(step):
                    raise FULL
            original(path, writer)

        monkeypatch.setattr(atomic, "write_by", write_by)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def train(run: Path, config: Path) -> TrainResult:
    trainer = create_trainer(None, load_config(config, [f"run_dir={run}"]).config)
    try:
        result = trainer.train()
        assert isinstance(result, TrainResult)
        return result
    finally:
        trainer.close()


def resume(run: Path) -> int:
    directory = RunDirectory.open(run)
    trainer = open_trainer(directory)
    try:
        step = trainer.resume(directory).step
        trainer.train()
        return step
    finally:
        trainer.close()


def config_for(folder: Path, **fields: Any) -> Path:
    return write_config(
        folder, "PPO", **{"checkpoint": {"every": 512, "keep": 0}, "total_timesteps": 4096, **fields}
    )


def test_a_disk_that_fails_twice_costs_two_checkpoints_and_nothing_else(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_for(tmp_path, evaluation={"every": 4096, "episodes": 2})
    train(tmp_path / "whole", config)
    disk.attempts.clear()
    disk.full = lambda step: step in (1024, 1536)
    with caplog.at_level(logging.ERROR):
        assert train(tmp_path / "run", config).status == "finished"
    alarms = [record.getMessage() for record in caplog.records if "ALARM" in record.getMessage()]
    assert len(alarms) == 2
    assert "step 1,024 could not be saved" in alarms[0] and "No space left on device" in alarms[0]
    assert disk.attempts == [512, 1024, 1536, 2048, 2560, 3072, 3584, 4096]  # retried when due, not before
    saved = [c.step for c in CheckpointManager(tmp_path / "run" / "checkpoints").list()]
    assert saved == [512, 2048, 2560, 3072, 3584, 4096]
    # the barriers took place all the same: the run is, to the byte, the one that had no trouble
    assert learned(tmp_path / "run") == learned(tmp_path / "whole")
    assert not list((tmp_path / "run" / "checkpoints").glob(".tmp-*"))


def test_failures_that_are_not_in_a_row_never_end_the_run(tmp_path: Path, disk: Disk) -> None:
    disk.full = lambda step: step in (512, 1024, 2048, 2560, 3584)
    assert train(tmp_path / "run", config_for(tmp_path)).status == "finished"


def test_third_failure_in_a_row_ends_the_run_with_the_resume_command(tmp_path: Path, disk: Disk) -> None:
    run, config = tmp_path / "run", config_for(tmp_path, evaluation={"every": 4096, "episodes": 2})
    train(tmp_path / "whole", config)
    disk.full = lambda step: step > 1024
    with pytest.raises(StorageError) as caught:
        train(run, config)
    error = caught.value
    assert error.exit_code == EXIT_STORAGE == 4
    text = str(error)
    assert "checkpoints could not be saved 3 times in a row" in text and "No space left on device" in text
    assert "checkpoint 000000001024 is intact" in text and f"ludus resume {run}" in text
    assert not hasattr(error, "__notes__")  # it has said it all
    info = RunDirectory.open(run).info()
    assert info["status"] == "failed" and info["steps"] == 2560
    disk.full = lambda step: False
    assert resume(run) == 1024
    assert learned(run) == learned(tmp_path / "whole")


def test_without_any_checkpoint_it_says_so(tmp_path: Path, disk: Disk) -> None:
    disk.full = lambda step: True
    with pytest.raises(StorageError, match="no checkpoint was saved before: start the run again"):
        train(tmp_path / "run", config_for(tmp_path))


def test_the_last_checkpoint_has_no_next_one_to_wait_for(tmp_path: Path, disk: Disk) -> None:
    disk.full = lambda step: step > 3584
    with pytest.raises(StorageError, match="the last checkpoint could not be saved") as caught:
        train(tmp_path / "run", config_for(tmp_path, total_timesteps=3700))
    assert "checkpoint 000000003584 is intact" in str(caught.value)


def test_a_best_policy_that_cannot_be_saved_is_not_replaced_by_a_later_one(
    tmp_path: Path, disk: Disk
) -> None:
    # learning nothing, so that only the first evaluation is a best
    config = config_for(
        tmp_path,
        evaluation={"every": 256, "episodes": 2},
        hyperparams={"n_steps": 64, "batch_size": 64, "n_epochs": 1, "learning_rate": 0.0},
        normalize_obs=False,
    )
    disk.full = lambda step: step == 256
    assert train(tmp_path / "run", config).status == "finished"
    assert not (tmp_path / "run" / "checkpoints" / "best.json").exists()


def test_metrics_that_cannot_be_written_end_the_run_with_the_resume_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = JsonlWriter.flush

    def flush(self: JsonlWriter) -> None:
        if self.path.name == "metrics.jsonl" and newest(tmp_path / "run") >= 1024:
            raise FULL
        original(self)

    monkeypatch.setattr(JsonlWriter, "flush", flush)
    with pytest.raises(StorageError, match=r"metrics\.jsonl could not be saved") as caught:
        train(tmp_path / "run", config_for(tmp_path))
    assert "checkpoint 000000001024 is intact" in str(caught.value)
    monkeypatch.setattr(JsonlWriter, "flush", original)
    assert resume(tmp_path / "run") == 1024


def test_a_disk_too_full_for_run_json_does_not_hide_the_trouble(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.full = lambda step: step > 1024
    original = RunDirectory.update_info

    def update_info(self: RunDirectory, **fields: Any) -> None:
        if fields.get("status") == "failed":
            raise FULL
        original(self, **fields)

    monkeypatch.setattr(RunDirectory, "update_info", update_info)
    with pytest.raises(StorageError, match="checkpoints could not be saved 3 times in a row"):
        train(tmp_path / "run", config_for(tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_real_refusal_to_write_tensors_is_an_oserror_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    store = CheckpointManager(tmp_path / "checkpoints")
    store.save(1, {"policy": {"w": torch.zeros(10)}}, {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"policy\.safetensors"):
            store.save(2, {"policy": {"w": torch.zeros(100_000)}}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "000000000001",
        "latest.json",
    ]
    store.find(1).verify()
