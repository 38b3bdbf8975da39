"""The actor-critic of PPO and A2C: one distribution over actions and one value per observation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from ludus.errors import ConfigError
from ludus.policies.base import FastActorCritic, NetworkSpec, Policy
from ludus.policies.distributions import ActionHead, Distribution
from ludus.policies.extractors import ObservationTensor
from ludus.policies.networks import VALUE_HEAD_GAIN, mlp, mlp_out_dim, orthogonal_init
from ludus.types import Array


class ActorCritic(Policy):
    """features -> policy_net -> action_head, and features -> value_net -> value_head.

    `value_features_extractor` is None when the extractor is shared, and `value_net` is None when the policy's
    net is shared. Sharing the net but not the extractor before it is a ConfigError. With `network.network`, both nets
    are parts of `own_layers`, a module of the user.
    """

    fast: FastActorCritic | None
    takes_network = True

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], network: NetworkSpec
    ) -> None:
        super().__init__(observation_space, action_space, network)
        if network.share_net and not network.share_features_extractor:
            raise ConfigError(
                "a shared net cannot have two feature extractors",
                where="policy.share_net",
                fix="set share_features_extractor: true, or share_net: false",
            )
        self.features_extractor = self._make_extractor()
        self.value_features_extractor = None if network.share_features_extractor else self._make_extractor()
        features_dim = self.features_extractor.features_dim
        policy_arch = network.policy_net_arch
        value_arch = policy_arch if network.share_net else network.value_net_arch
        self.own_layers: nn.Module | None = None
        self.policy_net: nn.Module
        self.value_net: nn.Module | None
        if network.network is None:
            self.policy_net = mlp(features_dim, policy_arch, None, network.activation)
            self.value_net = (
                None if network.share_net else mlp(features_dim, value_arch, None, network.activation)
            )
            policy_dim, value_dim = (mlp_out_dim(features_dim, arch) for arch in (policy_arch, value_arch))
        else:
            policy_dim, value_dim = self._use_own_layers(features_dim)
        self.action_head = ActionHead(
            action_space, policy_dim, log_std_init=network.log_std_init, ortho_init=network.ortho_init
        )
        self.value_head = nn.Linear(value_dim, 1)
        self.value_stream: torch.cuda.Stream | None = None
        if network.ortho_init:
            orthogonal_init(self.policy_net)
            if self.value_net is not None:
                orthogonal_init(self.value_net)
            orthogonal_init(self.value_head, VALUE_HEAD_GAIN)

    def _use_own_layers(self, features_dim: int) -> tuple[int, int]:
        """Make both nets parts of the user's network; return their widths."""
        from ludus.policies import own_layers

        network = self.network
        assert network.network is not None
        if network.share_net:
            raise ConfigError(
                "policy.network itself decides what policy and value share",
                where="policy.share_net",
                fix="leave share_net out",
            )
        self.own_layers = own_layers.make_layers(network.network, features_dim, network.network_kwargs)
        self.policy_net = own_layers.LatentPart(self.own_layers, "forward_actor")
        self.value_net = own_layers.LatentPart(self.own_layers, "forward_critic")
        actor, critic = (
            own_layers.latent_dim(self.own_layers, f"forward_{part}") for part in ("actor", "critic")
        )
        return actor, critic

    def trunks(self) -> list[nn.Module]:
        """Return the parts before the heads that have weights."""
        nets = (self.policy_net, self.value_net) if self.own_layers is None else (self.own_layers,)
        parts = (self.features_extractor, self.value_features_extractor, *nets)
        return [part for part in parts if part is not None and any(True for _ in part.parameters())]

    def enable_value_stream(self) -> None:
        """Compute values on a separate CUDA stream from now on, unless they share parameters with actions."""
        shares = self.value_net is None or self.own_layers is not None
        shares = shares or (
            self.value_features_extractor is None and any(True for _ in self.features_extractor.parameters())
        )
        if not shares:
            self.value_stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @contextmanager
    def on_value_stream(self) -> Iterator[None]:
        """Run the block on the value stream, in parallel with the actions; `forward` waits for both."""
        if self.value_stream is not None:
            self.value_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.value_stream):
            yield

    def forward(self, obs: ObservationTensor, mask: Tensor | None = None) -> tuple[Distribution, Tensor]:
        """The distribution over actions, and the values [B]."""
        features = self._features(self.features_extractor, obs)
        if self.value_stream is None:
            latent = self.policy_net(features)
            return self.action_head(latent, mask), self._value(obs, features, latent)
        with self.on_value_stream():
            values = self._value(obs, features, None)
        distribution = self.action_head(self.policy_net(features), mask)
        torch.cuda.current_stream(features.device).wait_stream(self.value_stream)
        return distribution, values

    def distribution(self, obs: ObservationTensor, mask: Tensor | None = None) -> Distribution:
        """The distribution over actions alone."""
        distribution: Distribution = self.action_head(
            self.policy_net(self._features(self.features_extractor, obs)), mask
        )
        return distribution

    def value(self, obs: ObservationTensor) -> Tensor:
        """The values [B] alone."""
        if self.value_features_extractor is not None:
            return self._value(obs, None, None)
        features = self._features(self.features_extractor, obs)
        return self._value(obs, features, self.policy_net(features) if self.value_net is None else None)

    def _value(self, obs: ObservationTensor, features: Tensor | None, latent: Tensor | None) -> Tensor:
        """Return the values [B]; uses the policy's `features` and `latent` as far as the networks share them."""
        if self.value_features_extractor is not None:
            features = self._features(self.value_features_extractor, obs)
        if self.value_net is not None:
            latent = self.value_net(features)
        values: Tensor = self.value_head(latent).squeeze(-1)
        return values

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        distribution = self.distribution(obs, mask)
        return distribution.mode() if deterministic else distribution.sample(generator)

    @torch.no_grad()
    def act_and_value(
        self, obs: ObservationTensor, mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """For collecting, without gradient: sampled actions, their log-probabilities and values, each [B]."""
        distribution, values = self(obs, mask)
        actions = distribution.sample(generator)
        return actions, distribution.log_prob(actions), values

    def evaluate(
        self, obs: ObservationTensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """For learning: log-probabilities of `actions`, entropies and values, each [B]."""
        distribution, values = self(obs, mask)
        return distribution.log_prob(actions), distribution.entropy(), values

    def to_env(self, actions: Array) -> Array:
        return self.action_head.to_env(actions)
