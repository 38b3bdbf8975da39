"""Sparse lists of a rollout: the nonzero numbers of observations and the legal actions, row after row.

`sparse.py` computes with these lists. They are written once for a rollout and read in every pass over it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ludus.algorithms.backends.numba.inputs import FEW
from ludus.types import Array, BoolArray


@njit(cache=True)
def numbers_there(obs: Any, starts: Any, columns: Any, values: Any) -> None:
    """The numbers of obs [n, d] that are not zero, row after row; those of row i from starts[i] on."""
    place = 0
    for i in range(len(obs)):
        starts[i] = place
        row = obs[i]
        for k in range(len(row)):
            if row[k] != 0:
                columns[place] = k
                values[place] = row[k]
                place += 1
    starts[len(obs)] = place


@njit(cache=True)
def legal_ones(masks: Any, starts: Any, columns: Any) -> None:
    """The legal actions of masks [n, a], row after row; a row without any allows all, as everywhere."""
    place = 0
    for i in range(len(masks)):
        starts[i] = place
        row = masks[i]
        for k in range(len(row)):
            if row[k]:
                columns[place] = k
                place += 1
        if place == starts[i]:
            for k in range(len(row)):
                columns[place] = k
                place += 1
    starts[len(masks)] = place


@njit(cache=True)
def count_numbers(obs: Any) -> int:
    """Return how many numbers of obs [n, d] are not zero."""
    count = 0
    for i in range(len(obs)):
        row = obs[i]
        for k in range(len(row)):
            count += row[k] != 0
    return count


@njit(cache=True)
def count_legal(masks: Any) -> int:
    """Return how many actions `legal_ones` will list."""
    count = 0
    for i in range(len(masks)):
        row = masks[i]
        here = 0
        for k in range(len(row)):
            here += row[k]
        count += here if here > 0 else len(row)
    return count


def listed_numbers(obs: Array) -> tuple[Array, Array, Array] | None:
    """Return the nonzero numbers as lists, as `sparse.py` takes them; None if too many are nonzero."""
    count = count_numbers(obs)
    if count > FEW * obs.size:
        return None
    there = (np.empty(len(obs) + 1, np.int64), np.empty(count, np.int32), np.empty(count, np.float32))
    numbers_there(obs, *there)
    return there


def listed_actions(masks: BoolArray) -> tuple[Array, Array]:
    """Return the legal actions as lists, as `sparse.py` takes them."""
    legal = (np.empty(len(masks) + 1, np.int64), np.empty(count_legal(masks), np.int32))
    legal_ones(masks, *legal)
    return legal
