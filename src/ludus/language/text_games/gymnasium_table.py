"""A Gymnasium env whose observations are texts, as a game with one seat.

Each action has the env's reward for it, and the game's result is their sum. Actions are texts, or the number in a
text (`[2]`, `go to 2`) where the env takes numbers. `info["invalid_move"]` means that an action was refused.
"""

from __future__ import annotations

import math
import re
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from ludus.config.language import GameSpec
from ludus.envs.catalog import find_gym_spec
from ludus.envs.seats import Observed
from ludus.errors import UserError
from ludus.language.text_games.seclusion import Seclusion, secluded

_NUMBER = re.compile(r"-?\d+")


class GymnasiumTable:
    """One episode of the env `spec.id`. UserError if its observations are not texts."""

    def __init__(self, spec: GameSpec, seed: int) -> None:
        env_id = spec.id.partition(":")[2]
        self._seclusion = Seclusion(seed)
        self.over = False
        self.last_reward = 0.0
        self._reward = 0.0
        self._refused = False
        self._info: dict[str, Any] = {}
        with secluded(self._seclusion, f"{env_id} cannot be started"):
            self._env = gym.make(find_gym_spec(env_id), disable_env_checker=True, **spec.kwargs)
            self._check(env_id)
            text, self._info = self._env.reset(seed=seed)
            self._said = [f"[GAME] {text}"]
            self._rules = self._board = str(text)

    def observe(self) -> Observed:
        return Observed("\n".join(self._said), self._board, self._rules, 0)

    def play(self, action: str) -> bool:
        with secluded(self._seclusion, "the env raised"):
            self._said.append(f"[Player] {action}")
            self.last_reward = 0.0
            move = self._move(action)
            if move is None:
                self._said.append(f"[GAME] A number from 0 to {self._actions - 1} is needed.")
                return False
            text, reward, terminated, truncated, self._info = self._env.step(move)
            self._board = str(text)
            self._said.append(f"[GAME] {text}")
            self.last_reward = float(reward)
            self._reward += self.last_reward
            if not math.isfinite(self._reward):
                raise ValueError(f"the reward {reward!r} is not finite")
            self.over = bool(terminated or truncated)
            self._refused = bool(self._info.get("invalid_move"))
            if self.over:
                self._env.close()
            return not self._refused

    def rewards(self) -> tuple[float, ...]:
        return (self._reward,)

    def reason(self) -> str:
        return str(self._info.get("reason", ""))

    def invalid(self) -> tuple[bool, ...]:
        return (self.over and self._refused,)

    @property
    def state(self) -> dict[str, Any]:
        return self._info

    def _check(self, env_id: str) -> None:
        action, observation = self._env.action_space, self._env.observation_space
        self._actions = int(action.n) if isinstance(action, spaces.Discrete) else 0
        if not isinstance(observation, spaces.Text) or not isinstance(action, spaces.Text | spaces.Discrete):
            raise UserError(
                f"the env '{env_id}' cannot be played as a text game",
                where=f"its spaces: {observation}, {action}",
                fix="it needs Text observations, and Text or Discrete actions",
            )

    def _move(self, action: str) -> Any:
        if not self._actions:
            return action
        number = _NUMBER.search(action)
        return int(number.group()) if number and 0 <= int(number.group()) < self._actions else None
