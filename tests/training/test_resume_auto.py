"""`resume: auto` in a config acts in Python as it does in `ludus train`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from tiny_runs import same, tiny, trained, trainer_for

from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory, list_runs


def _config(folder: Path, total: int, **fields: Any) -> TrainerConfig:
    defaults = {"checkpoint": {"every": 128, "keep": 0}, "total_timesteps": total, "resume": "auto"}
    return tiny(folder, **(defaults | fields))


def _train(config: TrainerConfig, env: Any = None) -> RunDirectory:
    return trained(config, env)


def test_a_second_trainer_continues_the_run_of_the_first(tmp_path: Path) -> None:
    first = _train(_config(tmp_path / "cut", 256))
    second = _train(_config(tmp_path / "cut", 512))
    assert second.path == first.path and second.info()["steps"] == 512
    same(_train(_config(tmp_path / "whole", 512)), second)


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = _train(_config(tmp_path, 256))
    trainer = trainer_for(_config(tmp_path, 256))
    result = trainer.train()
    trainer.close()
    assert (Path(result.run), result.steps, result.status) == (first.path, 256, "finished")
    assert len(list_runs(tmp_path)) == 1


def test_other_settings_start_a_new_run_with_a_warning_that_names_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = _train(_config(tmp_path, 256))
    second = _train(_config(tmp_path, 256, seed=7))
    assert second.path != first.path
    assert "resume: auto starts a new run" in caplog.text and "seed: 42 there, 7 here" in caplog.text


def test_runs_on_env_objects_are_told_apart_by_the_env(tmp_path: Path) -> None:
    without_env = {"env": None, "n_envs": 1}
    first = _train(_config(tmp_path, 256, **without_env), gym.make("CartPole-v1"))
    other = _train(_config(tmp_path, 256, **without_env), gym.make("Acrobot-v1"))
    assert other.path != first.path
    again = _train(_config(tmp_path, 512, **without_env), gym.make("CartPole-v1"))
    assert again.path == first.path and again.info()["steps"] == 512


def test_without_the_key_a_new_run_is_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = _train(_config(tmp_path, 256, resume=None))
    assert _train(_config(tmp_path, 256, resume=None)).path != first.path
    assert "resume: auto" not in caplog.text
