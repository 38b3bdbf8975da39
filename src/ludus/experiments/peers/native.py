"""Benchmark script for Ludus, in its own process: `python native.py speed|learn '{…}'` prints one JSON object.

The task is a workload with `kernels` (false: the torch learners), and for `learn` with `seed` and `episodes`.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow imports are done after `exit_with_parent`
    from ludus import TrainerConfig

POINTS = 100


def config(task: dict[str, Any], folder: str, **changes: Any) -> TrainerConfig:
    """Return the task as a config of Ludus, without anything around the training that other libraries do not do."""
    from ludus import TrainerConfig

    arch = task["net_arch"]
    fields = {
        "algorithm": task["algorithm"],
        "env": task["env"],
        "n_envs": task["n_envs"],
        "vector": task["vector"],
        "total_timesteps": task["steps"],
        "seed": task.get("seed", 0),
        "kernels": task["kernels"],
        "hyperparams": {**task["hyperparams"], "policy_net_arch": arch, "value_net_arch": arch},
        "policy": {"activation": task["activation"]},
        "device": "cpu",
        "normalize_obs": False,
        "normalize_reward": False,
        "checkpoint": None,
        "evaluation": None,
        "tracking": {"tensorboard": False, "every": max(task["steps"] // POINTS, 1)},
        "save_dir": folder,
    }
    return TrainerConfig(**fields | changes)


def warm_up(task: dict[str, Any], folder: str) -> None:
    """Compile everything: two updates of a temporary trainer, with few envs to keep the peak memory low."""
    from ludus import create_trainer

    h = dict(task["hyperparams"])
    small = task | {"n_envs": min(task["n_envs"], 8), "hyperparams": h}
    samples = h.get("n_steps", 0) * small["n_envs"]
    if task["algorithm"] == "PPO":
        h["batch_size"] = min(h["batch_size"], samples)
    trainer = create_trainer(
        None, config(small, folder, total_timesteps=max(2 * samples, h.get("learning_starts", 0) + 100))
    )
    trainer.train()
    trainer.close()


def speed(task: dict[str, Any], folder: str) -> dict[str, Any]:
    """Measure steps per second, and the peak memory of the process before and after the training."""
    from ludus import create_trainer

    before = peak_mib()
    trainer = create_trainer(None, config(task, folder))
    result = trainer.train()
    trainer.close()
    return {
        "fps": result.fps,
        "threads": trainer.config.threads,
        "vector": trainer.config.vector,
        "memory_before_mib": before,
        "memory_mib": peak_mib(),
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def learn(task: dict[str, Any], folder: str) -> dict[str, Any]:
    """Train for the whole budget; return the curve, and the rewards of the final policy."""
    from ludus import create_trainer
    from ludus.envs.make import EnvSpec
    from ludus.evaluation.evaluate import evaluate
    from ludus.tracking.jsonl import read_jsonl

    trainer: Any = create_trainer(None, config(task, folder))
    result = trainer.train()
    rows = read_jsonl(Path(result.run) / "metrics.jsonl")
    curve = [
        (row["step"], row["time/seconds"], row["rollout/ep_rew_mean"])
        for row in rows
        if "rollout/ep_rew_mean" in row
    ]
    played = evaluate(trainer.policy.eval(), EnvSpec(task["env"]), range(task["episodes"]))
    trainer.close()
    return {
        "steps": result.steps,
        "seconds": result.seconds,
        "threads": trainer.config.threads,
        "vector": trainer.config.vector,
        "curve": curve,
        "rewards": played.rewards.tolist(),
    }


def main(mode: str, task: dict[str, Any]) -> None:
    from ludus import __version__

    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        warm_up(task, folder)
        ready = time.monotonic() - started
        answer = {"speed": speed, "learn": learn}[mode](task, folder)
    print(json.dumps({"version": __version__, "compile_seconds": ready} | answer))


if __name__ == "__main__":
    from lifeline import exit_with_parent

    exit_with_parent()
    main(sys.argv[1], json.loads(sys.argv[2]))
