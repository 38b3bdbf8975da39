"""Regenerate the golden curves: `python tests/golden/regenerate.py [ALGORITHM …]`.

Do so only when the numbers are meant to change, and say why in the commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ludus.config.schema import TrainerConfig
from ludus.tracking.jsonl import read_jsonl
from ludus.training.base import TrainResult
from ludus.training.factory import create_trainer

FOLDER = Path(__file__).parent
RUNS: dict[str, dict[str, Any]] = {
    "PPO": {"env": "CartPole-v1", "hyperparams": {"n_steps": 64, "batch_size": 64, "n_epochs": 4}},
    "A2C": {"env": "CartPole-v1", "hyperparams": {"n_steps": 8}},
    "DQN": {
        "env": "CartPole-v1",
        "hyperparams": {
            "learning_starts": 500,
            "target_update_interval": 500,
            "exploration_fraction": 0.5,
            "gradient_steps": 1,
        },
    },
    "SAC": {
        "env": "Pendulum-v1",
        "hyperparams": {"learning_starts": 300, "train_freq": 2, "gradient_steps": 1, "batch_size": 64},
    },
}


def curve(algorithm: str) -> list[dict[str, Any]]:
    """The metrics of the short seeded run, without what the clock says."""
    with tempfile.TemporaryDirectory() as folder:
        run = RUNS[algorithm]
        config = TrainerConfig(
            algorithm=algorithm,
            env=run["env"],
            n_envs=4,
            normalize_reward=True,
            vector="serial",
            total_timesteps=3072,
            seed=1,
            device="cpu",
            hyperparams={**run["hyperparams"], "policy_net_arch": [32, 32], "value_net_arch": [32, 32]},
            evaluation={"every": 1536, "episodes": 3},
            checkpoint={"every": 1024},
            tracking={"every": 256, "tensorboard": False},
            save_dir=folder,
        )
        trainer = create_trainer(None, config)
        result = trainer.train()
        trainer.close()
        assert isinstance(result, TrainResult)
        rows = list(read_jsonl(result.run / "metrics.jsonl"))
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def path_of(algorithm: str) -> Path:
    return FOLDER / f"{algorithm.lower()}.json"


if __name__ == "__main__":
    for name in sys.argv[1:] or RUNS:
        lines = ",\n ".join(json.dumps(row) for row in curve(name.upper()))
        path_of(name).write_text(f"[{lines}]\n", encoding="utf-8")
        print(path_of(name))
