from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.make import (
    EnvSpec,
    choose_backend,
    env_groups,
    known_env_ids,
    make_env,
    make_vectorized_env,
    missing_extra,
)
from ludus.envs.wrapper_names import register_wrapper
from ludus.envs.wrappers import EnvironmentWrapper
from ludus.errors import ConfigError, MissingExtra, UnknownName, UserError


def finish(env: gym.Env[Any, Any], action: Any = 0) -> tuple[int, float, dict[str, Any]]:
    """Play one episode with one action: steps, return as seen from outside, last info."""
    env.reset(seed=3)
    steps, total, done = 0, 0.0, False
    while not done:
        _, reward, terminated, truncated, info = env.step(action)
        steps, total, done = steps + 1, total + float(reward), terminated or truncated
    return steps, total, info


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("LunarLander-v2", "LunarLander-v3"),
        ("Hopper-v2", "Hopper-v5"),
        ("CartPole-v7", "CartPole-v1"),
        ("CartPole", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPol-v1", "CartPole-v1"),
    ],
)
def test_an_unknown_id_suggests_the_newest_or_nearest(asked: str, suggested: str) -> None:
    with pytest.raises(UnknownName) as raised:
        make_env(asked)
    assert raised.value.fix == f"did you mean '{suggested}'?"


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for env_id, extra in (("LunarLander-v3", "box2d"), ("ALE/Pong-v5", "atari"), ("Hopper-v5", "mujoco")):
        with pytest.raises(MissingExtra) as raised:
            make_env(env_id)
        assert raised.value.extra == extra
    with pytest.raises(UserError, match="jax"):
        make_env("phys2d/CartPole-v1")


def test_a_missing_module_of_an_id_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"'no_such_module' .* cannot be found"):
        make_env("no_such_module:Thing-v0")


def test_ids_come_in_groups_without_those_that_only_refuse() -> None:
    groups = env_groups()
    assert "CartPole-v1" in groups["classic control"]
    assert "BipedalWalker-v3" in groups["box2d"]
    assert "Taxi-v4" in groups["toy text"]
    assert "Hopper-v5" in groups["mujoco"]
    assert "Hopper-v2" not in known_env_ids()
    assert sorted(env_id for ids in groups.values() for env_id in ids) == known_env_ids()
    assert missing_extra("classic control") is None
    assert missing_extra("box2d") is None


def test_a_plain_env_carries_no_recorder() -> None:
    spec = EnvSpec("CartPole-v1")
    assert not spec.reports_episodes
    steps, total, info = finish(spec())
    assert steps == total
    assert "episode" not in info


