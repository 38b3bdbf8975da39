"""The batched games are Gymnasium's own, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.envs.make import EnvSpec, choose_backend, make_vectorized_env
from ludus.envs.vector.batched import GAMES
from ludus.errors import ConfigError


@pytest.mark.parametrize("env_id", sorted(GAMES))
def test_every_step_is_the_one_gymnasium_takes(env_id: str) -> None:
    ours, theirs = make_vectorized_env(env_id, 6, "batched"), make_vectorized_env(env_id, 6, "serial")
    seeds: Any = [11, 12, 13, 14, 15, 16]
    a, _ = ours.reset(seed=seeds)
    b, _ = theirs.reset(seed=seeds)
    np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(0)
    space: Any = ours.single_action_space
    ends = 0
    for _ in range(1200):
        if hasattr(space, "n"):
            actions = rng.integers(0, space.n, 6)
        else:
            actions = rng.uniform(space.low * 1.2, space.high * 1.2, (6, 1)).astype(np.float32)
        mine, yours = ours.step(actions), theirs.step(actions)
        np.testing.assert_allclose(mine[0], yours[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(mine[1], yours[1], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(mine[2], yours[2])
        np.testing.assert_array_equal(mine[3], yours[3])
        ended = mine[2] | mine[3]
        ends += ended.sum()
        for i in np.flatnonzero(ended):
            np.testing.assert_allclose(
                mine[4]["final_obs"][i], yours[4]["final_obs"][i], rtol=1e-5, atol=1e-5
            )
    assert ends > 20
    assert ours.single_observation_space == theirs.single_observation_space
    ours.close()
    theirs.close()


def test_auto_takes_it_for_plain_envs_only() -> None:
    assert choose_backend("CartPole-v1", 1)[0] == "batched"
    assert choose_backend(EnvSpec("CartPole-v1", max_episode_steps=50), 8)[0] == "batched"
    assert choose_backend(EnvSpec("CartPole-v1", kwargs={"sutton_barto_reward": True}), 8)[0] != "batched"
    assert choose_backend("FrozenLake-v1", 8)[0] != "batched"
    with pytest.raises(ConfigError, match="not written as a batched game"):
        make_vectorized_env("FrozenLake-v1", 2, "batched")


def test_a_time_limit_of_its_own_is_kept() -> None:
    envs = make_vectorized_env(EnvSpec("Pendulum-v1", max_episode_steps=7), 2, "batched", seed=0)
    for t in range(1, 15):
        truncated = envs.step(np.zeros((2, 1), dtype=np.float32))[3]
        assert truncated.all() == (t % 7 == 0)
