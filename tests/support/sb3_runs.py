"""Runs of `engine: sb3` small enough for a test, one for every algorithm it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.config.schema import TrainerConfig

# long enough for full buffers, target updates, ends of episodes and several updates
_REPLAY: dict[str, Any] = {"batch_size": 16, "buffer_size": 120}
_DISCRETE: dict[str, Any] = {**_REPLAY, "learning_starts": 40, "target_update_interval": 40}
_CONTINUOUS: dict[str, Any] = {**_REPLAY, "learning_starts": 24}
_ON_POLICY: dict[str, Any] = {"n_steps": 32, "batch_size": 32}

HYPERPARAMS: dict[str, dict[str, Any]] = {
    "PPO": {**_ON_POLICY, "n_epochs": 2},
    "A2C": {"n_steps": 8},
    "DQN": _DISCRETE,
    "QR-DQN": _DISCRETE,
    "SAC": _CONTINUOUS,
    "TD3": {**_CONTINUOUS, "action_noise": {"ornstein_uhlenbeck": 0.1}},
    "DDPG": {**_CONTINUOUS, "action_noise": {"normal": 0.1}},
    "TQC": _CONTINUOUS,
    "CrossQ": _CONTINUOUS,
    "TRPO": _ON_POLICY,
    "ARS": {"n_delta": 2},
    "RecurrentPPO": {
        "n_steps": 16,
        "batch_size": 16,
        "n_epochs": 2,
        "policy_kwargs": {"lstm_hidden_size": 8},
    },
    "MaskablePPO": {**_ON_POLICY, "n_epochs": 2},
}
CONTINUOUS = ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
NO_VALUE_NET = ("DQN", "QR-DQN", "ARS")


def tiny_sb3(folder: Path, algorithm: str = "PPO", **fields: Any) -> TrainerConfig:
    """A config that trains for a fraction of a second; `hyperparams` in `fields` are added to the tiny ones."""
    nets = {"policy_net_arch": [16]} | ({} if algorithm in NO_VALUE_NET else {"value_net_arch": [16]})
    hyperparams = {**HYPERPARAMS[algorithm], **nets, **fields.pop("hyperparams", {})}
    pendulum = {"id": "Pendulum-v1", "max_episode_steps": 60}
    env = pendulum if algorithm in CONTINUOUS else "CartPole-v1"
    defaults: dict[str, Any] = {
        "env": "odd_envs:MaskedWalk-v0" if algorithm == "MaskablePPO" else env,
        "n_envs": 2,
        "vector": "serial",
        "total_timesteps": 160 if algorithm in CONTINUOUS else 320,
        "checkpoint": {"every": None},
        "evaluation": {"every": None, "episodes": 2},
        "tracking": {"every": 64, "tensorboard": False},
        "save_dir": str(folder),
    }
    return TrainerConfig(algorithm=algorithm, engine="sb3", hyperparams=hyperparams, **(defaults | fields))
