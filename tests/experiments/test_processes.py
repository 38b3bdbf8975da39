"""The launcher process of trainings, and the checkpoint from which a stopped training resumes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.experiments.processes.job import resume_checkpoint
from ludus.experiments.processes.launcher import TO_LOAD
from ludus.experiments.processes.pool import NO_THREADS
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_launcher_has_one_thread() -> None:
    # a lock held by another thread during the fork would stay locked in the child forever
    code = (
        f"import importlib, os; [importlib.import_module(name) for name in {TO_LOAD!r}]; "
        "print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **NO_THREADS},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"


def _stopped_at(step: int, tmp_path: Path, every: object) -> tuple[RunDirectory, TrainerConfig]:
    """Return a run that was stopped at `step` and saved there."""
    flags = {"env.id": "CartPole-v1", "algorithm": "A2C", "run_dir": str(tmp_path / "run")}
    flags |= {"n_envs": 2, "vector": "serial", "checkpoint.every": every, "tracking.tensorboard": False}
    config = load_config(None, ["evaluation=null", "total_timesteps=100_000"], flags).config
    trainer = create_trainer(None, config)
    trainer.train(callback=lambda local, _: local["self"].num_timesteps < step)
    trainer.close()
    return RunDirectory(tmp_path / "run"), config


def test_stopped_run_resumes_from_its_newest_exact_checkpoint(tmp_path: Path) -> None:
    directory, config = _stopped_at(500, tmp_path, 200)
    found = resume_checkpoint(directory, config)
    assert found is not None
    assert (found.step, found.exact) == (400, True)


def test_run_stopped_before_its_first_exact_checkpoint_restarts(tmp_path: Path) -> None:
    directory, config = _stopped_at(500, tmp_path, 50_000)
    assert list(directory.checkpoints_dir.glob("0*"))
    assert resume_checkpoint(directory, config) is None


def test_run_with_checkpoints_by_the_clock_resumes_from_the_newest(tmp_path: Path) -> None:
    directory, config = _stopped_at(500, tmp_path, "1 h")
    found = resume_checkpoint(directory, config)
    assert found is not None
    assert not found.exact and found.step > 400


def test_run_that_never_began_has_no_checkpoint_to_resume(tmp_path: Path) -> None:
    assert resume_checkpoint(RunDirectory(tmp_path / "nothing"), TrainerConfig()) is None
