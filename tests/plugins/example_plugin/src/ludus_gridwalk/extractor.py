"""A feature extractor, and when `features_extractor: auto` takes it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from ludus.policies.extractors import BaseFeaturesExtractor


def choose_extractor(space: gym.Space[Any]) -> str | None:
    """Return the name of the extractor for observations of this game, None for others."""
    return (
        "gridwalk" if isinstance(space, gym.spaces.Dict) and set(space.spaces) == {"walker", "goal"} else None
    )


class GridWalkExtractor(BaseFeaturesExtractor):
    """The way to the goal, through one layer."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int = 32) -> None:
        super().__init__(observation_space, features_dim)
        self.layer = nn.Linear(2, features_dim)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return torch.tanh(self.layer(observations["goal"] - observations["walker"]))
