"""Small runs as files, and what two runs that ended alike have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from ludus.runs.directory import RunDirectory

DRIVER = Path(__file__).with_name("driver.py")
HYPERPARAMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "batch_size": 64, "n_epochs": 2, "learning_rate": {"linear": [1e-3, 0.0]}},
    "A2C": {"n_steps": 8},
    "DQN": {"learning_starts": 500, "batch_size": 16, "target_update_interval": 500, "buffer_size": 3000},
    "SAC": {"learning_starts": 200, "batch_size": 16, "train_freq": 4, "buffer_size": 3000},
}


def write_config(folder: Path, algorithm: str, **fields: Any) -> Path:
    """A config of four thousand steps that saves every thousand and evaluates in between."""
    data: dict[str, Any] = {
        "algorithm": algorithm,
        "env": {"id": "Pendulum-v1" if algorithm == "SAC" else "CartPole-v1"},
        "n_envs": 2,
        "vector": "serial",
        "total_timesteps": 4000,
        "hyperparams": {**HYPERPARAMS[algorithm], "policy_net_arch": [16], "value_net_arch": [16]},
        "checkpoint": {"every": 1000, "keep": 2},
        "evaluation": {"every": 1500, "episodes": 2},
        "tracking": {"every": 250, "tensorboard": False},
        **fields,
    }
    path = folder / f"{algorithm}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def start(run: Path, config: Path, pause: float = 0.0) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(DRIVER), str(run), str(config), str(pause)], env=environment)


def wait_for_checkpoint(run: Path, process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not newest(run):
        assert process.poll() is None, "the run ended before its first checkpoint"
        assert time.monotonic() < deadline, "no checkpoint appeared"
        time.sleep(0.01)


def newest(run: Path) -> int:
    """The step of the newest checkpoint that is in place; 0 when there is none."""
    folder = run / "checkpoints"
    names = os.listdir(folder) if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=0)


def learned(run: Path) -> dict[str, Any]:
    """What an exact resume repeats to the byte."""
    last = run / "checkpoints" / f"{newest(run):012d}"
    lines = (run / "metrics.jsonl").read_text().splitlines()
    best = run / "checkpoints" / "best.json"
    return {
        "status": RunDirectory.open(run).info()["status"],
        "checkpoint": last.name,
        "policy": (last / "policy.safetensors").read_bytes(),
        "learner": (last / "learner.safetensors").read_bytes(),
        "metrics": [
            {k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines
        ],
        "episodes": (run / "episodes.jsonl").read_text(),
        "best": best.read_text() if best.exists() else None,
    }
