"""A policy of SB3 with the interface of Ludus: raw observations in, env-ready actions out, tensors to save."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from torch import Tensor

from ludus.policies.base import NetworkSpec, Policy, RecurrentActor
from ludus.policies.extractors import ObservationTensor
from ludus.policies.observations import ObservationNormalizer, check_observation
from ludus.types import Array, BoolArray, Observation

Memory = tuple[Array, Array]
"""The memory of a recurrent policy in one episode: hidden and cell state, [layers, size] each."""


class SB3Policy(Policy):
    """`net` is SB3's policy with its target networks. For a recurrent one see `RecurrentSB3Policy`."""

    adds_start = False

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        net: BasePolicy,
        normalizer: ObservationNormalizer | None,
    ) -> None:
        super().__init__(observation_space, action_space, NetworkSpec((), ()))
        self.obs_normalizer = normalizer
        self.net = net
        self.uses_masks = isinstance(net, MaskableActorCriticPolicy)
        self.scales_actions = bool(net.squash_output)
        self._channels_last = _channels_last(observation_space)

    def prepare(self, obs: Observation) -> ObservationTensor:
        return self.channels_first(super().prepare(obs))

    def channels_first(self, obs: ObservationTensor) -> ObservationTensor:
        """Return the batch with the channels of its images first, as SB3 expects them."""
        if isinstance(obs, dict):
            return {key: self._transposed(key, tensor) for key, tensor in obs.items()}
        return self._transposed("", obs)

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Act as SB3 does, with its own randomness. A mask is ignored unless the policy is maskable."""
        net: Any = self.net
        if isinstance(net, MaskableActorCriticPolicy):
            legal = None if mask is None else mask.cpu().numpy()
            masked: Tensor = net._predict(obs, deterministic=deterministic, action_masks=legal)
            return masked
        actions: Tensor = net._predict(obs, deterministic=deterministic)
        return actions

    def to_env(self, actions: Array) -> Array:
        space = self.action_space
        actions = actions.reshape(len(actions), *(space.shape or ()))
        if not isinstance(space, spaces.Box):
            return actions
        if self.net.squash_output:
            return np.asarray(self.net.unscale_action(actions))
        return np.clip(actions, space.low, space.high)

    def _transposed(self, key: str, tensor: Tensor) -> Tensor:
        return tensor.permute(0, 3, 1, 2) if key in self._channels_last else tensor


class RecurrentSB3Policy(SB3Policy, RecurrentActor):
    """A policy of SB3 with an LSTM."""

    net: RecurrentActorCriticPolicy

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Act as at the start of an episode."""
        return self._act_with_memory(obs, [None] * _rows(obs), deterministic)[0]

    @torch.inference_mode()
    def predict_with_memory(
        self,
        obs: Observation,
        memories: list[Memory | None],
        mask: BoolArray | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, list[Memory]]:
        check_observation(self.observation_space, obs)
        actions, after = self._act_with_memory(self.prepare(obs), memories, deterministic)
        return self.to_env(actions.cpu().numpy()), after

    def _act_with_memory(
        self, obs: ObservationTensor, memories: list[Memory | None], deterministic: bool
    ) -> tuple[Tensor, list[Memory]]:
        net = self.net
        layers, _, size = net.lstm_hidden_state_shape
        empty = np.zeros((layers, size), dtype=np.float32)
        hidden, cell = (
            torch.as_tensor(
                np.stack([empty if memory is None else memory[part] for memory in memories], axis=1),
                device=self.device,
            )
            for part in (0, 1)
        )
        starts = torch.tensor(
            [memory is None for memory in memories], dtype=torch.float32, device=self.device
        )
        actions, (hidden, cell) = net._predict(obs, (hidden, cell), starts, deterministic)  # type: ignore[arg-type]
        h, c = hidden.cpu().numpy(), cell.cpu().numpy()
        return actions, [(h[:, row], c[:, row]) for row in range(len(memories))]


def _channels_last(space: gym.Space[Any]) -> set[str]:
    """Return the keys (or "" for the space itself) whose images SB3 transposes to channels first."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    return {
        key
        for key, part in parts.items()
        if is_image_space(part) and not is_image_space_channels_first(part)  # type: ignore[arg-type]
    }


def _rows(obs: ObservationTensor) -> int:
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
