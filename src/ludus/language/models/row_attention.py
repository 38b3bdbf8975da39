"""Attention on a CPU for rows with few new tokens: over exactly the visible tokens, without padding."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ludus.types import Array


def token_by_token(keys: Tensor, values: Tensor, q: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    """Compute attention of tokens q [N, heads, d], each over the tokens of its slot up to its own position."""
    out = torch.empty(q.shape)
    queries, into = q.float().contiguous().numpy(), out.numpy()
    k, v, rows, ends = keys.numpy(), values.numpy(), slots.numpy(), positions.numpy()
    threads = min(torch.get_num_threads(), len(q))

    def attend(first: int, last: int) -> None:
        _attend_rows(queries, k, v, rows, ends, into, first, last)

    if threads == 1:
        attend(0, len(q))
    else:
        bounds = [len(q) * i // threads for i in range(threads + 1)]
        list(_pool(threads).map(attend, bounds[:-1], bounds[1:]))
    return out.to(q.dtype)


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="ludus-attention")
    return _pools[threads]


_LOG2_E = float(np.log2(np.e))
_HALVES = np.array([2.0**-n for n in range(128)], dtype=np.float32)
_fast = {"contract", "reassoc", "nsz", "nnan", "ninf"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_fast, inline="always")
def _two_to(x: float) -> float:
    """Return 2 ** x for x <= 0, exact to the last bit or two. Unlike a library's exp, it is vectorised."""
    x = x if x > np.float32(-126.0) else np.float32(-126.0)  # type: ignore[assignment]
    whole = np.int32(x - np.float32(0.5))
    part = x - np.float32(whole)
    found = np.float32(1.5403530e-4)
    found = found * part + np.float32(1.3333558e-3)
    found = found * part + np.float32(9.6181291e-3)
    found = found * part + np.float32(5.5504109e-2)
    found = found * part + np.float32(2.4022651e-1)
    found = found * part + np.float32(6.9314718e-1)
    found = found * part + np.float32(1.0)
    return found * _HALVES[-whole]  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_fast)
def _attend_rows(
    q: Array,
    keys: Array,
    values: Array,
    slots: Array,
    positions: Array,
    out: Array,
    first: int,
    last: int,
) -> None:
    heads, dim = q.shape[1], q.shape[2]
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    scale = np.float32(_LOG2_E / np.sqrt(dim))
    scores = np.empty((group, keys.shape[2]), dtype=np.float32)
    mixed = np.empty((group, dim), dtype=np.float32)
    for row in range(first, last):
        n = positions[row] + 1
        for kv in range(kv_heads):
            my_keys, my_values = keys[slots[row], kv], values[slots[row], kv]
            for t in range(n):
                for g in range(group):
                    query = q[row, kv * group + g]
                    dot = np.float32(0.0)
                    for i in range(dim):
                        dot += query[i] * my_keys[t, i]
                    scores[g, t] = dot * scale
            for g in range(group):
                highest = scores[g, 0]
                for t in range(1, n):
                    highest = max(highest, scores[g, t])
                total = np.float32(0.0)
                for t in range(n):
                    power = _two_to(scores[g, t] - highest)
                    scores[g, t] = power
                    total += power
                share = np.float32(1.0) / total
                for t in range(n):
                    scores[g, t] *= share
            mixed[:] = np.float32(0.0)
            for t in range(n):
                for g in range(group):
                    weight = scores[g, t]
                    for i in range(dim):
                        mixed[g, i] += weight * my_values[t, i]
            for g in range(group):
                out[row, kv * group + g] = mixed[g]
