"""The workloads for comparisons between Ludus and other libraries.

Every important hyperparameter is set here, so that no library uses its own default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ludus.errors import UnknownName, UserError


@dataclass(frozen=True)
class Workload:
    """One task, with hyperparameters that have the same name in all libraries. `vector` is used only by Ludus."""

    name: str
    algorithm: str
    env: str
    n_envs: int
    steps: int
    net_arch: tuple[int, ...]
    activation: str
    hyperparams: dict[str, Any]
    vector: str = "auto"


PPO = {
    "learning_rate": 3e-4,
    "n_steps": 256,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "clip_range_vf": None,
    "normalize_advantage": True,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
}
_A2C = {
    "learning_rate": 7e-4,
    "n_steps": 5,
    "gamma": 0.99,
    "gae_lambda": 1.0,
    "normalize_advantage": False,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "use_rms_prop": True,
    "rms_prop_eps": 1e-5,
}
_OFF_POLICY = {"gamma": 0.99, "learning_starts": 100, "buffer_size": 50_000, "gradient_steps": 1}
_DQN = _OFF_POLICY | {
    "learning_rate": 1e-4,
    "batch_size": 32,
    "train_freq": 4,
    "tau": 1.0,
    "target_update_interval": 1_000,
    "exploration_fraction": 0.1,
    "exploration_initial_eps": 1.0,
    "exploration_final_eps": 0.05,
    "max_grad_norm": 10.0,
}
_SAC = _OFF_POLICY | {
    "learning_rate": 3e-4,
    "batch_size": 256,
    "train_freq": 1,
    "tau": 0.005,
    "target_update_interval": 1,
    "ent_coef": "auto",
    "target_entropy": "auto",
}
_LANDER = PPO | {"gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01}

SPEED = (
    Workload("ppo-cartpole", "PPO", "CartPole-v1", 8, 102_400, (64, 64), "Tanh", PPO),
    Workload("ppo-lunarlander", "PPO", "LunarLander-v3", 8, 61_440, (64, 64), "Tanh", PPO),
    Workload("ppo-bipedalwalker", "PPO", "BipedalWalker-v3", 8, 40_960, (64, 64), "Tanh", PPO),
    Workload("a2c-cartpole", "A2C", "CartPole-v1", 8, 100_000, (64, 64), "Tanh", _A2C),
    Workload("dqn-cartpole", "DQN", "CartPole-v1", 1, 40_000, (64, 64), "ReLU", _DQN),
    Workload("sac-pendulum", "SAC", "Pendulum-v1", 1, 3_000, (256, 256), "ReLU", _SAC),
)
"""Long enough that the fastest library takes about a second."""

LEARN = (
    Workload("ppo-cartpole", "PPO", "CartPole-v1", 8, 100_000, (64, 64), "Tanh", PPO),
    Workload("ppo-lunarlander", "PPO", "LunarLander-v3", 8, 300_000, (64, 64), "Tanh", _LANDER),
    Workload(
        "sac-pendulum", "SAC", "Pendulum-v1", 1, 20_000, (256, 256), "ReLU", _SAC | {"learning_rate": 1e-3}
    ),
)


def choose_workloads(
    known: Sequence[Workload],
    names: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    envs: Sequence[str] = (),
) -> list[Workload]:
    """Return the workloads of `known` with the given names, algorithms and envs; an empty list means all.

    UnknownName for an unknown value; UserError if no workload fits all of them.
    """
    filters = (
        ("workload", "WORKLOAD", names, [workload.name for workload in known]),
        ("algorithm", "--algos", algorithms, [workload.algorithm for workload in known]),
        ("env", "--envs", envs, [workload.env for workload in known]),
    )
    chosen = list(known)
    for kind, where, words, values in filters:
        by_lower = {value.lower(): value for value in values}
        for word in words:
            if word.lower() not in by_lower:
                raise UnknownName(kind, word, by_lower.values(), where=where, fix=f"known: {_listed(values)}")
        wanted = {by_lower[word.lower()] for word in words}
        keep = {workload.name for workload, value in zip(known, values, strict=True) if value in wanted}
        chosen = [workload for workload in chosen if not words or workload.name in keep]
    if not chosen:
        raise UserError(
            "no workload matches all filters",
            where="WORKLOAD, --algos, --envs",
            fix=f"known: {_listed([workload.name for workload in known])}",
        )
    return chosen


def _listed(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(values))
