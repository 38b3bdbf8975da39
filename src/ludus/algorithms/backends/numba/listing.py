"""Sparse lists of a rollout: the nonzero numbers of observations and the legal actions, row after row.

`sparse.py` computes with these lists. They are written once for a rollout and read in every pass over it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.inputs import SPARSE
from ludus.types import Array, BoolArray


@njit(cache=True)
def list_nonzero(obs: Any, starts: Any, columns: Any, values: Any) -> None:
    """Write the nonzero numbers of obs [n, d], row after row; those of row i begin at starts[i]."""
    position = 0
    for i in range(len(obs)):
        starts[i] = position
        row = obs[i]
        for k in range(len(row)):
            if row[k] != 0:
                columns[position] = k
                values[position] = row[k]
                position += 1
    starts[len(obs)] = position


@njit(cache=True)
def list_legal(masks: Any, starts: Any, columns: Any) -> None:
    """Write the legal actions of masks [n, a], row after row; a row without legal actions allows all."""
    position = 0
    for i in range(len(masks)):
        starts[i] = position
        row = masks[i]
        for k in range(len(row)):
            if row[k]:
                columns[position] = k
                position += 1
        if position == starts[i]:
            for k in range(len(row)):
                columns[position] = k
                position += 1
    starts[len(masks)] = position


@njit(cache=True)
def count_nonzero(obs: Any) -> int:
    """Return how many numbers of obs [n, d] are not zero."""
    count = 0
    for i in range(len(obs)):
        row = obs[i]
        for k in range(len(row)):
            count += row[k] != 0
    return count


@njit(cache=True)
def count_legal(masks: Any) -> int:
    """Return how many actions `list_legal` will list."""
    count = 0
    for i in range(len(masks)):
        row = masks[i]
        here = 0
        for k in range(len(row)):
            here += row[k]
        count += here if here > 0 else len(row)
    return count


def nonzero_lists(obs: Array) -> tuple[Array, Array, Array] | None:
    """Return the nonzero numbers as lists, as `sparse.py` takes them; None if too many are nonzero."""
    count = count_nonzero(obs)
    if count > SPARSE * obs.size:
        return None
    lists = (np.empty(len(obs) + 1, np.int64), np.empty(count, np.int32), np.empty(count, np.float32))
    list_nonzero(obs, *lists)
    return lists


def legal_lists(masks: BoolArray) -> tuple[Array, Array]:
    """Return the legal actions as lists, as `sparse.py` takes them."""
    legal = (np.empty(len(masks) + 1, np.int64), np.empty(count_legal(masks), np.int32))
    list_legal(masks, *legal)
    return legal
