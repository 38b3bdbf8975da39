"""Observations as Stable-Baselines3 gives them to a feature extractor: floats, images scaled and channels first.

Extractors that users write get their observations in this form, with either engine.
"""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
import numpy as np
from torch import Tensor, nn

from ludus.policies.extractors import BaseFeaturesExtractor, ObservationTensor, flatten
from ludus.policies.observations import is_image_space


class PreprocessedExtractor(nn.Module):
    """A user's extractor behind `preprocess`."""

    def __init__(self, observation_space: gym.Space[Any], extractor: BaseFeaturesExtractor) -> None:
        super().__init__()
        self._observation_space = observation_space
        self.extractor = extractor

    @property
    def features_dim(self) -> int:
        """The number of features per observation."""
        return self.extractor.features_dim

    def forward(self, observations: ObservationTensor) -> Tensor:
        return cast(Tensor, self.extractor(preprocess(observations, self._observation_space)))


def preprocess(observations: ObservationTensor, space: gym.Space[Any]) -> ObservationTensor:
    """Return a batch of `space`, as `to_tensor` gives it, in float32.

    Images are channels first and scaled to 0..1. `Discrete` and `MultiDiscrete` are one-hot. The rest keeps its values.
    """
    if isinstance(space, gym.spaces.Dict):
        assert isinstance(observations, dict)  # observations come from this space
        parts = {key: preprocess(observations[key], part) for key, part in space.spaces.items()}
        return cast(dict[str, Tensor], parts)
    assert isinstance(observations, Tensor)
    if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
        return flatten(observations, space)
    if is_image_space(space):
        images = observations if _has_channels_first(space) else observations.permute(0, 3, 1, 2)
        return images.float() / 255.0
    return observations.float()


def preprocessed_space(space: gym.Space[Any]) -> gym.Space[Any]:
    """Return the space that an extractor is made with: `space`, with the channels of its images first."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: preprocessed_space(part) for key, part in space.spaces.items()})
    if not is_image_space(space) or _has_channels_first(space):
        return space
    assert space.shape is not None  # a Box has one
    height, width, channels = space.shape
    return gym.spaces.Box(0, 255, (channels, height, width), np.uint8)


def is_preprocessed(space: gym.Space[Any]) -> bool:
    """Return whether `preprocess` changes nothing: there are float Boxes only."""
    if isinstance(space, gym.spaces.Dict):
        return all(map(is_preprocessed, space.spaces.values()))
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)


def _has_channels_first(space: gym.Space[Any]) -> bool:
    """The smallest axis is the channels, between equals the first one, as Stable-Baselines3 has it."""
    assert space.shape is not None  # an image has one
    return int(np.argmin(space.shape)) == 0
