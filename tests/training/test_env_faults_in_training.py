"""An env that fails during training: the fault is reported as the env's, and nothing saved is lost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
import odd_envs
import pytest
from tiny_runs import resumed, rows, steps_of, tiny, trained, trainer_for

from ludus.errors import EnvFault, UserError
from ludus.evaluation.evaluate import evaluate
from ludus.evaluation.load import RandomBot
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
def test_a_step_that_raises_is_reported_as_the_envs_fault(tmp_path: Path, backend: str) -> None:
    trainer = failing(tmp_path, fails_at=50)
    trainer.config.vector = backend
    fault, run = fault_of(trainer)
    assert "the floor gave way" in str(fault) and "odd_envs.py" in fault.user_traceback
    assert not run.checkpoints_dir.exists() and not hasattr(fault, "__notes__")  # nothing to resume from
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
    assert note.startswith("Nothing saved is lost: checkpoint 000000000512 is intact. Resume with: ")
    assert f"resume({str(run.path)!r})" in note  # an env without a name: only Python can resume it
    assert run.info()["status"] == "failed" and run.info()["steps"] == 640

    again = trainer_for(trainer.config, Later)
    assert again.resume(run).step == 512
    assert again.train().status == "finished"
    again.close()
    assert [row["step"] for row in rows(run) if "train/loss" in row] == list(range(128, 1025, 128))


def test_a_named_env_gets_the_command_to_type(tmp_path: Path) -> None:
    # envs are rebuilt at every barrier: this one reaches 200 steps only after the last barrier
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
    assert note.endswith(f"Resume with: ludus resume {result.run}")
    assert trainer.run is not None and steps_of(trainer.run) == [256]


def test_reset_that_raises_in_training_is_an_env_fault(tmp_path: Path) -> None:
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


def test_a_run_resumes_after_its_env_was_fixed(tmp_path: Path) -> None:
    trainer = failing(tmp_path, fails_at=0)
    trainer.train(256)
    trainer.close()
    assert trainer.run is not None
    config = trainer.run.config_path
    _, text = config.read_text().split("\n", 1)  # without the seal, as the file asks its editors to do
    config.write_text(text.replace("fails_at: 0", "fails_at: 100"))
    with pytest.raises(EnvFault):
        resumed(trainer.run, total=1024)
    assert trainer.run.info()["status"] == "failed"
    _, text = config.read_text().split("\n", 1)
    config.write_text(text.replace("fails_at: 100", "fails_at: 0"))
    assert resumed(trainer.run) == 256
    assert trainer.run.info()["status"] == "finished" and trainer.run.info()["steps"] == 1024


class Mute(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(odd_envs.Walk):
    """From its step number `at` on, does what `oddity` says."""

    def __init__(self, oddity: str, at: int = 30) -> None:
        self.oddity, self.at, self.life = oddity, at, 0

    def step(self, action: Any) -> Any:
        self.life += 1
        obs, reward, terminated, truncated, info = super().step(action)
        ended = terminated or truncated
        if self.life < self.at:
            return obs, reward, terminated, truncated, info
        match self.oddity:
            case "exit":
                sys.exit(0)
            case "cancelled":
                raise asyncio.CancelledError
            case "mute":
                raise Mute
            case "flag":
                return obs, reward, "False", False, info
            case "list flag":
                return obs, reward, terminated, [False], info
            case "mask":
                info["action_mask"] = np.zeros(3, bool)
            case "recursive info":
                info["self"] = info
            case "info is a list":
                return obs, reward, terminated, truncated, [1]
            case "episode" if ended:
                info["episode"] = "won"
            case "episode without length" if ended:
                info["episode"] = {"r": 1.0}
            case "episode of NaN" if ended:
                info["episode"] = {"r": float("nan"), "l": 3}
            case "report" if ended:
                info["episode_report"] = "won"
            case "report of arrays" if ended:
                info["episode_report"] = {"kind": "walk", "path": np.zeros(3)}
        return obs, reward, terminated, truncated, info


ODDITIES = {
    "exit": "step() raised SystemExit: 0",
    "cancelled": "step() raised CancelledError",
    "mute": "step() raised Mute: (no message: its __str__ raised RuntimeError)",
    "flag": "terminated is the str 'False', not a bool",
    "list flag": "truncated is the list [False], not a bool",
    "mask": "leaves no legal action",
    "recursive info": "its info cannot be joined with those of the other envs: RecursionError",
    "info is a list": "its info cannot be joined with those of the other envs",
    "episode": 'info["episode"] has no numbers "r" (return) and "l" (length)',
    "episode without length": 'info["episode"] has no numbers "r" (return) and "l" (length)',
    "episode of NaN": 'info["episode"] is not finite',
    "report": 'info["episode_report"] is a str, not a dict',
    "report of arrays": 'info["episode_report"] cannot be saved as JSON: TypeError',
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_whatever_a_serial_env_does_is_its_own_fault(tmp_path: Path, oddity: str) -> None:
    config = tiny(tmp_path, env=None, checkpoint={"every": 256, "keep": 0})
    fault, run = fault_of(trainer_for(config, lambda: Odd(oddity)))
    assert ODDITIES[oddity] in str(fault) and fault.exit_code == 3 and fault.env_id == "custom"
    assert run.info()["status"] == "failed" and ODDITIES[oddity] in run.info()["error"]


@pytest.mark.parametrize("oddity", ["exit", "mask", "recursive info"])
def test_whatever_a_worker_env_does_is_its_own_fault(tmp_path: Path, oddity: str) -> None:
    config = tiny(tmp_path, env=None, vector="process", hyperparams={"n_steps": 32})
    fault, _ = fault_of(trainer_for(config, lambda: Odd(oddity)))
    assert ODDITIES[oddity] in str(fault)


@pytest.mark.parametrize("oddity", ODDITIES)
def test_whatever_an_env_does_in_an_evaluation_is_its_own_fault(oddity: str) -> None:
    if oddity in ("recursive info",):
        pytest.skip("an evaluation does not join infos")
    actor = RandomBot(odd_envs.Walk.action_space)
    with pytest.raises(EnvFault) as caught:
        evaluate(actor, lambda: Odd(oddity, at=0), range(2))
    expected = "step() raised" if oddity == "info is a list" else ODDITIES[oddity]
    assert expected in str(caught.value)


@pytest.mark.parametrize("problem", [RuntimeError("stuck"), SystemExit(0), Mute()])
def test_an_env_that_fails_to_close_does_not_end_the_run(
    tmp_path: Path, problem: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(odd_envs.Walk):
        def close(self) -> None:
            raise problem

    config = tiny(
        tmp_path,
        env=None,
        total_timesteps=512,
        checkpoint={"every": 256},
        evaluation={"every": 128, "episodes": 2},
    )
    run = trained(config, Stuck)
    assert run.info()["status"] == "finished" and {256, 512} <= set(steps_of(run))
    assert "failed to close" in caplog.text


def test_an_evaluation_env_that_cannot_be_built_is_the_envs_fault(tmp_path: Path) -> None:
    made = {"envs": 0}

    def walk() -> Any:
        made["envs"] += 1
        if made["envs"] > 2:
            raise RuntimeError("the port is taken")
        return odd_envs.Walk()

    trainer = trainer_for(tiny(tmp_path, env=None, evaluation={"every": 128, "episodes": 2}), walk)
    fault, _ = fault_of(trainer)
    assert "the constructor raised RuntimeError: the port is taken" in str(fault)


def test_an_evaluation_whose_observation_is_not_finite_is_the_envs_fault() -> None:
    class Blank(odd_envs.Walk):
        def see(self) -> Any:
            return np.full(2, np.nan, np.float32) if self.moves == 3 else super().see()

    with pytest.raises(EnvFault, match=r"it gave observation\[0\] = nan"):
        evaluate(RandomBot(odd_envs.Walk.action_space), Blank, range(2))


def test_flags_that_are_numbers_are_taken_as_they_are_meant(tmp_path: Path) -> None:
    class Numbers(odd_envs.Walk):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, int(terminated), np.float32(truncated), info

    run = trained(tiny(tmp_path, env=None, total_timesteps=256), Numbers)
    assert run.info()["status"] == "finished"
