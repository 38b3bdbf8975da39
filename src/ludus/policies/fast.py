"""Faster ways to act while experience is collected: compiled kernels or CUDA graphs on the memory of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from ludus.types import Array, BoolArray, Observation


class FastPolicy(ABC):
    """Draws the actions of a policy, from arrays to arrays. A learner sets it as the policy's `fast`."""

    def begin_rollout(self, n_steps: int) -> None:
        """Prepare for `n_steps` calls of `act` before the weights change."""

    @abstractmethod
    def act(self, obs: Observation, masks: BoolArray | None) -> Any:
        """Return actions for observations as the network takes them."""


class FastActorCritic(FastPolicy):
    """A FastPolicy that estimates values as well."""

    @abstractmethod
    def act(self, obs: Observation, masks: BoolArray | None) -> tuple[Array, Array, Array]:
        """Return actions, their log-probabilities and values, each [n, ...]."""

    @abstractmethod
    def values(self, obs: Observation) -> Array:
        """Return the values of observations as the network takes them."""

    def rollout_inputs(self) -> tuple[Any, torch.Tensor | None] | None:
        """Return observations and masks of all `act` calls since `begin_rollout`, flat and on the policy's device.

        None where they are not kept.
        """
        return None
