"""The policy of SAC: a squashed Gaussian actor and twin critics, in actions from -1 to 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from ludus.errors import ConfigError
from ludus.policies import networks
from ludus.policies.base import NetworkSpec, Policy
from ludus.policies.distributions import SquashedGaussian, refuse_mask, to_box
from ludus.policies.extractors import BaseFeaturesExtractor, ObservationTensor
from ludus.types import Array

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


class TwinCritic(nn.Module):
    """Two estimates of an action's value on one feature extractor. A deep copy is a whole target network."""

    def __init__(self, extractor: BaseFeaturesExtractor, action_dim: int, network: NetworkSpec) -> None:
        super().__init__()
        self.features_extractor = extractor
        in_dim = extractor.features_dim + action_dim
        self.q1 = networks.mlp(in_dim, network.value_net_arch, 1, network.activation)
        self.q2 = networks.mlp(in_dim, network.value_net_arch, 1, network.activation)
        if network.ortho_init:
            networks.init_mlp(self.q1, networks.VALUE_HEAD_GAIN)
            networks.init_mlp(self.q2, networks.VALUE_HEAD_GAIN)

    def forward(self, obs: ObservationTensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Two values per row: [B], [B]."""
        inputs = torch.cat([self.features_extractor(obs), actions], dim=-1)
        return self.q1(inputs).squeeze(-1), self.q2(inputs).squeeze(-1)


class SACPolicy(Policy):
    """An actor and `critic`, the twin critics. ConfigError unless the action space is a finitely bounded Box.

    A shared feature extractor is the critics': their loss trains it, and the actor reads it without gradient.
    """

    scales_actions = True

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], network: NetworkSpec
    ) -> None:
        if not (isinstance(action_space, gym.spaces.Box) and action_space.is_bounded()):
            raise ConfigError(
                f"SAC needs a Box action space with finite bounds, not {action_space}",
                where="algorithm",
                fix="use PPO or A2C, or wrap the env so that its actions are a bounded Box",
            )
        super().__init__(observation_space, action_space, network)
        self.box = action_space
        action_dim = int(np.prod(action_space.shape))
        self.critic = TwinCritic(self._make_extractor(), action_dim, network)
        self.actor_features_extractor = None if network.share_features_extractor else self._make_extractor()
        features_dim = self.critic.features_extractor.features_dim
        latent_dim = networks.mlp_out_dim(features_dim, network.policy_net_arch)
        self.actor_net = networks.mlp(features_dim, network.policy_net_arch, None, network.activation)
        self.mean_head = nn.Linear(latent_dim, action_dim)
        self.log_std_head = nn.Linear(latent_dim, action_dim)
        if network.ortho_init:
            networks.orthogonal_init(self.actor_net)
            networks.orthogonal_init(self.mean_head, networks.POLICY_HEAD_GAIN)
            networks.orthogonal_init(self.log_std_head, networks.POLICY_HEAD_GAIN)
        nn.init.constant_(self.log_std_head.bias, network.log_std_init)

    def distribution(self, obs: ObservationTensor) -> SquashedGaussian:
        """The actor's distribution over actions in [-1, 1]."""
        if self.actor_features_extractor is not None:
            features = self.actor_features_extractor(obs)
        else:
            features = self.critic.features_extractor(obs).detach()
        latent = self.actor_net(features)
        log_std = self.log_std_head(latent).clamp(LOG_STD_MIN, LOG_STD_MAX)
        return SquashedGaussian(self.mean_head(latent), log_std)

    def critics(self, obs: ObservationTensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Both values of actions in [-1, 1]: [B], [B]."""
        q1, q2 = self.critic(obs, actions)
        return q1, q2

    def actor_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that the actor's loss trains: all but those of the critics."""
        return (parameter for name, parameter in self.named_parameters() if not name.startswith("critic."))

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that the critics' loss trains, including a shared feature extractor."""
        return self.critic.parameters()

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        refuse_mask(mask, self.action_space)
        distribution = self.distribution(obs)
        return distribution.mode() if deterministic else distribution.sample(generator)

    def to_env(self, actions: Array) -> Array:
        """Scale actions from [-1, 1] to the bounds of the space."""
        low, high = self.box.low, self.box.high
        shaped = actions.reshape(len(actions), *self.box.shape)
        return to_box(low + 0.5 * (shaped + 1.0) * (high - low), self.box)
