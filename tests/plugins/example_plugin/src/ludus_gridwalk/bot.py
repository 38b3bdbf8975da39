"""A scripted policy: `ludus eval straight`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.envs.make import EnvSpec


def default_env() -> EnvSpec:
    """Return the env that the bot plays when no other is named."""
    return EnvSpec("gridwalk/GridWalk-v0")


class StraightBot:
    """Walks along the first axis, then along the second."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        pass

    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> np.ndarray:
        away = np.atleast_2d(obs["goal"] - obs["walker"])
        first = np.where(away[:, 0] > 0, 1, 3)
        second = np.where(away[:, 1] > 0, 0, 2)
        moves = np.where(np.abs(away[:, 0]) > 1e-6, first, second)
        return moves if np.ndim(obs["goal"]) == 2 else moves[0]
