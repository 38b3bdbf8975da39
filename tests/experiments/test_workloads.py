"""Workloads are chosen by name, algorithm and env, and set every hyperparameter."""

from __future__ import annotations

import inspect

import pytest

from ludus.config.schema import TrainerConfig
from ludus.errors import UnknownName, UserError
from ludus.experiments.workloads import LEARN, SPEED, Workload, choose_workloads


def names(*filters: list[str]) -> list[str]:
    return [workload.name for workload in choose_workloads(SPEED, *filters)]


def test_without_a_filter_all_workloads_run() -> None:
    assert names() == [workload.name for workload in SPEED]


def test_filters_are_combined_and_ignore_case() -> None:
    assert names([], ["ppo"], ["cartpole-v1", "LunarLander-v3"]) == ["ppo-cartpole", "ppo-lunarlander"]
    assert names(["sac-pendulum", "ppo-cartpole"]) == ["ppo-cartpole", "sac-pendulum"]


def test_unknown_value_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown algorithm 'pp0'") as caught:
        names([], ["pp0"])
    assert caught.value.where == "--algos"
    assert "PPO" in caught.value.fix


def test_filters_without_a_match_raise() -> None:
    with pytest.raises(UserError, match="no workload"):
        names([], ["A2C"], ["Pendulum-v1"])


@pytest.mark.parametrize("workload", [*SPEED, *LEARN], ids=lambda workload: workload.name)
def test_every_hyperparameter_is_set(workload: Workload) -> None:
    baselines = pytest.importorskip("stable_baselines3")
    theirs = set(inspect.signature(getattr(baselines, workload.algorithm)).parameters)
    config = TrainerConfig(algorithm=workload.algorithm, n_envs=workload.n_envs)
    ours = set(config.algorithm_entry().hyperparameters.model_fields)
    assert ours & theirs == set(workload.hyperparams)
