from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from ludus.envs.human import key_bindings


def test_an_envs_own_keys_are_translated_to_names() -> None:
    assert key_bindings(gym.make("MountainCar-v0")) == {
        (): 1,
        ("left",): 0,
        ("right",): 2,
        ("left", "right"): 1,
    }


@pytest.mark.parametrize(
    ("env_id", "keys", "action"),
    [
        ("CartPole-v1", ("left",), 0),
        ("LunarLander-v3", ("up",), 2),
        ("FrozenLake-v1", ("up",), 3),
        ("CliffWalking-v1", ("up",), 0),
        ("Taxi-v4", ("space",), 4),
        ("Blackjack-v1", ("h",), 1),
    ],
)
def test_known_envs_have_a_table(env_id: str, keys: tuple[str, ...], action: int) -> None:
    bindings = key_bindings(gym.make(env_id))
    assert bindings is not None
    assert bindings[keys] == action


def test_the_lander_goes_left_with_the_left_key() -> None:
    env = gym.make("LunarLander-v3")
    bindings = key_bindings(env)
    assert bindings is not None
    sideways = {}
    for key in ("left", "right"):
        obs, _ = env.reset(seed=0)
        start = obs[2]
        for _ in range(15):
            obs = env.step(bindings[key,])[0]
        sideways[key] = obs[2] - start
    assert sideways["left"] < 0 < sideways["right"]


def test_the_table_follows_the_action_space() -> None:
    driving = key_bindings(gym.make("CarRacing-v3"))
    choosing = key_bindings(gym.make("CarRacing-v3", continuous=False))
    assert driving is not None
    assert np.array_equal(driving["left",], [-1, 0, 0])
    assert choosing is not None
    assert choosing["left",] == 2
    assert key_bindings(gym.make("LunarLander-v3", continuous=True)) is None
    assert key_bindings(gym.make("Pendulum-v1")) is None
