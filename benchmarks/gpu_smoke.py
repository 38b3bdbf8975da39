"""Trains each algorithm for a moment on CUDA and checks that resume is exact there with `deterministic: true`.

    python benchmarks/gpu_smoke.py [--device cuda]

Prints one line per algorithm: steps per second, and whether a run resumed from its middle ends with the same bytes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    for algorithm, (env, hyperparams, n_envs, steps) in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = TrainerConfig(
                algorithm=algorithm,
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
            exact = "exact" if before == after else "NOT exact"
            print(f"{algorithm:4} on {device}: {result.fps:8,.0f} steps/s, resume {exact}", flush=True)


if __name__ == "__main__":
    main()
