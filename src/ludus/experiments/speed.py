"""The same work on Ludus and on its peers, in turn, in processes of their own: steps per second and ratios.

Each peer is measured by a script beside this file that imports nothing of Ludus, with the Python of the peer's
own environment. Compilation and imports are not counted; the seconds spent compiling are listed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ludus.errors import UnknownName, UserError

_SCRIPTS = Path(__file__).parent / "peers"
PEERS = ("sb3",)
PEER_PYTHON = "LUDUS_PEER_PYTHON_{}"


@dataclass(frozen=True)
class Workload:
    """One task, with hyperparameters that every library calls the same."""

    name: str
    algorithm: str
    env: str
    n_envs: int
    steps: int
    net_arch: tuple[int, ...]
    activation: str
    hyperparams: dict[str, Any] = field(default_factory=dict)


_PPO = {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.0}
_A2C = {"n_steps": 5, "gae_lambda": 1.0, "ent_coef": 0.0}
_DQN = {"train_freq": 4, "batch_size": 32, "learning_starts": 100, "buffer_size": 50_000}
_SAC = {"batch_size": 256, "learning_starts": 100, "buffer_size": 50_000}
WORKLOADS = (
    Workload("ppo-cartpole", "PPO", "CartPole-v1", 8, 20_480, (64, 64), "Tanh", _PPO),
    Workload("ppo-lunarlander", "PPO", "LunarLander-v3", 8, 20_480, (64, 64), "Tanh", _PPO),
    Workload("ppo-bipedalwalker", "PPO", "BipedalWalker-v3", 8, 20_480, (64, 64), "Tanh", _PPO),
    Workload("a2c-cartpole", "A2C", "CartPole-v1", 8, 40_000, (64, 64), "Tanh", _A2C),
    Workload("dqn-cartpole", "DQN", "CartPole-v1", 1, 10_000, (64, 64), "ReLU", _DQN),
    Workload("sac-pendulum", "SAC", "Pendulum-v1", 1, 1_500, (256, 256), "ReLU", _SAC),
)


@dataclass(frozen=True)
class Measurement:
    """One library on one workload: steps per second of each repeat."""

    workload: str
    library: str
    version: str
    threads: int
    fps: tuple[float, ...]
    compile_seconds: float

    @property
    def median(self) -> float:
        return statistics.median(self.fps)

    def summary(self) -> dict[str, Any]:
        return {**asdict(self), "median": round(self.median, 1)}


def choose_workloads(names: Sequence[str]) -> list[Workload]:
    """The workloads called `names`; all of them when none is named."""
    by_name = {workload.name: workload for workload in WORKLOADS}
    for name in names:
        if name not in by_name:
            raise UnknownName("workload", name, by_name, fix=f"known: {', '.join(by_name)}")
    return [by_name[name] for name in names] if names else list(WORKLOADS)


def peer_python(peer: str) -> str:
    """The Python that has `peer`: from the environment variable, else this one if the peer is installed in it."""
    if peer not in PEERS:
        raise UnknownName("peer", peer, PEERS, fix=f"known: {', '.join(PEERS)}")
    variable = PEER_PYTHON.format(peer.upper())
    if variable in os.environ:
        return os.environ[variable]
    module = {"sb3": "stable_baselines3"}[peer]
    found = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False)
    if found.returncode:
        raise UserError(
            f"{module} is not installed here",
            where="--peers",
            fix=f"set {variable} to a Python that has it, or: pip install {module.replace('_', '-')}",
        )
    return sys.executable


def measure(
    workload: Workload, peers: Sequence[str], repeats: int, report: Callable[[str], None] = lambda text: None
) -> list[Measurement]:
    """Run the workload on Ludus and each peer, alternating, `repeats` times."""
    pythons = {"ludus": sys.executable, **{peer: peer_python(peer) for peer in peers}}
    seen: dict[str, list[dict[str, Any]]] = {library: [] for library in pythons}
    for repeat in range(repeats):
        for library, python in pythons.items():
            result = _run(python, library, workload)
            seen[library].append(result)
            report(f"{workload.name} {repeat + 1}/{repeats}  {library:6} {result['fps']:>10,.0f} steps/s")
    return [
        Measurement(
            workload=workload.name,
            library=library,
            version=results[0]["version"],
            threads=results[0]["threads"],
            fps=tuple(result["fps"] for result in results),
            compile_seconds=results[0].get("compile_seconds", 0.0),
        )
        for library, results in seen.items()
    ]


def _run(python: str, library: str, workload: Workload) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(_SCRIPTS / f"{library}.py"), json.dumps(asdict(workload))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(
            f"{library} failed on {workload.name}",
            where=python,
            fix=(done.stderr.strip().splitlines() or ["?"])[-1],
        )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
