"""Signals are named quantities of an env, independent of wrappers; users can register their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs import signals as module
from ludus.envs.make import EnvSpec
from ludus.envs.signals import MAX_COMPONENTS, Signal, register_signals, signals_of
from ludus.errors import UserError


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    before = list(module._registry)
    yield
    module._registry[:] = before


def played(env: Any, steps: int = 25) -> tuple[Any, dict[str, Any]]:
    """An observation from the middle of an episode."""
    env.action_space.seed(1)
    obs, info = env.reset(seed=1)
    for _ in range(steps):
        mask = info.get("action_mask")
        obs, _, terminated, truncated, info = env.step(env.action_space.sample(mask))
        assert not (terminated or truncated)
    return obs, info


def now(env: Any, obs: Any, info: dict[str, Any]) -> dict[str, float]:
    signals = signals_of(env)
    return dict(zip(signals.names, signals.read(env, obs, info), strict=True))


def test_walker_signals_agree_with_its_observation() -> None:
    env = gym.make("BipedalWalker-v3")
    obs, info = played(env)
    values = now(env, obs, info)
    assert len(values) == 14
    for name, component, factor, offset in (
        ("hull angle", 0, 1.0, 0.0),
        ("hull spin", 1, 50 / 2, 0.0),  # the observation holds 2 / FPS of it
        ("hull velocity x", 2, 50 / (0.3 * 20), 0.0),
        ("hull velocity y", 3, 50 / (0.3 * 13.3333333), 0.0),
        ("hip 1 angle", 4, 1.0, 0.0),
        ("hip 1 speed", 5, 4.0, 0.0),
        ("knee 1 angle", 6, 1.0, -1.0),
        ("knee 1 speed", 7, 6.0, 0.0),
        ("contact 1", 8, 1.0, 0.0),
        ("hip 2 angle", 9, 1.0, 0.0),
        ("hip 2 speed", 10, 4.0, 0.0),
        ("knee 2 angle", 11, 1.0, -1.0),
        ("knee 2 speed", 12, 6.0, 0.0),
        ("contact 2", 13, 1.0, 0.0),
    ):
        assert values[name] == pytest.approx(obs[component] * factor + offset, abs=1e-4), name
    assert signals_of(env).actions == ("hip 1", "knee 1", "hip 2", "knee 2")
    env.close()


def test_lander_signals_agree_with_its_observation() -> None:
    env = gym.make("LunarLander-v3")
    obs, info = played(env)
    values = now(env, obs, info)
    assert values["x"] == pytest.approx(obs[0] * 10, abs=1e-4)
    assert values["altitude"] == pytest.approx(obs[1] * (400 / 30 / 2) + 18 / 30, abs=1e-4)
    assert values["velocity x"] == pytest.approx(obs[2] * 50 / 10, abs=1e-4)
    assert values["velocity y"] == pytest.approx(obs[3] * 50 / (400 / 30 / 2), abs=1e-4)
    assert values["angle"] == pytest.approx(obs[4], abs=1e-5) and values["left leg"] == obs[6]
    assert values["spin"] == pytest.approx(obs[5] * 50 / 20, abs=1e-4)
    assert signals_of(env).actions[2] == "main engine"
    assert signals_of(gym.make("LunarLander-v3", continuous=True)).actions == ("main engine", "side engines")
    env.close()


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("CartPole-v1", lambda o: {"cart position": o[0], "pole angle": o[2], "pole spin": o[3]}),
        ("Pendulum-v1", lambda o: {"angle": np.arctan2(o[1], o[0]), "spin": o[2]}),
        ("Acrobot-v1", lambda o: {"joint 1 angle": np.arctan2(o[1], o[0]), "joint 2 speed": o[5]}),
        ("MountainCar-v0", lambda o: {"position": o[0], "velocity": o[1]}),
        ("MountainCarContinuous-v0", lambda o: {"position": o[0], "velocity": o[1]}),
    ],
)
def test_classic_control_has_names_too_and_no_wrapper_changes_them(env_id: str, expected: Any) -> None:
    plain = gym.make(env_id)
    obs, info = played(plain, 8)
    values = now(plain, obs, info)
    assert {name: values[name] for name in expected(obs)} == pytest.approx(expected(obs), abs=1e-5)
    wrapped = EnvSpec(env_id, frame_stack=3, wrappers=("FlattenObservation",))()
    assert now(wrapped, *played(wrapped, 8)) == values


def test_balatro_has_score_ante_money_and_action_names() -> None:
    env = EnvSpec("ludus/Balatro-v0")()
    obs, info = env.reset(seed=3)
    values = now(env, obs, info)
    assert values["ante"] == 1 and values["money"] == 4 and values["score"] == 0
    names = signals_of(env).actions
    assert len(names) == env.action_space.n and names[0] == "take the blind"
    by_moves = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"})()
    names = signals_of(by_moves).actions
    assert len(names) == by_moves.action_space.n and "play the best hand" in names


class Odd(gym.Env[Any, Any]):
    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.observation_space = space


def test_other_envs_show_their_observation_by_index_and_pictures_nothing() -> None:
    vector = Odd(spaces.Box(-1, 1, (3,), np.float32))
    assert now(vector, np.array([0.5, -1.0, 0.0]), {}) == {"obs[0]": 0.5, "obs[1]": -1.0, "obs[2]": 0.0}
    assert now(Odd(spaces.Discrete(5)), np.int64(3), {}) == {"obs": 3.0}
    parts = spaces.Dict(
        {
            "pair": spaces.Box(-1, 1, (2,), np.float32),
            "which": spaces.Discrete(4),
            "frame": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "action_mask": spaces.MultiBinary(2),
        }
    )
    seen = {"pair": np.array([1.0, 2.0]), "which": 2, "frame": np.zeros((8, 8, 3)), "action_mask": [1, 1]}
    assert now(Odd(parts), seen, {}) == {"pair[0]": 1.0, "pair[1]": 2.0, "which": 2.0}
    assert signals_of(Odd(spaces.Box(0, 255, (8, 8, 3), np.uint8))).names == ()
    assert len(signals_of(Odd(spaces.Box(-1, 1, (100,), np.float32))).names) == MAX_COMPONENTS


def test_a_users_signals_come_by_pattern_and_the_newest_counts() -> None:
    register_signals("CartPole-v*", [Signal("tilt", lambda env, obs, info: 57.3 * obs[2], "deg")], ("L", "R"))
    env = gym.make("CartPole-v1")
    assert now(env, np.array([0.0, 0.0, 0.1, 0.0]), {}) == {"tilt": pytest.approx(5.73)}
    assert signals_of(env).actions == ("L", "R")
    register_signals("Odd", [Signal("answer", lambda env, obs, info: info["answer"])])
    assert now(Odd(spaces.Discrete(2)), 0, {"answer": 42}) == {"answer": 42.0}


def test_two_signals_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two signals are called 'x'"):
        register_signals("Any", [Signal("x", lambda e, o, i: 0.0), Signal("x", lambda e, o, i: 1.0)])
