"""Discrete, Tuple and nested Dict observations train, evaluate, predict, resume and load without a wrapper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from tiny_runs import learned, resumed, tiny, trained, trainer_for

import ludus
from ludus.envs.flat_observations import flat_observation, flat_space
from ludus.envs.make import make_env
from ludus.errors import UserError

NESTED = spaces.Dict(
    {
        "arm": spaces.Dict({"angle": spaces.Box(-1, 1, (2,)), "grip": spaces.Discrete(3)}),
        "goal": spaces.Tuple([spaces.Discrete(4), spaces.MultiBinary(2)]),
    }
)


class NestedEnv(gym.Env[Any, Any]):
    """Rewards the action that the grip names."""

    observation_space = NESTED
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.obs, self.steps = self.observation_space.sample(), 0
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.obs["arm"]["grip"])
        self.obs, self.steps = self.observation_space.sample(), self.steps + 1
        return self.obs, reward, self.steps == 10, False, {}


gym.register("NestedObservations-v0", NestedEnv)
ENVS = {"discrete": "FrozenLake-v1", "tuple": "Blackjack-v1", "nested": "NestedObservations-v0"}


@pytest.mark.parametrize("kind", ENVS)
@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_a_run_trains_evaluates_loads_and_predicts(tmp_path: Path, algorithm: str, kind: str) -> None:
    run = trained(tiny(tmp_path, algorithm, env=ENVS[kind], evaluation={"every": 512, "episodes": 2}))
    agent = ludus.load(run.path)
    env = gym.make(ENVS[kind])
    obs, _ = env.reset(seed=3)
    flat, _ = make_env(ENVS[kind]).reset(seed=3)
    action = agent.predict(obs)
    assert env.action_space.contains(np.int64(action))
    assert action == agent.predict(flat)
    assert len(run.metrics_path.read_text().splitlines()) > 1


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_resume_of_a_tuple_run_is_exact(tmp_path: Path, algorithm: str) -> None:
    whole = trained(tiny(tmp_path / "whole", algorithm, env="Blackjack-v1", checkpoint={"every": 512}))
    cut = trained(tiny(tmp_path / "cut", algorithm, env="Blackjack-v1", checkpoint={"every": 512}))
    assert resumed(cut, 512) == 512
    assert learned(cut) == learned(whole)


def test_an_env_object_with_a_nested_observation_trains_and_predicts(tmp_path: Path) -> None:
    env = NestedEnv()
    config = tiny(tmp_path, env=None, n_envs=1, total_timesteps=512)
    trainer = trainer_for(config, env)
    trainer.train()
    obs, _ = NestedEnv().reset(seed=1)
    action, _ = trainer.predict(obs, deterministic=True)
    batch = [flat_observation(obs, trainer.policy.observation_space)] * 2
    actions, _ = trainer.predict(
        {key: np.stack([one[key] for one in batch]) for key in batch[0]}, deterministic=True
    )
    trainer.close()
    assert list(actions) == [action, action]


def test_parts_are_named_by_their_path() -> None:
    assert list(flat_space(NESTED).spaces) == ["arm.angle", "arm.grip", "goal.0", "goal.1"]
    assert list(flat_space(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])).spaces) == ["0", "1"]
    sample = NESTED.sample()
    assert flat_space(NESTED).contains(flat_observation(sample, flat_space(NESTED)))


def test_two_parts_of_one_name_are_refused() -> None:
    space = spaces.Dict({"a.b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})})
    with pytest.raises(UserError, match=r"two parts of the observation are called 'a\.b'"):
        flat_space(space)