def test_raw_episodes_are_reported_under_wrappers_that_change_them() -> None:
    plain_steps, _, _ = finish(make_env("CartPole-v1"))
    spec = EnvSpec("CartPole-v1", wrappers=({"RewardScaling": {"scale": 0.5}},), frame_skip=2)
    assert spec.reports_episodes
    steps, total, info = finish(spec())
    assert steps == -(-plain_steps // 2)
    assert total == plain_steps * 0.5
    assert info["episode"]["r"] == info["episode"]["l"] == plain_steps


def test_an_episode_that_a_wrapper_cuts_short_is_reported_too() -> None:
    env = make_env("CartPole-v1", wrappers=[{"TimeLimit": {"max_episode_steps": 4}}, "RewardScaling"])
    for _ in range(2):
        steps, _, info = finish(env)
        assert steps == info["episode"]["l"] == 4


def test_a_life_lost_is_not_reported_as_an_episode() -> None:
    class Lives(gym.Wrapper[Any, Any, Any, Any]):
        def reset(self, **kwargs: Any) -> Any:
            obs, info = self.env.reset(**kwargs)
            self.t = 0
            return obs, {**info, "lives": 2}

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = self.env.step(action)
            self.t += 1
            return obs, reward, terminated, truncated, {**info, "lives": 2 if self.t < 3 else 1}

    register_wrapper("Lives", Lives)
    env = make_env("CartPole-v1", wrappers=["Lives", "EpisodicLife"])
    steps, _, info = finish(env)
    assert steps == 3
    assert "episode" not in info


def test_max_episode_steps_and_frame_stack_apply() -> None:
    env = make_env("Pendulum-v1", max_episode_steps=7, frame_stack=3)
    assert env.observation_space.shape == (9,)
    assert finish(env, np.zeros(1, np.float32))[0] == 7


def test_masks_in_the_observation_are_moved_to_info_before_stacking() -> None:
    class Masked(gym.Env[Any, Any]):
        observation_space = spaces.Dict(
            {"obs": spaces.Box(0, 1, (2,), np.float32), "action_mask": spaces.MultiBinary(2)}
        )
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return {"obs": np.zeros(2, np.float32), "action_mask": np.array([0, 1], np.int8)}, {}

    gym.register("Masked-v0", Masked)
    try:
        obs, info = make_env("Masked-v0", frame_stack=2).reset()
    finally:
        del gym.registry["Masked-v0"]
    assert obs.shape == (4,)
    assert info["action_mask"].tolist() == [False, True]


def test_the_curriculum_is_built_from_the_config() -> None:
    env = make_env("CartPole-v1", curriculum={"initial": 2.0, "success": 1.0, "window": 1})
    assert finish(env)[2]["difficulty"] == 2.0
    assert env.reset()[1]["difficulty"] == 3.0
    with pytest.raises(ConfigError, match="speed") as raised:
        make_env("CartPole-v1", curriculum={"speed": 2})
    assert "increment=1.0" in raised.value.fix


def test_wrappers_are_found_by_name_or_by_module_and_class() -> None:
    env = make_env(
        "CarRacing-v3",
        wrappers=["gymnasium.wrappers:GrayscaleObservation", {"ReshapeObservation": {"shape": [96, 96, 1]}}],
    )
    assert env.observation_space.shape == (96, 96, 1)


@pytest.mark.parametrize(
    ("entry", "message", "fix"),
    [
        ("RewardScalin", "unknown wrapper", "did you mean 'RewardScaling'?"),
        ({"RewardScaling": {"factor": 2}}, "unexpected keyword argument 'factor'", "scale=1.0, clip=None"),
        ("TimeLimit", "missing a required argument", "max_episode_steps"),
        ("NormalizeReward", "could not save", "normalize_reward: true"),
        (
            {"RescaleAction": {"min_action": -1, "max_action": 1}},
            "cannot be put on",
            "min_action, max_action",
        ),
        ("no_such_module:Thing", "cannot be found", "install it"),
        ("gymnasium.wrappers:Nothing", "has no wrapper class 'Nothing'", "module:Class"),
        ({"a": {}, "b": {}}, "one name with its arguments", "wrappers: ["),
    ],
    ids=str,
)
def test_a_wrong_wrapper_entry_says_what_to_write(entry: Any, message: str, fix: str) -> None:
    with pytest.raises(UserError) as raised:
        make_env("CartPole-v1", wrappers=[entry])
    assert message in raised.value.what
    assert fix in raised.value.fix


def test_wrong_kwargs_list_what_the_env_accepts() -> None:
    with pytest.raises(ConfigError, match="colour") as raised:
        make_env("CartPole-v1", kwargs={"colour": 1})
    assert "sutton_barto_reward" in raised.value.fix


@pytest.mark.parametrize("bad", [{"frame_stack": 0}, {"frame_skip": 0}, {"max_episode_steps": 0}])
def test_impossible_numbers_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        EnvSpec("CartPole-v1", **bad)  # type: ignore[arg-type]


def test_atari_skips_frames_itself() -> None:
    with pytest.raises(ConfigError, match="already skips"):
        EnvSpec("ALE/Pong-v5", wrappers=("atari",), frame_skip=4)


DRIVER = """
import sys, cloudpickle, gymnasium as gym
from gymnasium import spaces
from ludus.envs.make import EnvSpec
from ludus.envs.wrapper_names import register_wrapper

class Mine(gym.Env):
    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return 2, {"from": "driver"}

class Shift(gym.ObservationWrapper):
    def observation(self, observation):
        return observation - 1

register_wrapper("Shift", Shift)
gym.register("Mine-v0", ENTRY)
open(sys.argv[1], "wb").write(cloudpickle.dumps(EnvSpec("Mine-v0", wrappers=["Shift"])))
"""
WORKER = """
import sys, pickle
factory = pickle.load(open(sys.argv[1], "rb"))
obs, info = factory().reset()
assert (obs, info["from"]) == (1, "driver"), (obs, info)
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("entry_point", ["Mine", "lambda **kw: Mine()", "'__main__:Mine'"])
def test_a_process_that_registered_nothing_builds_what_the_driver_registered(
    tmp_path: Path, entry_point: str
) -> None:
    shipped = str(tmp_path / "factory")
    for script in (DRIVER.replace("ENTRY", entry_point), WORKER):
        path = tmp_path / "script.py"
        path.write_text(script)
        done = subprocess.run([sys.executable, str(path), shipped], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_spec_is_equal_to_its_resolved_and_shipped_self() -> None:
    spec = EnvSpec("CartPole-v1", wrappers=["RewardScaling"])  # type: ignore[arg-type]
    assert cloudpickle.loads(cloudpickle.dumps(spec)) == spec == spec.resolve()


def test_a_changed_copy_of_a_resolved_spec_follows_its_new_names() -> None:
    resolved = EnvSpec("CartPole-v1").resolve()
    env = replace(resolved, id="Pendulum-v1", max_episode_steps=6)()
    assert env.spec is not None
    assert env.spec.id == "Pendulum-v1"
    assert finish(make_env(resolved, max_episode_steps=3))[0] == 3


class Slow(EnvironmentWrapper):
    def step(self, action: Any) -> Any:
        time.sleep(0.003)
        return self.env.step(action)


def test_auto_takes_processes_only_for_several_slow_envs() -> None:
    def slow() -> gym.Env[Any, Any]:
        return Slow(gym.make("CartPole-v1"))

    assert choose_backend(slow, 1)[0] == "serial"
    assert choose_backend(slow, 4)[0] == "process"
    backend, reason = choose_backend("Taxi-v4", 4)
    assert backend == "serial"
    assert "ms a step" in reason


def build_cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


@pytest.mark.parametrize("given", ["CartPole-v1", EnvSpec("CartPole-v1"), build_cartpole])
@pytest.mark.parametrize("backend", ["auto", "serial", "process"])
def test_copies_of_an_env_become_one_vector_env(given: Any, backend: str) -> None:
    vector_env = make_vectorized_env(given, n_envs=2, backend=backend, seed=4)
    try:
        assert vector_env.num_envs == 2
        first = np.array(vector_env.reset(seed=5)[0])
        assert first[1].tolist() == gym.make("CartPole-v1").reset(seed=6)[0].tolist()
    finally:
        vector_env.close()


def test_a_seeded_vector_env_repeats_without_a_seeded_reset() -> None:
    starts = []
    for _ in range(2):
        vector_env = make_vectorized_env("CartPole-v1", n_envs=2, backend="serial", seed=4)
        starts.append(np.array(vector_env.reset()[0]).tolist())
        vector_env.close()
    assert starts[0] == starts[1]


def test_one_env_instance_cannot_be_copied() -> None:
    with pytest.raises(UserError, match="cannot be copied"):
        make_vectorized_env(gym.make("CartPole-v1"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="n_envs"):
        make_vectorized_env("CartPole-v1", n_envs=0)
