"""Small comparisons for tests: their arguments, and the files in which equal ones must agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TINY = [
    "n_envs=2",
    "vector=serial",
    "env.max_episode_steps=100",
    "total_timesteps=2000",
    "hyperparams.policy_net_arch=[16]",
    "hyperparams.value_net_arch=[16]",
    "checkpoint.every=500",
    "evaluation.every=500",
    "evaluation.episodes=2",
    "tracking.tensorboard=false",
    "tracking.every=250",
]
CONFIGS = {
    "ppo": "algorithm: PPO\nhyperparams: {n_steps: 50, batch_size: 50, n_epochs: 2}\n",
    "a2c": "algorithm: A2C\nhyperparams: {n_steps: 10}\n",
    "dqn": "algorithm: DQN\nhyperparams: {learning_starts: 200, batch_size: 16, buffer_size: 2000}\n",
}
RESULTS = ("results.json", "results.csv")


def write_configs(folder: Path) -> list[str]:
    """Write three configs into `folder`; return their file names."""
    for name, text in CONFIGS.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\nenv: CartPole-v1\n{text}")
    return [f"{name}.yaml" for name in CONFIGS]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `ludus ARGUMENTS…` in `folder`, in its own process."""
    return subprocess.Popen(
        [sys.executable, "-m", "ludus", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
    )


def finished_runs(comparison: Path) -> dict[str, int]:
    """Return the finished runs with the inode of their last checkpoint's manifest; a repeated run has another inode."""
    found = {}
    for info in comparison.glob("runs/*/*/run.json"):
        if '"status": "finished"' in info.read_text():
            newest = max(info.parent.glob("checkpoints/0*/MANIFEST.json"))
            found[str(info.parent.relative_to(comparison))] = newest.stat().st_ino
    return found
