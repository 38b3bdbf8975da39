"""Checkpoints that cannot be listed or read now: no message says that there are no checkpoints, or to start again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import steps_of, tiny, trained, trainer_for

from ludus.cli.app import main
from ludus.errors import StorageError, UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.factory import open_trainer
from ludus.training.resume import find_resume_point

TROUBLES = [errno.EMFILE, errno.EACCES, errno.EIO]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with three checkpoints."""
    return trained(
        tiny(tmp_path_factory.mktemp("runs"), total_timesteps=384, checkpoint={"every": 128, "keep": 0})
    )


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], None]:
    """Have the system refuse to list, or open, a path."""

    def start(refused: Path, number: int) -> None:
        def guard(original: Any) -> Any:
            def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
                if isinstance(path, str | os.PathLike) and Path(path) == refused:
                    raise OSError(number, os.strerror(number), str(path))
                return original(path, *args, **kwargs)

            return call

        for name in ("listdir", "scandir", "open"):
            monkeypatch.setattr(os, name, guard(getattr(os, name)))

    return start


@pytest.mark.parametrize("number", TROUBLES)
def test_resume_says_what_could_not_be_read_and_that_nothing_is_lost(
    run: RunDirectory, refuse: Callable[[Path, int], None], number: int
) -> None:
    refuse(run.checkpoints_dir, number)
    with pytest.raises(UserError, match="the run's checkpoints cannot be read") as caught:
        find_resume_point(run)
    error = caught.value
    assert os.strerror(number) in error.what and error.where == str(run.checkpoints_dir)
    assert "nothing was lost" in error.fix and "start" not in str(error)


def test_a_file_in_the_place_of_the_folder_is_not_an_empty_folder(tmp_path: Path) -> None:
    run = RunDirectory.create_at(tmp_path / "run", "CartPole-v1", "PPO", "run")
    run.checkpoints_dir.write_text("")
    with pytest.raises(UserError, match="checkpoints cannot be read: Not a directory"):
        find_resume_point(run)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_a_newest_checkpoint_that_is_refused_is_not_replaced_by_an_older_one(
    run: RunDirectory, refuse: Callable[[Path, int], None], number: int
) -> None:
    newest = run.checkpoints_dir / f"{steps_of(run)[-1]:012d}"
    refuse(newest / "MANIFEST.json", number)
    with pytest.raises(UserError, match="checkpoints cannot be read"):
        find_resume_point(run)
    with pytest.raises(OSError, match=os.strerror(number)):
        CheckpointManager(run.checkpoints_dir).list()
    assert steps_of(run) == [128, 256, 384]


@pytest.mark.parametrize("number", TROUBLES)
def test_train_resume_does_not_start_a_new_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[[Path, int], None],
    number: int,
    capfd: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", "--env", "CartPole-v1", "--steps", "128", "--resume", "hyperparams.n_steps=16"]
    words += ["tracking.tensorboard=false", "evaluation.every=null", "-q"]
    assert main(words) == 0
    (path,) = (tmp_path / "runs/CartPole-v1/PPO").iterdir()
    refuse(Path("runs/CartPole-v1/PPO") / path.name / "checkpoints", number)
    capfd.readouterr()
    assert main(words) == 2
    said = capfd.readouterr().err
    assert "checkpoints cannot be read" in said and "nothing was lost" in said
    assert len(list((tmp_path / "runs/CartPole-v1/PPO").iterdir())) == 1


@pytest.mark.parametrize("number", TROUBLES)
def test_a_run_that_ends_while_they_cannot_be_listed_names_the_command_all_the_same(
    tmp_path: Path, refuse: Callable[[Path, int], None], number: int
) -> None:
    trainer = trainer_for(tiny(tmp_path, total_timesteps=512, checkpoint={"every": 128, "keep": 0}))

    def at(local: dict[str, Any], _: dict[str, Any]) -> None:
        if local["self"].num_timesteps == 130 and trainer.run is not None:
            refuse(trainer.run.checkpoints_dir, number)

    with pytest.raises(StorageError) as caught:
        trainer.train(callback=at)
    trainer.close()
    said = str(caught.value)
    assert "its checkpoints cannot be read now" in said and "ludus resume" in said
    assert "no checkpoint was saved" not in said and "start the run again" not in said


def test_a_run_json_that_is_refused_is_not_taken_for_damaged(
    run: RunDirectory, refuse: Callable[[Path, int], None]
) -> None:
    refuse(run.info_path, errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        open_trainer(run)
    assert not run.info_path.with_name("run.json.damaged").exists()
