"""End of a run: at its total in any unit, early for a reason, or by a signal."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import odd_envs  # noqa: F401  # registers its envs
import pytest
from tiny_runs import resumed, rows, same, steps_of, tiny, trained, trainer_for

from ludus.algorithms.backends.eager import EagerOnPolicy
from ludus.algorithms.ppo import PPO
from ludus.errors import UserError
from ludus.runs.checkpoints import CheckpointManager


@pytest.mark.parametrize(
    ("total", "steps"), [(1000, 1000), ("3 updates", 384), ("512 steps", 512), ("1e2", 100), (515, 516)]
)
def test_a_total_ends_the_run_with_the_update_that_reaches_it(tmp_path: Path, total: Any, steps: int) -> None:
    """The last rollout is shorter, so that a total in steps is met but for what a step of all envs adds."""
    run = trained(tiny(tmp_path, total_timesteps=total))
    assert run.info()["status"] == "finished" and run.info()["steps"] == steps
    assert steps_of(run) == [steps] and rows(run)[-1]["step"] == steps


def test_total_in_episodes_ends_the_run(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps="9 episodes"))
    last = rows(run)[-1]
    assert last["episodes"] >= 9 and last["episodes"] == len(run.episodes_path.read_text().splitlines())
    before = [row["episodes"] for row in rows(run) if row["updates"] == last["updates"] - 1]
    assert all(count < 9 for count in before)


def test_total_in_time_ends_the_run(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, total_timesteps="0.2 seconds"))
    result = trainer.train()
    trainer.close()
    assert result.status == "finished" and result.seconds >= 0.2 and result.steps > 0


def test_a_total_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    with pytest.raises(UserError, match=r"expected an amount of steps.*\n.*\n.*give env steps"):
        trainer.train("soon")
    assert not list(tmp_path.iterdir())


def test_a_run_ends_on_an_env_whose_episodes_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ludus.evaluation.evaluate.STEPS_WITHOUT_LIMIT", 40)
    config = tiny(
        tmp_path, env="CliffWalking-v1", total_timesteps=128, evaluation={"every": 128, "episodes": 3}
    )
    with caplog.at_level("WARNING", "ludus"):
        run = trained(config)
    assert "CliffWalking-v1 declares no time limit" in caplog.messages[0]
    assert "3 of 3 evaluation episodes did not end and were cut" in caplog.messages[1]
    assert run.info()["evaluation"]["capped_episodes"] == rows(run)[-1]["eval/capped_episodes"] == 3


def test_the_result_names_the_run(tmp_path: Path) -> None:
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


def test_metrics_since_the_last_row_are_written_at_an_early_end(tmp_path: Path) -> None:
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


def test_a_run_that_stopped_early_resumes_when_asked_to(tmp_path: Path) -> None:
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


def test_train_again_continues_to_the_larger_total(tmp_path: Path) -> None:
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


def interrupted_update(config: Any, monkeypatch: pytest.MonkeyPatch, update: int) -> Any:
    """A run of `config` that gets SIGINT in the second minibatch of this update, and how many minibatches it took."""
    taken: list[int] = []
    take, learn = EagerOnPolicy.minibatch, PPO.learn

    def minibatch(self: Any, indices: Any) -> None:
        taken.append(len(indices))
        take(self, indices)
        if len(learned) == update and len(taken) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    learned: list[None] = []

    def counted(self: Any, *arguments: Any) -> Any:
        learned.append(None)
        taken.clear()
        return learn(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(EagerOnPolicy, "minibatch", minibatch)
        patched.setattr(PPO, "learn", counted)
        trainer = trainer_for(config)
        result = trainer.train()
        trainer.close()
    assert result.status == "interrupted" and len(learned) == update and len(taken) == 2
    assert trainer.run is not None
    return trainer.run, result


SMALL_BATCHES: dict[str, Any] = {"kernels": False, "hyperparams": {"batch_size": 8, "n_epochs": 4}}


def test_a_signal_ends_a_long_update_after_the_minibatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.training.session.LONG_UPDATE", 0.0)
    config = tiny(tmp_path, checkpoint={"every": 256}, **SMALL_BATCHES)
    whole = trained(config)
    run, result = interrupted_update(config, monkeypatch, update=4)
    assert result.steps == 384  # what the update was learning from is dropped
    checkpoints = CheckpointManager(run.checkpoints_dir).list()
    assert [(c.step, c.exact) for c in checkpoints] == [(256, True), (384, False)]
    assert resumed(run, 256) == 256
    same(run, whole)


def test_a_stopped_update_of_games_that_are_saved_is_resumed_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.training.session.LONG_UPDATE", 0.0)
    config = tiny(
        tmp_path,
        env={"id": "ludus/Balatro-v0", "kwargs": {"actions": "moves", "max_hand": 10}},
        vector="batched",
        total_timesteps=640,
        **SMALL_BATCHES,
    )
    whole = trained(config)
    run, result = interrupted_update(config, monkeypatch, update=3)
    assert result.steps == 256 and [c.exact for c in CheckpointManager(run.checkpoints_dir).list()] == [True]
    assert resumed(run) == 256
    same(run, whole)


def test_the_first_update_can_be_stopped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows yet how long it takes."""
    run, result = interrupted_update(tiny(tmp_path, **SMALL_BATCHES), monkeypatch, update=1)
    assert result.steps == 0 and resumed(run) == 0 and run.info()["status"] == "finished"


def test_a_signal_before_the_first_update_leaves_a_resumable_run(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    result = trainer.train(callback=Signal(signal.SIGINT, at=10))
    trainer.close()
    assert result.status == "interrupted" and result.steps == 0
    assert trainer.run is not None and resumed(trainer.run) == 0
