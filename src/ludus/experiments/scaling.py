"""Scaling benchmark: steps per second and memory of the same training with different numbers of envs.

Samples per update and batch size grow with the number of envs, so that the work per sample is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ludus.experiments.panels import PanelChart, PanelLine
from ludus.experiments.speed import Measurement
from ludus.experiments.workloads import PPO, Workload

ENVS = {"CartPole-v1": "batched", "LunarLander-v3": "serial"}
"""The envs, and how they are stepped: in one compiled call, or one after the other."""
_N_STEPS = 64
_MINIBATCHES = 8
_EPOCHS = 4


def scaled_workload(env: str, n_envs: int, least_steps: int) -> Workload:
    """Return PPO on `n_envs` of `env`, for at least four updates and `least_steps`."""
    samples = _N_STEPS * n_envs
    hyperparams = PPO | {"n_steps": _N_STEPS, "batch_size": samples // _MINIBATCHES, "n_epochs": _EPOCHS}
    updates = max(4, -(-least_steps // samples))
    return Workload(
        name=f"{env} x {n_envs}",
        algorithm="PPO",
        env=env,
        n_envs=n_envs,
        steps=updates * samples,
        net_arch=(64, 64),
        activation="Tanh",
        hyperparams=hyperparams,
        vector=ENVS[env],
    )


def scaling_row(workload: Workload, measured: Measurement) -> dict[str, Any]:
    """Return one measurement as a row of the table and the charts. Memory is the peak of the process; `kib_per_env` is
    the part that this training added, per env.
    """
    assert measured.memory_mib is not None and measured.memory_before_mib is not None
    grown = measured.memory_mib - measured.memory_before_mib
    return {
        "env": workload.env,
        "vector": workload.vector,
        "n_envs": workload.n_envs,
        "samples_per_update": _N_STEPS * workload.n_envs,
        "steps": workload.steps,
        "fps": measured.median,
        "memory_mib": measured.memory_mib,
        "kib_per_env": grown * 1024 / workload.n_envs,
        "threads": measured.threads,
    }


def charts(rows: Sequence[dict[str, Any]]) -> list[PanelChart]:
    """Return charts of steps per second and memory by the number of envs, one line per env."""
    envs = list(dict.fromkeys(row["env"] for row in rows))

    def lines(key: str) -> tuple[PanelLine, ...]:
        groups = [[row for row in rows if row["env"] == env] for env in envs]
        return tuple(
            PanelLine(
                f"{group[0]['env']} ({group[0]['vector']})",
                [row["n_envs"] for row in group],
                [row[key] for row in group],
            )
            for group in groups
        )

    return [
        PanelChart("PPO: steps per second", "envs", "steps/s", lines("fps"), log_x=True),
        PanelChart(
            "PPO: memory of the process", "envs", "MiB at its highest", lines("memory_mib"), log_x=True
        ),
    ]
