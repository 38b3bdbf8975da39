"""Bots for a seat, as baselines. They use the keys of a flattened observation."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from ludus.errors import UnknownName
from ludus.types import Array, BoolArray, Observation

_TOWARDS_RIGHT, _TOWARDS_LEFT = 5, 1  # numbers of the moves in the engine
_MOVES = 9


class FighterBot:
    """Chooses actions for one observation or a batch, like a policy."""

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], seed: int = 0
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._chance = np.random.default_rng(seed)

    def restart(self, seed: int) -> None:
        """Continue like a new bot with this seed."""
        self._chance = np.random.default_rng(seed)

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        assert isinstance(obs, dict)
        if obs["frame"].ndim == 3:
            return np.asarray(self.choose(obs))
        rows = ({key: value[row] for key, value in obs.items()} for row in range(len(obs["frame"])))
        return np.array([self.choose(row) for row in rows])

    def choose(self, obs: dict[str, Array]) -> Any:
        raise NotImplementedError

    def _action(self, move: int, attack: int) -> Any:
        """Return both, or with a Discrete action space the attack if there is one, otherwise the move."""
        if isinstance(self.action_space, gym.spaces.Discrete):
            return _MOVES - 1 + attack if attack else move
        return [move, attack]


class StillFighter(FighterBot):
    """Does nothing."""

    def choose(self, obs: dict[str, Array]) -> Any:
        return self._action(0, 0)


class RandomFighter(FighterBot):
    """Samples uniformly from the action space."""

    def choose(self, obs: dict[str, Array]) -> Any:
        self.action_space.seed(int(self._chance.integers(2**31)))
        return self.action_space.sample()


class Brawler(FighterBot):
    """Walks towards the opponent and presses random buttons, like a beginner."""

    def choose(self, obs: dict[str, Array]) -> Any:
        side = np.reshape(obs.get("own_side", np.zeros(1)), -1)
        stands_right = bool(side[-1])  # one-hot or a number: the last entry is 1 on the right
        towards = _TOWARDS_LEFT if stands_right else _TOWARDS_RIGHT
        attacks = self._attacks()
        attack = int(self._chance.integers(1, attacks)) if self._chance.random() < 0.5 else 0
        return self._action(towards, attack)

    def _attacks(self) -> int:
        if isinstance(self.action_space, gym.spaces.Discrete):
            return int(self.action_space.n) - _MOVES + 1
        assert isinstance(self.action_space, gym.spaces.MultiDiscrete)
        return int(self.action_space.nvec[1])


BOTS: dict[str, type[FighterBot]] = {"random": RandomFighter, "still": StillFighter, "brawler": Brawler}


def make_bot(
    name: str, observation_space: gym.Space[Any], action_space: gym.Space[Any], seed: int = 0
) -> FighterBot:
    """Return the bot called `name`. UnknownName suggests the nearest."""
    if name not in BOTS:
        raise UnknownName("bot", name, BOTS, where="env.kwargs.opponent", fix=f"known: {', '.join(BOTS)}")
    return BOTS[name](observation_space, action_space, seed)
