"""The arrays of one vector step, laid out one after the other in a single block of memory.

Both backends write and read the same layout: in private memory (serial) or in memory that the driver and its
workers map (process). Row `i` of every array belongs to env `i`.

Spaces without rows of a fixed size (Tuple, Text, Graph, Sequence, OneOf, nested Dict, custom spaces) have no arrays
here: their observations and actions travel as Python objects, see `chunk.Entry`.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.types import Array, Observation

_ALIGNMENT = 64  # a cache line, so that no two arrays share one
_PLAIN_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class StepArrays:
    """Actions in; observations, rewards, flags and masks out, for `n_envs` envs.

    `memory` is a writable buffer of at least `batch_nbytes(...)` bytes; None allocates private memory.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        n_envs: int,
        memory: bytearray | mmap.mmap | None = None,
    ) -> None:
        if memory is None:
            memory = bytearray(batch_nbytes(observation_space, action_space, n_envs))
        arrays = {
            name: np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)
            for name, shape, dtype, offset in _layout(observation_space, action_space, n_envs)
        }
        self.obs: Observation = _gathered(arrays, "obs")
        self.final_obs: Observation = _gathered(arrays, "final_obs")
        self.actions: Observation = _gathered(arrays, "actions")
        self.rewards: Array = arrays["rewards"]
        self.terminations: Array = arrays["terminations"]
        self.truncations: Array = arrays["truncations"]
        self.masks: Array = arrays["masks"]
        self.masked: Array = arrays["masked"]  # one flag: whether any env has given an action mask
        self.has_obs = has_rows(observation_space)
        self.has_actions = has_rows(action_space)


def has_rows(space: gym.Space[Any]) -> bool:
    """Return whether values of `space` fit into rows of a fixed size: of one array, or of one per key of a Dict."""
    if isinstance(space, spaces.Dict):
        return all(isinstance(leaf, _PLAIN_SPACES) for leaf in space.values())
    return isinstance(space, _PLAIN_SPACES)


def batch_nbytes(observation_space: gym.Space[Any], action_space: gym.Space[Any], n_envs: int) -> int:
    """Return the size in bytes of a `StepArrays` of these spaces."""
    *_, (_, shape, dtype, offset) = _layout(observation_space, action_space, n_envs)
    return offset + math.prod(shape) * dtype.itemsize


def mask_width(action_space: gym.Space[Any]) -> int:
    """Return the size of an action mask of this space: one entry per choice; 0 for a space without choices."""
    if isinstance(action_space, spaces.Discrete):
        return int(action_space.n)
    if isinstance(action_space, spaces.MultiDiscrete):
        return int(action_space.nvec.sum())
    return 0


def copy_rows(rows: Observation) -> Observation:
    """Return a copy of all rows."""
    if isinstance(rows, dict):
        return {key: array.copy() for key, array in rows.items()}
    return rows.copy()


def copy_row(rows: Observation, index: int) -> Any:
    """Return a copy of one env's row: an array, or a dict of arrays."""
    if isinstance(rows, dict):
        return {key: np.array(array[index]) for key, array in rows.items()}
    return np.array(rows[index])


def _layout(
    observation_space: gym.Space[Any], action_space: gym.Space[Any], n_envs: int
) -> Iterator[tuple[str, tuple[int, ...], np.dtype[Any], int]]:
    """Yield name, shape, dtype and offset of every array; the order is part of the driver-worker protocol."""
    wanted: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = []
    for role, space in (
        ("obs", observation_space),
        ("final_obs", observation_space),
        ("actions", action_space),
    ):
        for key, leaf in _leaves(space).items():
            assert leaf.shape is not None  # holds for every plain space
            wanted.append((role + key, leaf.shape, np.dtype(leaf.dtype)))
    wanted.append(("rewards", (), np.dtype(np.float64)))
    wanted.append(("terminations", (), np.dtype(np.bool_)))
    wanted.append(("truncations", (), np.dtype(np.bool_)))
    wanted.append(("masks", (mask_width(action_space),), np.dtype(np.bool_)))

    offset = 0
    for name, row_shape, dtype in wanted:
        shape = (n_envs, *row_shape)
        yield name, shape, dtype, offset
        size = math.prod(shape) * dtype.itemsize
        offset += math.ceil(size / _ALIGNMENT) * _ALIGNMENT
    yield "masked", (1,), np.dtype(np.bool_), offset


def _leaves(space: gym.Space[Any]) -> dict[str, gym.Space[Any]]:
    """Return the spaces with an array each: `space` under "", or a Dict's entries under "/key"; none without rows."""
    if not has_rows(space):
        return {}
    if isinstance(space, spaces.Dict):
        return {f"/{key}": leaf for key, leaf in space.items()}
    return {"": space}


def _gathered(arrays: dict[str, Array], role: str) -> Observation:
    if role in arrays:
        return arrays[role]
    prefix = f"{role}/"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
