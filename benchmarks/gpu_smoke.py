"""Trains each algorithm for a moment on CUDA and checks that resume is exact there with `deterministic: true`.

    python benchmarks/gpu_smoke.py [--device cuda] [--engine sb3]

Prints one line per algorithm: steps per second, and whether a run resumed from its middle ends with the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # what torch asks for deterministic matrix products

from ludus import TrainerConfig, create_trainer

TASKS = {
    "PPO": ("CartPole-v1", {"n_steps": 128, "batch_size": 64, "n_epochs": 4}, 8, 8192),
    "A2C": ("CartPole-v1", {}, 8, 4000),
    "DQN": ("CartPole-v1", {"learning_starts": 200}, 4, 4000),
    "SAC": ("Pendulum-v1", {"learning_starts": 200}, 1, 1500),
}
_OFF_POLICY = {"learning_starts": 200, "batch_size": 64, "buffer_size": 5000}
SB3_TASKS = {
    **{name: ("CartPole-v1", {"n_steps": 128, "batch_size": 64}, 8, 4096) for name in ("PPO", "TRPO")},
    "RecurrentPPO": ("CartPole-v1", {"n_steps": 64, "batch_size": 64, "n_epochs": 2}, 4, 1024),
    "MaskablePPO": ("Text/TicTacToe-v0", {"n_steps": 128, "batch_size": 64}, 4, 2048),
    "A2C": ("CartPole-v1", {}, 8, 4000),
    "ARS": ("CartPole-v1", {"n_delta": 2}, 2, 2000),
    **{name: ("CartPole-v1", _OFF_POLICY, 4, 2000) for name in ("DQN", "QR-DQN")},
    **{name: ("Pendulum-v1", _OFF_POLICY, 1, 1200) for name in ("SAC", "TD3", "DDPG", "TQC", "CrossQ")},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--engine", default="native")
    options = parser.parse_args()
    tasks = TASKS if options.engine == "native" else SB3_TASKS
    failed = False
    for algorithm, task in tasks.items():
        try:
            told = smoke(algorithm, options.engine, options.device, *task)
        except Exception as error:  # the others are to be tried all the same
            told, failed = f"{type(error).__name__}: {str(error).splitlines()[0]}", True
        print(f"{algorithm:12} on {options.device}: {told}", flush=True)
    sys.exit(failed)


def smoke(
    algorithm: str, engine: str, device: str, env: str, hyperparams: dict[str, Any], n_envs: int, steps: int
) -> str:
    """Train, resume from the middle, and say how fast it was and whether both ended alike."""
    with tempfile.TemporaryDirectory() as folder:
        config = TrainerConfig(
            algorithm=algorithm,
            engine=engine,
            env=env,
            n_envs=n_envs,
            device=device,
            deterministic=True,
            total_timesteps=steps,
            hyperparams=hyperparams,
            run_dir=f"{folder}/run",
            checkpoint={"every": steps // 4, "keep": 0},
            evaluation={"every": steps // 2, "episodes": 2},
            tracking={"tensorboard": False},
        )
        trainer = create_trainer(None, config)
        result = trainer.train()
        trainer.close()
        checkpoints = sorted(Path(folder, "run", "checkpoints").glob("0*/learner.safetensors"))
        before = [
            (path.read_bytes(), (path.parent / "policy.safetensors").read_bytes()) for path in checkpoints
        ]
        again = create_trainer(None, config)
        again.resume(f"{folder}/run", checkpoint=int(checkpoints[1].parent.name))
        again.train()
        again.close()
        after = [
            (path.read_bytes(), (path.parent / "policy.safetensors").read_bytes()) for path in checkpoints
        ]
        return f"{result.fps:8,.0f} steps/s, resume {'exact' if before == after else 'NOT exact'}"


if __name__ == "__main__":
    main()
