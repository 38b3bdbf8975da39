"""Networks as the guide "Policy Networks" of Stable-Baselines3 has users write them, and envs for them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import ludus


def _convolve(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=8, stride=4),
        nn.ReLU(),
        nn.Conv2d(8, 16, kernel_size=4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


class CustomCNN(BaseFeaturesExtractor):
    """The guide's "Custom Feature Extractor": channels first, floats in, its width found with a sample of the space."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        self.cnn = _convolve(observation_space.shape[0])
        with torch.no_grad():
            n_flatten = self.cnn(torch.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flatten, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        return self.linear(self.cnn(observations))


class ImportedFromLudus(ludus.BaseFeaturesExtractor):
    """The same with another import line."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        self.cnn = _convolve(observation_space.shape[0])
        with torch.no_grad():
            n_flatten = self.cnn(torch.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flatten, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        return self.linear(self.cnn(observations))


class CustomCombinedExtractor(BaseFeaturesExtractor):
    """The guide's "Multiple Inputs": takes no features_dim, and sets its own once the parts are made."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__(observation_space, features_dim=1)
        parts: dict[str, nn.Module] = {}
        width = 0
        for key, space in observation_space.spaces.items():
            if key == "image":
                parts[key] = nn.Sequential(nn.MaxPool2d(4), nn.Flatten())
                width += space.shape[0] * (space.shape[1] // 4) * (space.shape[2] // 4)
            elif key == "vector":
                parts[key] = nn.Linear(space.shape[0], 16)
                width += 16
        self.extractors = nn.ModuleDict(parts)
        self._features_dim = width

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return torch.cat([part(observations[key]) for key, part in self.extractors.items()], dim=1)


class CustomNetwork(nn.Module):
    """The guide's "Advanced Example": the network of a custom policy, here with one layer that both parts share."""

    def __init__(self, feature_dim: int, last_layer_dim_pi: int = 64, last_layer_dim_vf: int = 64) -> None:
        super().__init__()
        self.latent_dim_pi = last_layer_dim_pi
        self.latent_dim_vf = last_layer_dim_vf
        self.shared = nn.Sequential(nn.Linear(feature_dim, 8), nn.ReLU())
        self.policy_net = nn.Sequential(nn.Linear(8, last_layer_dim_pi), nn.ReLU())
        self.value_net = nn.Sequential(nn.Linear(8, last_layer_dim_vf), nn.ReLU())

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        return self.policy_net(self.shared(features))

    def forward_critic(self, features: Tensor) -> Tensor:
        return self.value_net(self.shared(features))


class TooNarrow(CustomNetwork):
    def forward_actor(self, features: Tensor) -> Tensor:
        return super().forward_actor(features)[:, :1]


class Width(BaseFeaturesExtractor):
    """One linear layer over a vector of whole numbers."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 8) -> None:
        super().__init__(observation_space, features_dim)
        self.layer = nn.Linear(observation_space.shape[0], features_dim)

    def forward(self, observations: Tensor) -> Tensor:
        return self.layer(observations)


CAMERA = spaces.Box(0, 255, (40, 36, 3), np.uint8)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "Camera": CAMERA,
    "Frames": spaces.Box(0, 255, (4, 40, 36), np.uint8),
    "Mixed": spaces.Dict(
        {"image": CAMERA, "vector": spaces.Box(-1, 1, (5,), np.float32), "phase": spaces.Discrete(3)}
    ),
    "Whole": spaces.Box(-9, 9, (4,), np.int64),
    "Levers": spaces.MultiDiscrete([3, 2]),
}


class Shown(gym.Env[Any, Any]):
    """Shows random observations, takes any action, ends after 10 steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, observations: str) -> None:
        self.observation_space = OBSERVATIONS[observations]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 10, False, {}


for _name in OBSERVATIONS:
    if f"{_name}-v0" not in gym.registry:
        gym.register(f"{_name}-v0", entry_point=Shown, kwargs={"observations": _name})
