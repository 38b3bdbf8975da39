"""Callbacks under their Stable-Baselines3 names: what is called, in which order, how often, and what it may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import resumed, rows, tiny, trained, trainer_for

from ludus.errors import UserError
from ludus.training.callbacks import BaseCallback, CallbackList, as_callback
from ludus.training.factory import open_trainer


class Diary(BaseCallback):
    """Writes down what is called."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.entries: list[str] = []
        self.steps: list[int] = []
        self.stop_at = stop_at

    def _init_callback(self) -> None:
        self.entries.append("init")

    def _on_training_start(self) -> None:
        self.entries.append(f"training start at {self.num_timesteps}")

    def _on_rollout_start(self) -> None:
        self.entries.append("rollout start")

    def _on_step(self) -> bool:
        self.steps.append(self.num_timesteps)
        return self.n_calls != self.stop_at

    def _on_rollout_end(self) -> None:
        self.entries.append(f"rollout end at {self.model.num_timesteps}")

    def _on_training_end(self) -> None:
        self.entries.append("training end")


def test_hooks_come_in_order_and_in_number(tmp_path: Path) -> None:
    diary = Diary()
    trained(tiny(tmp_path, total_timesteps=256), callback=diary)
    assert diary.entries == [
        "init",
        "training start at 0",
        "rollout start",
        "rollout end at 128",
        "rollout start",
        "rollout end at 256",
        "training end",
    ]
    assert diary.steps == list(range(2, 257, 2))  # two envs: two steps a call
    assert diary.n_calls == 128 and diary.num_timesteps == 256


def test_a_callback_sees_the_trainer_and_its_envs(tmp_path: Path) -> None:
    class Look(BaseCallback):
        def _on_step(self) -> bool:
            assert self.training_env.num_envs == 2
            assert self.model.policy is not None and self.locals["self"] is self.model
            return True

    trained(tiny(tmp_path, total_timesteps=128), callback=Look())


def test_returning_false_stops_the_run_which_can_go_on(tmp_path: Path) -> None:
    diary = Diary(stop_at=100)
    trainer = trainer_for(tiny(tmp_path))
    result = trainer.train(callback=diary)
    trainer.close()
    assert result.status == "stopped" and result.exit_code == 0
    assert result.reason == "a callback asked for it"
    assert result.steps == 128  # the second collection was not finished
    assert diary.entries[-1] == "training end" and len(diary.steps) == 100
    assert trainer.run is not None and trainer.run.info()["status"] == "stopped"
    assert resumed(trainer.run) == 128
    assert trainer.run.info()["status"] == "finished" and trainer.run.info()["steps"] == 1024


def test_stopping_in_the_first_collection_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    assert trainer.train(callback=Diary(stop_at=3)).steps == 0
    trainer.close()
    assert trainer.run is not None
    assert resumed(trainer.run) == 0
    assert trainer.run.info()["steps"] == 1024


def test_none_is_not_false(tmp_path: Path) -> None:
    calls: list[int] = []

    def count(local: dict[str, Any], global_: dict[str, Any]) -> None:
        calls.append(local["self"].num_timesteps)

    run = trained(tiny(tmp_path, total_timesteps=128), callback=count)
    assert run.info()["status"] == "finished" and len(calls) == 64


def test_a_function_may_stop_the_run(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path), callback=lambda local, _: local["self"].num_timesteps < 300)
    assert run.info()["status"] == "stopped" and run.info()["steps"] == 256


def test_all_of_a_list_are_called_and_any_may_stop(tmp_path: Path) -> None:
    first, second = Diary(), Diary(stop_at=70)
    run = trained(tiny(tmp_path), callback=[first, CallbackList([second])])
    assert run.info()["status"] == "stopped"
    assert len(first.steps) == len(second.steps) == 70
    assert first.entries == second.entries


def test_what_a_callback_records_lands_in_the_metrics(tmp_path: Path) -> None:
    class Record(BaseCallback):
        def _on_step(self) -> bool:
            self.logger.record("mine/last_step", self.num_timesteps)
            return True

        def _on_rollout_end(self) -> None:
            self.logger.record("mine/rollouts", 1, exclude="stdout")

    run = trained(tiny(tmp_path, total_timesteps=512, tracking={"every": 256}), callback=Record())
    training = [row for row in rows(run) if "mine/rollouts" in row]
    assert [row["step"] for row in training] == [256, 512]
    assert [row["mine/last_step"] for row in training] == [192.0, 448.0]  # the mean over two updates each
    assert [row["mine/rollouts"] for row in training] == [1.0, 1.0]


def test_a_resumed_run_tells_callbacks_where_it_stands(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps=256))
    trainer = open_trainer(run)
    trainer.resume(run)
    diary = Diary()
    trainer.train(512, callback=diary)
    trainer.close()
    assert diary.entries[:3] == ["init", "training start at 256", "rollout start"]
    assert diary.steps[0] == 258 and diary.num_timesteps == 512


def test_what_is_no_callback_is_refused() -> None:
    assert as_callback(None) is None
    with pytest.raises(UserError, match="5 is not a callback"):
        as_callback(5)
