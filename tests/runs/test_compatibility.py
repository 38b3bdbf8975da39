"""Runs that earlier versions wrote, in tests/data/compatibility: every later version loads, evaluates and resumes them.

A folder is named after the version that wrote it and is never changed. A change of the format adds a folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ludus import load
from ludus.evaluation.evaluate import evaluate
from ludus.reports.report import write_report
from ludus.runs.directory import RunDirectory
from ludus.training.factory import open_trainer

RUNS = sorted((Path(__file__).parents[1] / "data" / "compatibility").iterdir())


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the run, to be written to."""
    return Path(shutil.copytree(request.param, tmp_path / "runs" / request.param.name))


def test_an_older_run_is_loaded_and_evaluated(run: Path) -> None:
    policy = load(str(run))
    observations = np.array([[0.0, 0.0, angle, speed] for angle in (-0.2, 0.2) for speed in (-2.0, 2.0)])
    assert policy.predict(observations.astype(np.float32)).tolist() == EXPECTED[run.name]
    result = evaluate(policy, policy.env_spec(), [1, 2])
    assert result.mean_reward > 50  # a random policy balances for 22 steps


def test_an_older_run_is_resumed(run: Path) -> None:
    directory = RunDirectory.open(run)
    trainer = open_trainer(directory)
    checkpoint = trainer.resume(directory)
    result = trainer.train(total_timesteps=checkpoint.step + 512)
    trainer.close()
    assert result.status == "finished" and result.steps == checkpoint.step + 512


def test_an_older_run_is_reported(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_report([RunDirectory.open(run)], page)
    assert "CartPole-v1" in page.read_text("utf-8")


EXPECTED = {"0.1.0-ppo-cartpole": [0, 1, 0, 1]}
