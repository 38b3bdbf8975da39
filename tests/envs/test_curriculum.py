from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.curriculum import CurriculumWrapper
from ludus.errors import ConfigError


class OneStep(gym.Env[Any, Any]):
    """Ends after one step; the action is the reward. Remembers the reset options."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    options: dict[str, Any] | None = None
    says_success = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.options = options
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        info = {"is_success": action == 0} if self.says_success else {}
        return np.zeros(1, np.float32), float(action), True, False, info


def play(env: gym.Env[Any, Any], outcomes: list[int]) -> list[float]:
    """The difficulty of each episode played with the given actions."""
    difficulties = []
    for action in outcomes:
        _, info = env.reset()
        end = env.step(action)[4]
        assert end["difficulty"] == info["difficulty"]
        difficulties.append(info["difficulty"])
    return difficulties


def test_difficulty_rises_when_a_full_window_succeeds_and_a_new_window_begins() -> None:
    env = CurriculumWrapper(
        OneStep(), initial=1, increment=2, maximum=4, success_threshold=0.5, window=2, success=1
    )
    assert play(env, [0, 0, 1, 0, 0, 1, 1, 1]) == [1, 1, 1, 3, 3, 3, 4, 4]


def test_info_is_success_outweighs_the_return() -> None:
    bare = OneStep()
    bare.says_success = True
    env = CurriculumWrapper(bare, window=1, success=1)
    assert play(env, [1, 0, 0]) == [0, 0, 1]


def test_the_raw_return_counts_not_the_one_a_wrapper_scaled() -> None:
    recorded = gym.wrappers.RecordEpisodeStatistics(OneStep())
    env = CurriculumWrapper(gym.wrappers.TransformReward(recorded, lambda r: r / 100), window=1, success=1)
    assert play(env, [1, 1]) == [0, 1]


def test_without_a_measure_of_success_the_first_end_says_what_is_needed() -> None:
    env = CurriculumWrapper(OneStep())
    env.reset()
    with pytest.raises(ConfigError, match="does not know whether an episode succeeded") as raised:
        env.step(1)
    assert "is_success" in raised.value.fix
    assert "success: " in raised.value.fix


def test_difficulty_reaches_the_env_by_method_attribute_or_reset_options() -> None:
    class Settable(OneStep):
        given: float | None = None

        def set_difficulty(self, difficulty: float) -> None:
            self.given = difficulty

    class Attribute(OneStep):
        difficulty = 0.0

    settable, attribute, options = Settable(), Attribute(), OneStep()
    for bare in (settable, attribute, options):
        CurriculumWrapper(gym.wrappers.TimeLimit(bare, 9), initial=3).reset(options={"map": "a"})
    assert settable.given == attribute.difficulty == 3
    assert settable.options == attribute.options == {"map": "a"}
    assert options.options == {"map": "a", "difficulty": 3}


def test_state_survives_json_in_the_middle_of_a_window() -> None:
    kwargs: dict[str, Any] = {"window": 2, "success": 1, "success_threshold": 1.0}
    env = CurriculumWrapper(OneStep(), **kwargs)
    play(env, [1, 1, 1])
    resumed = CurriculumWrapper(OneStep(), **kwargs)
    resumed.load_state_dict(json.loads(json.dumps(env.state_dict())))
    assert play(resumed, [1, 1]) == play(env, [1, 1]) == [1, 2]


@pytest.mark.parametrize(
    "bad", [{"increment": 0}, {"window": 0}, {"success_threshold": 1.5}, {"initial": 2, "maximum": 1}]
)
def test_impossible_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CurriculumWrapper(OneStep(), **bad)
