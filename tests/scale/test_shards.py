"""A shard plays what its plan, its barrier and its versions say, wherever and however often it is built."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import odd_envs  # noqa: F401  # registers its envs
import pytest
from tiny_runs import tiny, trainer_for

from ludus.scale.shard import Shard, ShardPlan, ShardResult, Version
from ludus.training.env_source import EnvSource


def plan_of(config: Any, **fields: Any) -> ShardPlan:
    source = EnvSource(None, config)
    given: dict[str, Any] = {
        "index": 1,
        "first_env": 2,
        "n_envs": 2,
        "make_envs": partial(source.make_vector, "serial"),
        "learner": config.algorithm_entry().learner,
        "hyperparams": config.typed_hyperparams(),
        "policy": config.policy,
        "seed": config.seed,
        "normalize_obs": config.normalize_obs,
        "normalize_reward": config.normalize_reward,
        "kernels": config.kernels,
        "reports_episodes": source.reports_episodes,
        "rebuild": source.rebuild,
    }
    return ShardPlan(**(given | fields))


def versions(config: Any, count: int) -> list[Version]:
    """Policies unlike each other, as a learner would publish them."""
    trainer = trainer_for(config)
    policy = trainer.create_model()
    assert trainer.learner is not None
    first = Version.of(0, policy, trainer.learner.context.reward_normalizer)  # type: ignore[attr-defined]
    found = [
        replace(
            first,
            number=number,
            arrays={name: array * (1.0 + 0.1 * number) for name, array in first.arrays.items()},
        )
        for number in range(count)
    ]
    trainer.close()
    return found


def same_harvest(one: ShardResult, other: ShardResult) -> None:
    for name, value in one.experience.__dict__.items():
        theirs = other.experience.__dict__[name]
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, theirs, err_msg=name)
        elif not isinstance(value, dict):
            assert value == theirs, name
    for name, moments in one.statistics.items():
        np.testing.assert_array_equal(moments.mean, other.statistics[name].mean)
        np.testing.assert_array_equal(moments.var, other.statistics[name].var)


CASES: dict[str, dict[str, Any]] = {
    "ppo": {},
    "ppo without kernels": {"kernels": False},
    "dqn": {"algorithm": "DQN", "hyperparams": {"learning_starts": 6}, "normalize_reward": True},
    "ppo with masks": {"env": "odd_envs:MaskedWalk-v0"},
    "a2c with a curriculum": {
        "algorithm": "A2C",
        "env": "odd_envs:Walk-v0",
        "curriculum": {"window": 2, "success_threshold": 0.5, "maximum": 2.0},
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_rebuilt_shard_continues_where_the_lost_one_was(case: str, tmp_path: Path) -> None:
    config = tiny(tmp_path, **CASES[case])
    plan = plan_of(config)
    first, second, third = versions(config, 3)
    shard = Shard(plan)
    shard.barrier(4)
    played = [shard.collect(first), shard.collect(second)]
    latest = played[-1].memory.copied()
    wanted = shard.collect(third)
    shard.close()

    again = Shard(plan)
    again.barrier(4)
    again.replay([harvest.actions for harvest in played if harvest.actions is not None])
    again.load(latest)
    same_harvest(again.collect(third), wanted)
    again.close()


def test_shards_play_apart_from_each_other(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    version = versions(config, 1)[0]
    harvests = []
    for index in (0, 1):
        shard = Shard(plan_of(config, index=index, first_env=2 * index))
        shard.barrier(0)
        harvests.append(shard.collect(version))
        shard.close()
    one, other = (harvest.experience for harvest in harvests)
    assert not np.array_equal(one.obs, other.obs) and not np.array_equal(one.actions, other.actions)
