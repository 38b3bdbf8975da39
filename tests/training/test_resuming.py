"""Damage in a run is named, and repaired or skipped; a damaged run never counts as a missing one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import resumed, rows, same, steps_of, tiny, trained

from ludus.cli.output import Output
from ludus.cli.train import _run_to_continue
from ludus.config.loading import LoadedConfig
from ludus.errors import CheckpointError, UserError
from ludus.evaluation.load import load
from ludus.runs.directory import RunDirectory, list_runs
from ludus.training.factory import open_trainer

EVERY = {"checkpoint": {"every": 256, "keep": 0}, "total_timesteps": 512}


def test_config_and_info_are_put_back_from_a_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, whole = trained(tiny(tmp_path / "a", **EVERY)), trained(tiny(tmp_path / "b", **EVERY))
    config, info = run.config_path.read_bytes(), run.info()
    run.config_path.write_bytes(config[:-20])
    run.info_path.write_bytes(b"")
    assert resumed(run) == 512
    assert run.config_path.read_bytes() == config
    assert {name: run.info()[name] for name in ("created", "config_hash", "env_id", "status")} == {
        name: info[name] for name in ("created", "config_hash", "env_id", "status")
    }
    assert (run.path / "config.yaml.damaged").read_bytes() == config[:-20]
    assert "config.yaml is damaged" in caplog.text and "run.json cannot be read" in caplog.text
    same(whole, run)


def test_a_changed_row_sends_the_run_back_to_before_it_and_naming_a_checkpoint_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, whole = trained(tiny(tmp_path / "a", **EVERY)), trained(tiny(tmp_path / "b", **EVERY))
    lines = run.metrics_path.read_text().splitlines(keepends=True)
    lines[-1] = lines[-1].replace('"step": 512', '"step": 513')
    run.metrics_path.write_text("".join(lines))
    assert resumed(run) == 256
    assert "metrics.jsonl are not what was written" in caplog.text
    same(whole, run)
    run.metrics_path.write_text(lines[-1])
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        resumed(run)
    assert resumed(run, 512) == 512


def test_a_damaged_run_is_not_taken_for_no_run(tmp_path: Path) -> None:
    config = tiny(tmp_path, **EVERY)
    run = trained(config)
    loaded = LoadedConfig(config)
    output = Output(False, quiet=True, verbose=False)
    run.info_path.write_text('{"status": "fin')
    found = _run_to_continue(loaded, output)
    assert found is not None and found.run == run  # put back, and found
    run.info_path.write_text('{"status": "fin')
    for checkpoint in run.checkpoints_dir.glob("0*"):
        (checkpoint / "state.json").write_text("{}")
    with pytest.raises(UserError, match=r"run\.json cannot be read"):
        _run_to_continue(loaded, output)


def test_a_mark_that_a_kill_kept_from_being_written_is_made_up_for(tmp_path: Path) -> None:
    fields = EVERY | {"evaluation": {"every": 256, "episodes": 1}}
    run = trained(tiny(tmp_path, **fields))
    best = run.checkpoints_dir / "best.json"
    expected = best.read_text()
    best.unlink()  # as if killed between the checkpoint and this file
    assert resumed(run) == 512
    assert best.read_text() == expected


def test_going_back_to_a_checkpoint_keeps_the_later_ones_as_a_run_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": 256, "keep": 0}))
    before = rows(run)
    assert resumed(run, checkpoint=256, total=512) == 256
    kept = RunDirectory.open(run.path / "set_aside" / "after-256")
    assert steps_of(kept) == [512, 768, 1024] and steps_of(run) == [256, 512]
    assert f"3 checkpoints later than step 256 were moved to {kept.path}" in caplog.text
    assert rows(kept) == before and load(kept.path).checkpoint.step == 1024  # type: ignore[union-attr]
    assert resumed(kept, total=1280) == 1024
    assert [found.path for found in list_runs(tmp_path)] == [run.path]

    assert resumed(run, checkpoint=256, total=512) == 256  # once more
    assert steps_of(RunDirectory.open(run.path / "set_aside" / "after-256-2")) == [512]


def test_later_checkpoints_are_deleted_when_asked_to(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": 256, "keep": 0}))
    trainer = open_trainer(run)
    trainer.resume(run, 256, discard_later=True)
    trainer.train(512)
    trainer.close()
    assert steps_of(run) == [256, 512] and not (run.path / "set_aside").exists()


def test_a_resume_from_the_newest_checkpoint_sets_nothing_aside(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, checkpoint={"every": 256, "keep": 0}))
    assert resumed(run, total=1280) == 1024
    assert not (run.path / "set_aside").exists()
