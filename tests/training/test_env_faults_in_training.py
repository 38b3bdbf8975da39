"""An env that fails in the middle of training: the fault is told as the env's, and nothing saved is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import odd_envs
import pytest
from tiny_runs import resumed, rows, steps_of, tiny, trainer_for

from ludus.errors import EnvFault, UserError
from ludus.runs.directory import RunDirectory
from ludus.training.native import NativeTrainer


def failing(folder: Path, **kwargs: Any) -> NativeTrainer:
    config = tiny(
        folder,
        env={"id": "odd_envs:FaultyWalk-v0", "kwargs": kwargs},
        checkpoint={"every": 256, "keep": 0},
    )
    return trainer_for(config)


def fault_of(trainer: NativeTrainer) -> tuple[EnvFault, RunDirectory]:
    with pytest.raises(EnvFault) as caught:
        trainer.train()
    trainer.close()
    assert trainer.run is not None
    return caught.value, trainer.run


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_a_step_that_raises_is_told_as_the_envs(tmp_path: Path, backend: str) -> None:
    trainer = failing(tmp_path, fails_at=50)
    trainer.config.vector = backend
    fault, run = fault_of(trainer)
    assert "the floor gave way" in str(fault) and "odd_envs.py" in fault.user_traceback
    assert not run.checkpoints_dir.exists() and not hasattr(fault, "__notes__")  # nothing to go on from
    info = run.info()
    assert info["status"] == "failed" and "the floor gave way" in info["error"]


def test_the_last_checkpoint_is_intact_and_named(tmp_path: Path) -> None:
    calls = {"steps": 0}

    class Later(odd_envs.Walk):
        def step(self, action: Any) -> Any:
            calls["steps"] += 1
            if calls["steps"] == 700:
                raise RuntimeError("the floor gave way")
            return super().step(action)

    trainer = trainer_for(tiny(tmp_path, env=None, n_envs=2, checkpoint={"every": 256, "keep": 0}), Later)
    fault, run = fault_of(trainer)
    assert steps_of(run) == [256, 512]
    (note,) = fault.__notes__
    assert note.startswith("Nothing saved is lost: checkpoint 000000000512 is intact. Go on with: ")
    assert f"resume({str(run.path)!r})" in note  # an env without a name: only Python can go on with it
    assert run.info()["status"] == "failed" and run.info()["steps"] == 640

    again = trainer_for(trainer.config, Later)
    assert again.resume(run).step == 512
    assert again.train().status == "finished"
    again.close()
    assert [row["step"] for row in rows(run) if "train/loss" in row] == list(range(128, 1025, 128))


def test_a_named_env_gets_the_command_to_type(tmp_path: Path) -> None:
    # envs are built anew at every barrier: this one comes to 200 steps only once there is none any more
    trainer = trainer_for(
        tiny(
            tmp_path,
            env={"id": "odd_envs:FaultyWalk-v0", "kwargs": {"fails_at": 200}},
            checkpoint={"every": 256, "keep": 0},
            total_timesteps=640,
        )
    )
    result = trainer.train(256)
    assert result.steps == 256
    trainer.config = trainer.config.model_copy(update={"checkpoint": tiny(tmp_path).checkpoint})
    with pytest.raises(EnvFault) as caught:
        trainer.train(1024)
    trainer.close()
    (note,) = caught.value.__notes__
    assert note.endswith(f"Go on with: ludus resume {result.run}")
    assert trainer.run is not None and steps_of(trainer.run) == [256]


def test_a_reset_that_raises_in_training(tmp_path: Path) -> None:
    fault, run = fault_of(failing(tmp_path, fails_at=5, fails_in="reset"))
    assert "reset() raised RuntimeError: the door is locked" in str(fault)
    assert run.info()["status"] == "failed"


def test_a_reset_that_raises_at_the_very_start_is_a_failed_run(tmp_path: Path) -> None:
    class Locked(odd_envs.Walk):
        def reset(self, **kwargs: Any) -> Any:
            raise RuntimeError("no key")

    trainer = trainer_for(tiny(tmp_path, env=None), Locked)
    fault, run = fault_of(trainer)
    assert "no key" in str(fault) and run.info()["status"] == "failed"


def test_an_evaluation_that_raises_is_the_envs_fault_too(tmp_path: Path) -> None:
    made = {"envs": 0}

    def walk() -> Any:
        made["envs"] += 1
        return odd_envs.FaultyWalk(fails_at=3) if made["envs"] > 2 else odd_envs.Walk()

    trainer = trainer_for(tiny(tmp_path, env=None, evaluation={"every": 128, "episodes": 2}), walk)
    fault, _ = fault_of(trainer)
    assert "step() raised RuntimeError: the floor gave way" in str(fault)


def test_a_trainer_whose_run_failed_before_a_checkpoint_starts_no_second_one(tmp_path: Path) -> None:
    trainer = failing(tmp_path, fails_at=5)
    with pytest.raises(EnvFault):
        trainer.train()
    with pytest.raises(UserError, match="failed before its first checkpoint"):
        trainer.train()
    trainer.close()


def test_resuming_after_the_env_was_mended(tmp_path: Path) -> None:
    trainer = failing(tmp_path, fails_at=0)
    trainer.train(256)
    trainer.close()
    assert trainer.run is not None
    config = trainer.run.config_path
    _, text = config.read_text().split("\n", 1)  # without the seal, as it asks of whoever changes the file
    config.write_text(text.replace("fails_at: 0", "fails_at: 100"))
    with pytest.raises(EnvFault):
        resumed(trainer.run, total=1024)
    assert trainer.run.info()["status"] == "failed"
    _, text = config.read_text().split("\n", 1)
    config.write_text(text.replace("fails_at: 100", "fails_at: 0"))
    assert resumed(trainer.run) == 256
    assert trainer.run.info()["status"] == "finished" and trainer.run.info()["steps"] == 1024
