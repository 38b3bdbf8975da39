"""The standard Atari preparation, as the wrapper `atari`.

No-op starts, frame skip 4 with a maximum over the last two frames, 84x84 grayscale, a lost life ends the
training episode, FIRE after reset, rewards clipped to their sign. Frame stacking is `frame_stack: 4`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import AtariPreprocessing

from ludus.envs.wrappers import Env, EnvironmentWrapper, StepResult
from ludus.errors import MissingExtra


class EpisodicLife(EnvironmentWrapper):
    """Ends the episode at every lost life; the game itself is reset only when it is over or a seed is given.

    Lives are read from `info["lives"]`. An end that is only a lost life carries `info["life_lost"] = True`;
    the reset after it plays one no-op from where the game stands.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._lives = 0
        self._game_over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if self._game_over or seed is not None:
            obs, info = self.env.reset(seed=seed, options=options)
        else:
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        self._game_over = False
        self._lives = info["lives"]
        return obs, info

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._game_over = terminated or truncated
        lives = info["lives"]
        # some games show 0 lives for a few frames before they end; do not end the episode twice
        if 0 < lives < self._lives and not self._game_over:
            terminated = True
            info["life_lost"] = True
        self._lives = lives
        return obs, reward, terminated, truncated, info


class FireReset(EnvironmentWrapper):
    """Press FIRE after every reset in games that have it, because some wait for it."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        meanings = env.get_wrapper_attr("get_action_meanings")()
        # in games that need it, FIRE is action 1 and some start only on the action after it
        self._start_actions = (1, 2) if len(meanings) >= 3 and meanings[1] == "FIRE" else ()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        obs, info = self.env.reset(seed=seed, options=options)
        for action in self._start_actions:
            obs, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        return obs, info


class ClipRewardToSign(gym.RewardWrapper[Any, Any], RecordConstructorArgs):
    """Replaces every reward by its sign: -1, 0 or 1."""

    def __init__(self, env: Env) -> None:
        RecordConstructorArgs.__init__(self)
        gym.RewardWrapper.__init__(self, env)

    def reward(self, reward: Any) -> float:
        return float(np.sign(reward))


def atari_preset(env: Env) -> Env:
    """Apply the `atari` wrapper to an ALE env made with `frameskip=1`. Raises MissingExtra without OpenCV."""
    if importlib.util.find_spec("cv2") is None:
        raise MissingExtra("the wrapper 'atari'", "atari")
    env = AtariPreprocessing(
        env, noop_max=30, frame_skip=4, screen_size=84, grayscale_obs=True, grayscale_newaxis=True
    )
    return ClipRewardToSign(FireReset(EpisodicLife(env)))
