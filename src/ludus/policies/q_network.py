"""The policy of DQN: a value for every action, with epsilon-greedy exploration."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from ludus.errors import ConfigError
from ludus.policies.base import NetworkSpec, Policy
from ludus.policies.distributions import Categorical
from ludus.policies.extractors import ObservationTensor
from ludus.policies.networks import VALUE_HEAD_GAIN, init_mlp, mlp
from ludus.types import Array


class QPolicy(Policy):
    """features -> q_net, and with `dueling` also features -> value_net (Wang et al., 2016).

    `epsilon`, a plain number the learner sets, is the chance of a uniformly random legal action when `act` is
    not deterministic. ConfigError unless the action space is Discrete.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        network: NetworkSpec,
        dueling: bool = False,
    ) -> None:
        if not isinstance(action_space, gym.spaces.Discrete):
            raise ConfigError(
                f"DQN needs a Discrete action space, not {action_space}",
                where="algorithm",
                fix="use PPO or A2C, or SAC for a bounded Box",
            )
        super().__init__(observation_space, action_space, network)
        self.epsilon = 0.0
        self.n_actions = int(action_space.n)
        self.start = int(action_space.start)
        self.features_extractor = self._make_extractor()
        features_dim = self.features_extractor.features_dim
        self.q_net = mlp(features_dim, network.policy_net_arch, self.n_actions, network.activation)
        self.value_net = mlp(features_dim, network.value_net_arch, 1, network.activation) if dueling else None
        if network.ortho_init:
            init_mlp(self.q_net, VALUE_HEAD_GAIN)
            if self.value_net is not None:
                init_mlp(self.value_net, VALUE_HEAD_GAIN)

    def q_values(self, obs: ObservationTensor) -> Tensor:
        """The value of every action: [B, n]."""
        features = self._features(self.features_extractor, obs)
        q_values: Tensor = self.q_net(features)
        if self.value_net is not None:
            q_values = self.value_net(features) + q_values - q_values.mean(dim=-1, keepdim=True)
        return q_values

    def forward(self, obs: ObservationTensor) -> Tensor:
        """`q_values`."""
        return self.q_values(obs)

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        q_values = self.q_values(obs)
        if mask is not None:
            q_values = q_values.masked_fill(~mask, -torch.inf)
        best = q_values.argmax(dim=-1)
        if deterministic:
            return best
        explores = torch.rand(best.shape, generator=generator, device=best.device) < self.epsilon
        anything = Categorical(torch.zeros_like(q_values), mask).sample(generator)
        return torch.where(explores, anything, best)

    def to_env(self, actions: Array) -> Array:
        return (actions + self.start).astype(self.action_space.dtype)
