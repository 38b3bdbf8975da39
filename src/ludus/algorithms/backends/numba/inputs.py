"""Observations as the kernels read them: `numbers` (compact) or `rows` (one-hot), in the order of `extractors.flatten`.

An integer of a Discrete or MultiDiscrete space stays one number here; a network sees it one-hot. The kernels make it
one-hot when they read a row, or look up the weights that it selects. A sample is encoded once and stays small, however
many values its integers can have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numba import njit

from ludus.errors import UserError
from ludus.policies.extractors import CombinedExtractor, FlattenExtractor, ObservationTensor, flat_dim
from ludus.policies.observations import ObservationNormalizer, is_byte_space, is_image_space
from ludus.types import Array, Observation

SPARSE = 0.25  # maximum share of nonzero numbers for which looking up weights is faster than a dense product
BLOCK_NUMBERS = 1 << 24  # numbers of dense rows that are allocated at once


class InputRows:
    """Encodes observations of one space.

    `layout` is what the kernels take: the column of each number (of an integer: that of its lowest value) and whether
    it is an integer. Both are empty for a space of plain float numbers.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.width = flat_dim(space)
        self.plain = isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
        """True if observations are rows of floats already."""
        parts = dict(space.items()) if isinstance(space, spaces.Dict) else {"": space}
        self._parts = {key: _Part(part) for key, part in parts.items()}
        self._choices = np.concatenate([part.choices for part in self._parts.values()])
        self._integer = integer = self._choices > 0
        widths = np.where(integer, self._choices, 1)
        self._columns = np.cumsum(widths) - widths
        if integer.any():
            self.layout = (self._columns, integer)
        else:
            self.layout = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
        self.sparse = bool(integer.any()) and len(integer) <= SPARSE * self.width
        """True if most columns are zero in every observation."""

    def numbers(self, obs: Observation) -> Array:
        """Return float32 [n, numbers]; integers count from 0. UserError for an integer outside the space."""
        if isinstance(obs, dict):
            numbers = np.concatenate([part.numbers(obs[key]) for key, part in self._parts.items()], axis=1)
        else:
            numbers = self._parts[""].numbers(obs)
        if len(self.layout[0]):
            self._check(numbers)
        return numbers

    def rows(self, obs: Observation) -> Array:
        """Return float32 [n, width]: what a network sees."""
        numbers = self.numbers(obs)
        if not len(self.layout[0]):
            return numbers
        out = np.zeros((len(numbers), self.width), dtype=np.float32)
        columns, values = self._entries(numbers)
        out[np.arange(len(out))[:, None], columns] = values
        return out

    def blocks(self, obs: Observation) -> Iterator[tuple[slice, Array]]:
        """Yield the `rows` of a large batch in parts that fit into memory, and where they belong."""
        n = batch_size(obs)
        each = max(1, BLOCK_NUMBERS // self.width)
        for start in range(0, n, each):
            part = slice(start, start + each)
            block = {key: value[part] for key, value in obs.items()} if isinstance(obs, dict) else obs[part]
            yield part, self.rows(block)

    def nonzero_entries(self, obs: Observation) -> tuple[Array, Array, Array]:
        """Return the entries of `rows` that may not be zero, as `listing.nonzero_lists` does."""
        columns, values = self._entries(self.numbers(obs))
        n, each = columns.shape
        return np.arange(n + 1) * each, columns.astype(np.int32).reshape(-1), values.reshape(-1)

    def _entries(self, numbers: Array) -> tuple[Array, Array]:
        columns = self._columns + np.where(self._integer, numbers, 0).astype(np.int64)
        return columns, np.where(self._integer, np.float32(1.0), numbers)

    def _check(self, numbers: Array) -> None:
        outside = self._integer & ~((numbers >= 0) & (numbers < self._choices))
        if outside.any():
            row, index = np.argwhere(outside)[0]
            raise UserError(
                f"an observation is outside its space: integer {index} is {numbers[row, index]:.0f} above the lowest "
                f"value of the space, expected 0 to {self._choices[index] - 1}",
                where=f"the env's observation space {self.space}",
                fix="return observations of the space, or correct the space",
            )


class _Part:
    """Encodes a space that is not a Dict.

    `choices` says how many values each number can have; 0 where it is not an integer that is seen one-hot.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._start: Any = None
        self._bytes = is_byte_space(space)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
            self.choices = np.asarray(sizes, dtype=np.int64).reshape(-1)
            self._start = space.start
        else:
            self.choices = np.zeros(math.prod(space.shape or ()), dtype=np.int64)

    def numbers(self, array: Array) -> Array:
        rows = flat_rows(array if self._start is None else array - self._start)
        return rows / np.float32(255.0) if self._bytes else rows


def flat_rows(array: Array) -> Array:
    """Return [n, ...] as contiguous float32 [n, d]."""
    return np.ascontiguousarray(array.reshape(len(array), -1), dtype=np.float32)


def batch_size(obs: Observation) -> int:
    """Return the number of observations in a batch."""
    return len(next(iter(obs.values()))) if isinstance(obs, dict) else len(obs)


def as_arrays(obs: ObservationTensor) -> Observation:
    """Return tensors on the CPU as arrays that share their memory."""
    return {key: part.numpy() for key, part in obs.items()} if isinstance(obs, dict) else obs.numpy()


def uncovered_features(space: spaces.Space[Any], extractor: Any) -> str | None:
    """Return the name of what `InputRows` does not support in `extractor` or `space`; None if it supports all."""
    combined = type(extractor) is CombinedExtractor and not len(extractor.cnns)
    if type(extractor) is not FlattenExtractor and not combined:
        return f"the features extractor {type(extractor).__name__}"
    parts = space.values() if isinstance(space, spaces.Dict) else [space]
    return "images" if any(is_image_space(part) for part in parts) else None


def normalized(obs: Observation, normalizer: ObservationNormalizer | None) -> Observation:
    """Return normalised `obs` without updating the statistics."""
    return obs if normalizer is None else normalizer.normalize(obs)


@njit(cache=True)
def put_row(numbers: Any, columns: Any, integer: Any, out: Any) -> None:
    """Fill one row of a network's inputs from the numbers of one observation and their layout."""
    out[:] = np.float32(0.0)
    for k in range(len(columns)):
        if integer[k]:
            out[columns[k] + np.int64(numbers[k])] = np.float32(1.0)
        else:
            out[columns[k]] = numbers[k]
