"""`ludus bench envs`: the work grows with the number of envs, and the reported figures are correct."""

from __future__ import annotations

import pytest

from ludus.experiments.scaling import charts, scaled_workload, scaling_row
from ludus.experiments.speed import Measurement


@pytest.mark.parametrize(
    ("n_envs", "batch", "steps"), [(8, 64, 4096), (64, 512, 16_384), (4096, 32_768, 1_048_576)]
)
def test_batch_and_steps_grow_with_the_envs(n_envs: int, batch: int, steps: int) -> None:
    workload = scaled_workload("CartPole-v1", n_envs, least_steps=4000)
    assert (workload.hyperparams["batch_size"], workload.steps) == (batch, steps)
    assert workload.vector == "batched"


def test_memory_per_env_counts_only_the_training() -> None:
    workload = scaled_workload("LunarLander-v3", 64, 1)
    measured = Measurement("w", "ludus", "1", 2, (90.0, 110.0, 100.0), 0.0, "serial", 430.0, 420.0)
    row = scaling_row(workload, measured)
    assert (row["fps"], row["memory_mib"], row["kib_per_env"]) == (100.0, 430.0, 160.0)
    fps, memory = charts([row])
    assert fps.lines[0].name == "LunarLander-v3 (serial)"
    assert (list(memory.lines[0].x), list(memory.lines[0].y)) == ([64], [430.0])
