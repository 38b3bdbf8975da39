from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.wrappers import (
    ClipAction,
    EnvironmentWrapper,
    FrameSkip,
    FrameStack,
    RewardScalingWrapper,
    mujoco_preset,
)
from ludus.errors import ConfigError


class Counter(gym.Env[Any, Any]):
    """Observes the step number `t`, rewards `t`, ends at step 5; reuses one observation buffer."""

    action_space = spaces.Discrete(2)

    def __init__(self, observation_space: spaces.Space[Any] | None = None) -> None:
        self.observation_space = observation_space or spaces.Box(0, 10, (2,), np.float32)
        self.t = 0
        self._buffer = np.zeros(self.observation_space.shape or (), self.observation_space.dtype)

    def _obs(self) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            return {k: np.full(s.shape, self.t, s.dtype) for k, s in self.observation_space.items()}
        self._buffer[...] = self.t
        return self._buffer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self._obs(), float(self.t), self.t == 5, False, {}


def test_rewards_are_scaled_then_clipped() -> None:
    env = RewardScalingWrapper(Counter(), scale=-0.5, clip=1.2)
    env.reset()
    assert [env.step(0)[1] for _ in range(4)] == [-0.5, -1.0, -1.2, -1.2]


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env = FrameSkip(Counter(), 3)
    env.reset()
    obs, reward, terminated, _, _ = env.step(0)
    assert (obs.tolist(), reward, terminated) == ([3, 3], 1 + 2 + 3, False)
    obs, reward, terminated, _, _ = env.step(0)
    assert (obs.tolist(), reward, terminated) == ([5, 5], 4 + 5, True)


def test_vectors_are_stacked_oldest_first_and_survive_a_reused_buffer() -> None:
    env = FrameStack(Counter(), 3)
    assert env.observation_space.shape == (6,)
    assert env.reset()[0].tolist() == [0, 0, 0, 0, 0, 0]
    env.step(0)
    assert env.step(0)[0].tolist() == [0, 0, 1, 1, 2, 2]
    assert env.reset()[0].tolist() == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("shape", "stacked"), [((4, 3, 2), (4, 3, 6)), ((4, 3), (4, 3, 3))])
def test_images_are_stacked_on_the_channel_axis(shape: tuple[int, ...], stacked: tuple[int, ...]) -> None:
    env = FrameStack(Counter(spaces.Box(0, 255, shape, np.uint8)), 3)
    assert env.observation_space == spaces.Box(0, 255, stacked, np.uint8)
    env.reset()
    obs = env.step(0)[0]
    assert obs.shape == stacked
    assert obs[0, 0].tolist() == [0] * (2 * stacked[-1] // 3) + [1] * (stacked[-1] // 3)


def test_in_a_dict_images_are_stacked_and_numbers_keep_their_newest_value() -> None:
    space = spaces.Dict(
        {"camera": spaces.Box(0, 255, (2, 2, 1), np.uint8), "speed": spaces.Box(0, 9, (1,), np.float32)}
    )
    env = FrameStack(Counter(space), 2)
    env.reset()
    obs = env.step(0)[0]
    assert env.observation_space.contains(obs)
    assert obs["camera"][0, 0].tolist() == [0, 1]
    assert obs["speed"].tolist() == [1]


def test_frames_of_a_discrete_space_cannot_be_stacked() -> None:
    with pytest.raises(ConfigError, match="cannot be stacked"):
        FrameStack(gym.make("FrozenLake-v1"), 2)


def test_clipped_actions_keep_their_declared_bounds() -> None:
    env = gym.make("Pendulum-v1")
    clipped = ClipAction(env)
    assert clipped.action_space == env.action_space
    assert clipped.action(np.array([7.0], np.float32)).tolist() == [2.0]
    with pytest.raises(ConfigError, match="only Box"):
        ClipAction(gym.make("CartPole-v1"))


def test_the_mujoco_preset_flattens_dict_observations_and_clips_actions() -> None:
    class Arm(Counter):
        action_space = spaces.Box(-1, 1, (1,), np.float32)

    parts = {"a": spaces.Box(0, 9, (2,), np.float32), "b": spaces.Box(0, 9, (1,), np.float32)}
    env = mujoco_preset(Arm(spaces.Dict(parts)))
    assert isinstance(env, ClipAction)
    assert env.reset()[0].tolist() == [0, 0, 0]


def test_a_custom_wrapper_overrides_reset_and_step() -> None:
    class Doubling(EnvironmentWrapper):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = self.env.step(action)
            return obs, 2 * reward, terminated, truncated, info

    env = Doubling(Counter())
    env.reset(seed=1)
    assert env.step(0)[1] == 2.0
