"""Runs small enough for a test, and what two of them must have in common to be called the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer
from ludus.training.native import NativeTrainer

HYPERPARAMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "batch_size": 64, "n_epochs": 2},
    "A2C": {"n_steps": 8},
    "DQN": {"learning_starts": 200, "batch_size": 16, "target_update_interval": 200, "buffer_size": 1000},
    "SAC": {"learning_starts": 100, "batch_size": 16, "buffer_size": 1000},
}


def tiny(folder: Path, algorithm: str = "PPO", **fields: Any) -> TrainerConfig:
    """A config that trains for about a second; `hyperparams` in `fields` are added to the tiny ones."""
    hyperparams = {
        **HYPERPARAMS[algorithm],
        "policy_net_arch": [16],
        "value_net_arch": [16],
        **fields.pop("hyperparams", {}),
    }
    defaults: dict[str, Any] = {
        "env": "Pendulum-v1" if algorithm == "SAC" else "CartPole-v1",
        "n_envs": 2,
        "vector": "serial",
        "total_timesteps": 1024,
        "checkpoint": {"every": None},
        "evaluation": {"every": None, "episodes": 2},
        "tracking": {"every": 128, "tensorboard": False},
        "save_dir": str(folder),
    }
    return TrainerConfig(algorithm=algorithm, hyperparams=hyperparams, **(defaults | fields))


def trainer_for(config: TrainerConfig, env: Any = None) -> NativeTrainer:
    trainer = create_trainer(env, config)
    assert isinstance(trainer, NativeTrainer)
    return trainer


def trained(config: TrainerConfig, env: Any = None, callback: Any = None) -> RunDirectory:
    """The directory of a whole run of `config`."""
    trainer = trainer_for(config, env)
    try:
        return RunDirectory.open(trainer.train(callback=callback).run)
    finally:
        trainer.close()


def resumed(run: RunDirectory, checkpoint: int | None = None, total: Any = None) -> int:
    """Resume `run` to its end. Return the step from which it was resumed."""
    trainer = open_trainer(run)
    try:
        step = trainer.resume(run, checkpoint).step
        trainer.train(total)
        return step
    finally:
        trainer.close()


def rows(run: RunDirectory) -> list[dict[str, Any]]:
    """The metrics, without what the clock says."""
    lines = run.metrics_path.read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]


def steps_of(run: RunDirectory) -> list[int]:
    """The steps whose checkpoints are there."""
    return sorted(int(path.name) for path in run.checkpoints_dir.iterdir() if path.is_dir())


def learned(run: RunDirectory) -> dict[str, Any]:
    """Everything that an exact resume repeats: weights, optimizers and buffers, metrics and episodes."""
    last = run.checkpoints_dir / f"{steps_of(run)[-1]:012d}"
    best = run.checkpoints_dir / "best.json"
    return {
        "checkpoint": last.name,
        "policy": (last / "policy.safetensors").read_bytes(),
        "learner": (last / "learner.safetensors").read_bytes(),
        "metrics": rows(run),
        "episodes": run.episodes_path.read_text(),
        "best": best.read_text() if best.exists() else None,
    }


def same(one: RunDirectory, other: RunDirectory) -> None:
    """Assert that two runs ended alike, naming the first part in which they differ."""
    first, second = learned(one), learned(other)
    for row, counterpart in zip(first["metrics"], second["metrics"], strict=True):
        differing = {k: (v, counterpart.get(k)) for k, v in row.items() if v != counterpart.get(k)}
        assert not differing, f"at step {row['step']}: {differing}"
    for part in first:
        assert first[part] == second[part], f"{part} differs"
