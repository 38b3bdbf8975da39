"""A policy of SB3 as Ludus plays and saves it: raw observations in, env-ready actions out, tensors to save."""

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

from ludus.policies.base import NetworkSpec, Policy
from ludus.policies.extractors import ObservationTensor
from ludus.policies.observations import ObservationNormalizer
from ludus.types import Array, BoolArray, Observation

Memory = tuple[Array, Array]
"""What a recurrent policy remembers of one episode: its hidden and cell state, [layers, size] each."""


class SB3Policy(Policy):
    """`net` is SB3's policy, target networks and all. A recurrent one also has `predict_with_memory`."""

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
        self._channels_last = _channels_last(observation_space)

    def prepare(self, obs: Observation) -> ObservationTensor:
        return self.channels_first(super().prepare(obs))

    def channels_first(self, obs: ObservationTensor) -> ObservationTensor:
        """The batch with its images turned as SB3 wants them."""
        if isinstance(obs, dict):
            return {key: self._turned(key, tensor) for key, tensor in obs.items()}
        return self._turned("", obs)

    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """As SB3 acts, with its own randomness. A mask counts where the policy knows masks; a recurrent one acts
        as at the start of an episode."""
        net: Any = self.net
        if isinstance(net, MaskableActorCriticPolicy):
            legal = None if mask is None else mask.cpu().numpy()
            masked: Tensor = net._predict(obs, deterministic=deterministic, action_masks=legal)
            return masked
        if isinstance(net, RecurrentActorCriticPolicy):
            return self._remembering(net, obs, [None] * _rows(obs), deterministic)[0]
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

    @property
    def predict_with_memory(self) -> Any:
        """For a recurrent policy, a function like `predict` for batches that takes and returns memories.

        `(obs, memories, mask, deterministic) -> (actions, memories)`, a None where an episode starts. None for
        a policy that remembers nothing.
        """
        return self._predict_with_memory if isinstance(self.net, RecurrentActorCriticPolicy) else None

    @torch.inference_mode()
    def _predict_with_memory(
        self,
        obs: Observation,
        memories: list[Memory | None],
        mask: BoolArray | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, list[Memory]]:
        assert isinstance(self.net, RecurrentActorCriticPolicy)
        actions, after = self._remembering(self.net, self.prepare(obs), memories, deterministic)
        return self.to_env(actions.cpu().numpy()), after

    def _remembering(
        self,
        net: RecurrentActorCriticPolicy,
        obs: ObservationTensor,
        memories: list[Memory | None],
        deterministic: bool,
    ) -> tuple[Tensor, list[Memory]]:
        layers, _, size = net.lstm_hidden_state_shape
        nothing = np.zeros((layers, size), dtype=np.float32)
        hidden, cell = (
            torch.as_tensor(
                np.stack([nothing if memory is None else memory[part] for memory in memories], axis=1),
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

    def _turned(self, key: str, tensor: Tensor) -> Tensor:
        return tensor.permute(0, 3, 1, 2) if key in self._channels_last else tensor


def _channels_last(space: gym.Space[Any]) -> set[str]:
    """The keys (or "" for the space itself) whose images SB3 turns, so that channels come first."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    return {
        key
        for key, part in parts.items()
        if is_image_space(part) and not is_image_space_channels_first(part)  # type: ignore[arg-type]
    }


def _rows(obs: ObservationTensor) -> int:
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
