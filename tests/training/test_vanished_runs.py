"""A run directory, or a file of it, that is renamed, removed or replaced while it trains: an alarm, nothing lost."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import resumed, rows, same, steps_of, tiny, trained, trainer_for

from ludus.errors import StorageError
from ludus.runs.directory import RunDirectory


def config(folder: Path) -> Any:
    return tiny(folder, checkpoint={"every": 256, "keep": 0})


def at_step(step: int, do: Callable[[Path], None]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def call(local: dict[str, Any], _: dict[str, Any]) -> None:
        trainer = local["self"]
        if trainer.num_timesteps == step:
            do(trainer.run.path)

    return call


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_is_put_back(
    tmp_path: Path, name: str, replaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def remove(run: Path) -> None:
        (run / name).unlink()
        if replaced:
            (run / name).write_text("mine\n")

    whole = trained(config(tmp_path / "whole"))
    run = trained(config(tmp_path / "runs"), callback=at_step(300, remove))
    assert run.info()["status"] == "finished"
    same(run, whole)
    alarms = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(alarms) == 1 and f"{name} was {'replaced' if replaced else 'removed'}" in alarms[0]
    assert (run.path / f"{name}.damaged").exists() == replaced
    assert resumed(run, total=1280) == 1024  # its rows are those that the checkpoint knew


@pytest.mark.parametrize("gone", ["renamed", "removed"])
def test_a_run_that_is_gone_ends_with_an_alarm_and_can_be_resumed_where_it_is(
    tmp_path: Path, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    def vanish(run: Path) -> None:
        if gone == "renamed":
            os.rename(run, tmp_path / "elsewhere")
        else:
            shutil.rmtree(run)

    trainer = trainer_for(config(tmp_path / "runs"))
    with pytest.raises(StorageError) as caught:
        trainer.train(callback=at_step(300, vanish))
    trainer.close()
    assert "was removed or renamed" in str(caught.value) and caught.value.exit_code == 4
    assert "no checkpoint was saved" not in str(caught.value)
    alarms = [record.getMessage() for record in caplog.records if "ALARM" in record.getMessage()]
    assert len(alarms) >= 1 and "the folder was removed or renamed" in alarms[0]
    assert trainer.run is not None and not trainer.run.checkpoints_dir.exists()  # nothing grows where it was
    if gone == "renamed":
        run = RunDirectory.open(tmp_path / "elsewhere")
        assert steps_of(run) == [256] and resumed(run) == 256
        assert run.info()["status"] == "finished"


def test_a_run_restored_in_time_continues(tmp_path: Path) -> None:
    whole = trained(config(tmp_path / "whole"))
    aside = tmp_path / "aside"

    def play(local: dict[str, Any], _: dict[str, Any]) -> None:
        trainer = local["self"]
        if trainer.num_timesteps == 300:
            os.rename(trainer.run.path, aside)
        elif trainer.num_timesteps == 400:  # one row could not be written meanwhile
            os.rename(aside, trainer.run.path)

    run = trained(config(tmp_path / "runs"), callback=play)
    assert run.info()["status"] == "finished"
    assert rows(run) == rows(whole)
    same(run, whole)
