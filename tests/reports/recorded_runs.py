"""Fake runs: the files of a run, with curves that look like learning."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ludus.config.plain_yaml import write_yaml
from ludus.runs.directory import RunDirectory
from ludus.runs.hints import Hints


def recorded(
    root: Path,
    name: str = "walker",
    *,
    seed: int = 1,
    steps: int = 100_000,
    every: int = 2_000,
    learning_rate: float = 3e-4,
    metrics: dict[str, float] | None = None,
    only: str = "",
    **info: Any,
) -> RunDirectory:
    """A run of `steps` steps with a row every so many; `metrics` are further ones, the same in each row.

    Of the others only those whose names begin with `only` are written: every metric is a figure to draw.
    """
    run = RunDirectory.create(root, "BipedalWalker-v3", "PPO", name)
    run.update_info(
        **({"status": "finished", "seed": seed, "steps": steps, "command": "ludus train bipedal"} | info)
    )
    config = {
        "algorithm": "PPO",
        "env": {"id": "BipedalWalker-v3", "kwargs": {}},
        "total_timesteps": steps,
        "seed": seed,
        "hyperparams": {"learning_rate": learning_rate, "n_steps": 512},
        "evaluation": {"every": 10_000, "episodes": 10},
    }
    run.config_path.write_text(write_yaml(config))
    rng = np.random.default_rng(seed)
    with run.metrics_path.open("w") as file:
        for row in range(1, steps // every + 1):
            found = _row(row * every, row, steps, rng)
            kept = {key: value for key, value in found.items() if "/" not in key or key.startswith(only)}
            file.write(json.dumps(kept | {"time/seconds": found["time/seconds"]} | (metrics or {})) + "\n")
            if row * every % (10 * every) == 0:
                file.write(json.dumps(_evaluation(row * every, row, steps, rng)) + "\n")
    with run.episodes_path.open("w") as file:
        for step in range(200, steps + 1, 200):
            reward = float(300 * step / steps - 100 + rng.normal(0, 50))
            file.write(json.dumps({"step": step, "reward": reward, "length": 200}) + "\n")
    return run


def add_checkpoint(run: RunDirectory, step: int, *, best: bool = False) -> Path:
    folder = run.checkpoints_dir / f"{step:012d}"
    folder.mkdir(parents=True)
    manifest = {
        "format": 1,
        "step": step,
        "created": "2026-01-02T03:04:05+00:00",
        "exact": True,
        "resumable": True,
        "files": {"policy.safetensors": {"size": 70, "sha256": ""}, "state.json": {"size": 30, "sha256": ""}},
    }
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    if best:
        Hints(run.checkpoints_dir).set_best(step, "eval/mean_reward", 290.0)
    return folder


def _row(step: int, row: int, steps: int, rng: np.random.Generator) -> dict[str, float]:
    done = step / steps
    return {
        "step": step,
        "updates": row,
        "episodes": step // 200,
        "rollout/ep_rew_mean": 300 / (1 + math.exp(-8 * (done - 0.4))) - 100 + rng.normal(0, 10),
        "rollout/ep_len_mean": 200 + 1200 * done + rng.normal(0, 40),
        "train/approx_kl": abs(rng.normal(0.008, 0.003)),
        "train/entropy_loss": -5 + 3 * done + rng.normal(0, 0.05),
        "train/explained_variance": min(1.0, 0.2 + done + rng.normal(0, 0.05)),
        "train/policy_gradient_loss": rng.normal(-0.01, 0.004),
        "train/value_loss": abs(rng.normal(0.3, 0.1)) * (1 - 0.8 * done),
        "train/grad_norm": abs(rng.normal(0.6, 0.2)),
        "train/param_norm": 10 + 8 * done,
        "train/moment_norm": abs(rng.normal(0.1, 0.02)),
        "train/learning_rate": 3e-4 * (1 - done),
        "time/fps": 9000 + rng.normal(0, 400),
        "time/seconds": step / 9000,
        "time/cpu_cores": 1.8 + rng.normal(0, 0.1),
        "time/memory_gb": 0.6 + 0.01 * done,
    }


def _evaluation(step: int, row: int, steps: int, rng: np.random.Generator) -> dict[str, float]:
    return {
        "step": step,
        "updates": row,
        "episodes": step // 200,
        "eval/mean_reward": 320 / (1 + math.exp(-8 * (step / steps - 0.35))) - 100 + rng.normal(0, 8),
        "eval/std_reward": abs(rng.normal(25, 5)),
        "eval/mean_ep_length": 300 + 900 * step / steps,
    }
