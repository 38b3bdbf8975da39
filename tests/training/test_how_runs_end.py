"""How a run ends: at its total in any unit, early for a reason, or when asked to by a signal."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import odd_envs  # noqa: F401  # registers its envs
import pytest
from tiny_runs import resumed, rows, steps_of, tiny, trained, trainer_for

from ludus.errors import UserError
from ludus.runs.checkpoints import CheckpointManager


@pytest.mark.parametrize(
    ("total", "steps"), [(1000, 1024), ("3 updates", 384), ("512 steps", 512), ("1e2", 128)]
)
def test_a_total_ends_the_run_with_the_update_that_reaches_it(tmp_path: Path, total: Any, steps: int) -> None:
    run = trained(tiny(tmp_path, total_timesteps=total))
    assert run.info()["status"] == "finished" and run.info()["steps"] == steps
    assert steps_of(run) == [steps] and rows(run)[-1]["step"] == steps


def test_a_total_in_episodes(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps="9 episodes"))
    last = rows(run)[-1]
    assert last["episodes"] >= 9 and last["episodes"] == len(run.episodes_path.read_text().splitlines())
    before = [row["episodes"] for row in rows(run) if row["updates"] == last["updates"] - 1]
    assert all(count < 9 for count in before)


def test_a_total_in_time(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, total_timesteps="0.2 seconds"))
    result = trainer.train()
    trainer.close()
    assert result.status == "finished" and result.seconds >= 0.2 and result.steps > 0


def test_a_total_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    with pytest.raises(UserError, match="expected env steps"):
        trainer.train("soon")
    assert not list(tmp_path.iterdir())


def test_the_result_tells_the_run(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, evaluation={"every": 512, "episodes": 3}))
    result = trainer.train()
    trainer.close()
    assert trainer.run is not None and result.run == trainer.run.path
    assert len(result.rewards) == len(trainer.run.episodes_path.read_text().splitlines()) > 0
    assert result.evaluation is not None and result.evaluation["episodes"] == 3
    summary = result.summary()
    assert set(summary) == {"run", "status", "steps", "fps", "seconds", "eval", "reason"}
    assert summary["steps"] == 1024 and summary["eval"] == result.evaluation


def test_a_reward_threshold_ends_the_run(tmp_path: Path) -> None:
    run = trained(
        tiny(
            tmp_path,
            total_timesteps=100_000,
            evaluation={"every": 256, "episodes": 2},
            early_stopping={"reward_threshold": 1.0},
        )
    )
    info = run.info()
    assert info["status"] == "stopped" and info["steps"] == 256
    assert info["reason"].startswith("eval/mean_reward reached")
    assert steps_of(run) == [256]


def test_what_was_learnt_since_the_last_row_is_told_at_an_early_end(tmp_path: Path) -> None:
    run = trained(
        tiny(
            tmp_path,
            evaluation={"every": 256, "episodes": 2},
            early_stopping={"reward_threshold": 1.0},
            tracking={"every": 5_000, "tensorboard": False},
        )
    )
    assert [row["step"] for row in rows(run) if "train/loss" in row] == [256]


def test_patience_counts_evaluations_without_a_best(tmp_path: Path) -> None:
    # standing still for ever: every evaluation is like the first, which is the best
    config = tiny(
        tmp_path,
        total_timesteps=100_000,
        hyperparams={"learning_rate": 0.0},
        evaluation={"every": 128, "episodes": 2},
        early_stopping={"patience": 3},
        normalize_obs=False,
    )
    run = trained(config)
    assert run.info()["status"] == "stopped" and run.info()["reason"] == "no better evaluation in 3"
    assert run.info()["steps"] == 4 * 128
    best = CheckpointManager(run.checkpoints_dir).best()
    assert best is not None and best.step == 128


def test_patience_with_another_metric_as_the_best(tmp_path: Path) -> None:
    config = tiny(
        tmp_path,
        total_timesteps=2048,
        checkpoint={"every": None, "best_metric": "train/n_epochs"},  # 2, from the first row on
        evaluation={"every": 256, "episodes": 1},
        early_stopping={"patience": 3},
    )
    run = trained(config)
    assert run.info()["steps"] == 4 * 256  # the first evaluation follows a best, three do not


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps=10**9, early_stopping={"time": "0.2 seconds"}))
    assert run.info()["status"] == "stopped" and run.info()["reason"] == "ran for 0.2 seconds"


def test_a_run_that_stopped_early_goes_on_when_asked_to(tmp_path: Path) -> None:
    config = tiny(
        tmp_path, evaluation={"every": 256, "episodes": 2}, early_stopping={"reward_threshold": 1.0}
    )
    run = trained(config)
    assert resumed(run) == 256
    assert run.info()["status"] == "stopped" and run.info()["steps"] == 512  # the next evaluation


def test_a_run_killed_between_its_last_save_and_its_end_does_not_train_past_it(tmp_path: Path) -> None:
    config = tiny(
        tmp_path,
        evaluation={"every": 256, "episodes": 2},
        checkpoint={"every": 256},
        early_stopping={"reward_threshold": 1.0},
    )
    run = trained(config)
    before = rows(run)
    run.update_info(status="running")  # as SIGKILL would have left it
    assert resumed(run) == 256
    assert run.info()["status"] == "stopped" and run.info()["steps"] == 256 and rows(run) == before


def test_train_again_goes_on_to_the_larger_total(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, hyperparams={"learning_rate": {"linear": [1.0e-3, 0.0]}}))
    first = trainer.train(512)
    second = trainer.train(1024)
    third = trainer.train(1024)
    trainer.close()
    assert (first.steps, second.steps, third.steps) == (512, 1024, 1024)
    assert first.run == second.run == third.run and trainer.run is not None
    counts = Counter(row["step"] for row in rows(trainer.run) if "train/loss" in row)
    assert counts == {step: 1 for step in range(128, 1025, 128)}
    rates = {row["step"]: row["train/learning_rate"] for row in rows(trainer.run) if "train/loss" in row}
    assert rates[512] == pytest.approx(0.0)  # of a total of 512
    assert rates[640] == pytest.approx(1e-3 * (1 - 640 / 1024))  # of a total of 1024


class Signal:
    """A callback that sends this process a signal in the middle of a collection."""

    def __init__(self, number: int, at: int) -> None:
        self.number, self.at = number, at

    def __call__(self, local: dict[str, Any], _: dict[str, Any]) -> None:
        if local["self"].num_timesteps == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_reports(tmp_path: Path, number: int, code: int) -> None:
    before = signal.getsignal(number)
    trainer = trainer_for(tiny(tmp_path, checkpoint={"every": 256}))
    result = trainer.train(callback=Signal(number, at=500))
    trainer.close()
    assert result.status == "interrupted" and result.exit_code == code
    assert result.steps == 384  # what the open collection had gathered is dropped
    assert signal.getsignal(number) is before
    run = trainer.run
    assert run is not None and run.info()["status"] == "interrupted"
    checkpoints = CheckpointManager(run.checkpoints_dir).list()
    assert [(c.step, c.exact) for c in checkpoints] == [(256, True), (384, False)]
    assert resumed(run) == 384
    assert run.info()["status"] == "finished"
    steps = [row["step"] for row in rows(run) if "train/loss" in row]
    assert steps == list(range(128, 1025, 128))


def test_a_signal_before_the_first_update_leaves_a_run_to_go_on_with(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    result = trainer.train(callback=Signal(signal.SIGINT, at=10))
    trainer.close()
    assert result.status == "interrupted" and result.steps == 0
    assert trainer.run is not None and resumed(trainer.run) == 0
