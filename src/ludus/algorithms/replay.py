"""A ring of transitions, kept raw; sampled transitions are normalised with the current statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.policies.base import Policy
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.experience import Transitions
from ludus.types import Array, BoolArray, Observation


@dataclass(frozen=True)
class ReplayBatch:
    """Sampled transitions on the learner's device, as the networks take them."""

    obs: torch.Tensor | dict[str, torch.Tensor]
    actions: torch.Tensor
    rewards: torch.Tensor
    next_obs: torch.Tensor | dict[str, torch.Tensor]
    terminated: torch.Tensor
    next_masks: torch.Tensor | None

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor, in an order that depends only on which there are."""
        found: list[torch.Tensor] = []
        for part in (self.obs, self.actions, self.rewards, self.next_obs, self.terminated, self.next_masks):
            if isinstance(part, dict):
                found += part.values()
            elif part is not None:
                found.append(part)
        return found

    def fits(self, other: ReplayBatch) -> bool:
        """Return True if it has the shapes of `other`, so that it can be copied into its memory."""
        return [part.shape for part in self.tensors()] == [part.shape for part in other.tensors()]

    def fill(self, other: ReplayBatch) -> None:
        """Copy `other`, which fits, into this one's memory."""
        for kept, new in zip(self.tensors(), other.tensors(), strict=True):
            kept.copy_(new)


@dataclass(frozen=True)
class ReplayArrays:
    """The memory of a replay buffer, [capacity, ...]; only the first `size` rows are filled."""

    obs: Array
    next_obs: Array
    actions: Array
    rewards: Array
    terminated: BoolArray
    next_masks: BoolArray | None


class ReplayBuffer:
    """Holds the newest `capacity` transitions. Memory is taken as it fills, not at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self._position = 0
        self._arrays: dict[str, Array] = {}
        self._drawn: Array = np.zeros(0, dtype=np.int64)

    def add(self, transitions: Transitions) -> None:
        fields = _flatten(transitions)
        if not self._arrays:
            self._allocate({name: (array.shape[1:], array.dtype) for name, array in fields.items()})
        count = len(transitions.rewards)
        end = self._position + count
        where: Any = slice(self._position, end)
        if end > self.capacity:
            where = (self._position + np.arange(count)) % self.capacity
        masks = fields.get("next_masks")
        if masks is not None and "next_masks" not in self._arrays:  # the first mask came late: all was legal
            self._arrays["next_masks"] = np.ones((self.capacity, *masks.shape[1:]), dtype=bool)
        for name, array in self._arrays.items():
            array[where] = fields.get(name, True)
        self._position = end % self.capacity
        self.size = min(self.size + count, self.capacity)

    def draw(self, size: int | tuple[int, int], rng: np.random.Generator) -> Array:
        """Indices of transitions, uniformly and with replacement."""
        self._drawn = rng.integers(0, self.size, size=size)
        return self._drawn

    def drawn(self) -> dict[str, Array]:
        """The transitions of the last `draw`, and their indices."""
        return {"indices": self._drawn} | {name: array[self._drawn] for name, array in self._arrays.items()}

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        policy: Policy,
        reward_normalizer: RewardNormalizer | None,
    ) -> ReplayBatch:
        """`n` transitions drawn uniformly with replacement."""
        chosen = self.draw(n, rng)
        picked = {name: array[chosen] for name, array in self._arrays.items()}
        rewards = picked["rewards"]
        if reward_normalizer is not None:
            rewards = reward_normalizer.scale(rewards)
        device = policy.device
        masks = picked.get("next_masks")
        return ReplayBatch(
            obs=policy.prepare(_unflatten(picked, "obs")),
            actions=torch.as_tensor(picked["actions"], device=device),
            rewards=torch.as_tensor(rewards, dtype=torch.float32, device=device),
            next_obs=policy.prepare(_unflatten(picked, "next_obs")),
            terminated=torch.as_tensor(picked["terminated"], device=device),
            next_masks=None if masks is None else torch.as_tensor(masks, device=device),
        )

    def arrays(self) -> ReplayArrays:
        """The buffer's own memory, for kernels that sample by themselves; plain observations only."""
        return _as_arrays(self._arrays, np.asarray)

    def encoded(self, chosen: Array, encode: Callable[[Observation], Array]) -> ReplayArrays:
        """Copies of the transitions `chosen`, with observations as rows that `encode` makes of them."""
        return _as_arrays({name: array[chosen] for name, array in self._arrays.items()}, encode)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the filled part of the buffer, and the position of the next write."""
        stored = {name: torch.from_numpy(array[: self.size]) for name, array in self._arrays.items()}
        return {**stored, "position": torch.tensor(self._position)}

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        stored = {name: tensor.numpy() for name, tensor in tensors.items() if name != "position"}
        self._position = int(tensors["position"])
        self.size = len(stored["rewards"]) if stored else 0
        self._allocate({name: (array.shape[1:], array.dtype) for name, array in stored.items()})
        for name, array in stored.items():
            self._arrays[name][: self.size] = array

    def _allocate(self, layout: dict[str, tuple[tuple[int, ...], Any]]) -> None:
        self._arrays = {
            name: np.zeros((self.capacity, *shape), dtype=dtype) for name, (shape, dtype) in layout.items()
        }


def _flatten(transitions: Transitions) -> dict[str, Array]:
    fields: dict[str, Array] = {
        "actions": transitions.actions,
        "rewards": transitions.rewards.astype(np.float32),
        "terminated": transitions.terminated,
    }
    if transitions.next_masks is not None:
        fields["next_masks"] = transitions.next_masks
    for name, obs in (("obs", transitions.obs), ("next_obs", transitions.next_obs)):
        if isinstance(obs, dict):
            fields |= {f"{name}/{key}": _compact(value) for key, value in obs.items()}
        else:
            fields[name] = _compact(obs)
    return fields


def _as_arrays(fields: dict[str, Array], encode: Callable[[Any], Array]) -> ReplayArrays:
    return ReplayArrays(
        obs=encode(_unflatten(fields, "obs")),
        next_obs=encode(_unflatten(fields, "next_obs")),
        actions=fields["actions"],
        rewards=fields["rewards"],
        terminated=fields["terminated"],
        next_masks=fields.get("next_masks"),
    )


def space_bytes(space: spaces.Space[Any]) -> int:
    """Return the bytes that one element of `space` takes in a buffer."""
    if isinstance(space, spaces.Dict):
        return sum(map(space_bytes, space.spaces.values()))
    kind = np.dtype(space.dtype or np.int64)
    each = 4 if kind == np.float64 else kind.itemsize
    return math.prod(space.shape or ()) * each


def _compact(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _unflatten(fields: dict[str, Array], name: str) -> Observation:
    if name in fields:
        return fields[name]
    prefix = f"{name}/"
    return {key[len(prefix) :]: value for key, value in fields.items() if key.startswith(prefix)}
