"""Small runs as files, what two runs that ended alike have in common, and tests in a process of their own."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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
    """Return the results of a run that an exact resume must reproduce to the byte."""
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


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in a fresh process, where nothing has started threads: only such a one can be forked safely."""

    @functools.wraps(test)
    def in_a_process(**given: Any) -> None:
        record_fault = given.pop("record_fault")
        plain = {name: [str(v)] if isinstance(v, Path) else v for name, v in given.items()}
        places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", _ALONE, test.__module__, test.__name__, json.dumps(plain)],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": places},
        )
        for line in done.stdout.splitlines():
            if line.startswith(_RECORD):
                record_fault(*json.loads(line.removeprefix(_RECORD)))
            elif line.startswith(_SKIP):
                pytest.skip(line.removeprefix(_SKIP))
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    return in_a_process


_ALONE = "import killable_runs; killable_runs.run_alone()"
_RECORD, _SKIP = "fault: ", "skip: "


def run_alone() -> None:
    """The other end of `alone`."""
    module, name, text = sys.argv[1:]
    given = {key: Path(v[0]) if isinstance(v, list) else v for key, v in json.loads(text).items()}
    test = getattr(importlib.import_module(module), name).__wrapped__
    said = os.fdopen(os.dup(1), "w", buffering=1)

    def record(*row: Any) -> None:
        print(_RECORD + json.dumps(row), file=said)

    try:
        test(**given, record_fault=record)
    except pytest.skip.Exception as reason:
        print(f"{_SKIP}{reason}", file=said)
