"""Keys and values of the tokens so far, and attention of new tokens to them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor

from ludus.policies.language.shape import Shape
from ludus.policies.language.slots import BLOCK, Place
from ludus.types import Array

_MOST_SCORES = 1 << 27
"""Queries times keys that one masked attention on a GPU may span."""


class KeyValues:
    """Room for `slots` sequences of `capacity` tokens: k and v [layers, slots, kv_heads, capacity, head_dim].

    On a CPU they are float32, whatever the model: the loops below read nothing else.
    """

    def __init__(
        self, shape: Shape, slots: int, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        size = (shape.layers, slots, shape.kv_heads, capacity, shape.head_dim)
        if device.type == "cpu":
            self.k, self.v = torch.empty(size), torch.empty(size)
        else:  # masked attention multiplies what it does not see by zero, which must be a number then
            self.k, self.v = (torch.zeros(size, dtype=dtype, device=device) for _ in range(2))
        self.slots = slots
        self.capacity = capacity

    def copy(self, places: Sequence[Place]) -> None:
        """Bring what the places keep from their sources into their slots."""
        wanted = [place for place in places if place.source is not None and place.kept]
        if not wanted:
            return
        blocks = [(p.source, p.slot, i) for p in wanted for i in range(p.kept // BLOCK)]
        source, target, block = (
            torch.tensor(column, device=self.k.device) for column in zip(*blocks, strict=True)
        )
        for part in (self.k, self.v):
            layers, slots, heads, _, dim = part.shape
            blocked = part.view(layers, slots, heads, self.capacity // BLOCK, BLOCK, dim)
            for layer in blocked:  # a layer at a time: the copy in between stays small
                layer[target, :, block] = layer[source, :, block]


@dataclass(frozen=True)
class NewTokens:
    """Flat tokens, with the slot and position of each; those of a row stand side by side, in order."""

    slots: Tensor
    positions: Tensor
    counts: list[int]
    """How many each row has."""
    ends: list[int]
    """Tokens in each row's slot, these included."""
    row_slots: list[int]

    def attend(self, cache: KeyValues, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write k and v [N, kv_heads, d] into the cache; q [N, heads, d] attends to all of its row up to itself."""
        keys, values = cache.k[layer], cache.v[layer]
        keys[self.slots, :, self.positions] = k.to(keys.dtype)
        values[self.slots, :, self.positions] = v.to(values.dtype)
        if q.device.type != "cpu":
            return self._masked(keys, values, q)
        if len(q) == len(self.counts):
            return _one_each(keys, values, q, self.slots, self.positions)
        return self._row_by_row(keys, values, q)

    def _row_by_row(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        found, start = [], 0
        for slot, count, end in zip(self.row_slots, self.counts, self.ends, strict=True):
            mine = q[start : start + count].float().transpose(0, 1)[None]
            past = end - count
            mask = None
            if past and count > 1:
                mask = torch.ones(count, end, dtype=torch.bool).tril(past)
            out = F.scaled_dot_product_attention(
                mine,
                keys[slot, :, :end][None],
                values[slot, :, :end][None],
                attn_mask=mask,
                is_causal=past == 0,
                enable_gqa=True,
            )
            found.append(out[0].transpose(0, 1))
            start += count
        return torch.cat(found).to(q.dtype)

    def _masked(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        """All rows at once, padded to the longest; the heads that share keys lie behind one another as queries."""
        kv_heads, dim = keys.shape[1], keys.shape[3]
        group = q.shape[1] // kv_heads
        width, reach = max(self.counts), max(self.ends)
        reach = min(-(-reach // 16) * 16, keys.shape[2])  # attention kernels want masks of even widths
        at_once = max(_MOST_SCORES // (group * width * reach), 1)
        columns = torch.arange(reach, device=q.device)
        found, start = [], 0
        for first in range(0, len(self.counts), at_once):
            counts = self.counts[first : first + at_once]
            rows, total = len(counts), sum(counts)
            index = _side_by_side(counts, width, q.device)
            room = q.new_zeros(rows * width, *q.shape[1:])
            room[index] = q[start : start + total]
            places = self.positions.new_zeros(rows * width)
            places[index] = self.positions[start : start + total]
            seen = columns <= places.view(rows, 1, width, 1)
            queries = (
                room.view(rows, width, kv_heads, group, dim)
                .permute(0, 2, 3, 1, 4)
                .reshape(rows, kv_heads, -1, dim)
            )
            slots = torch.tensor(self.row_slots[first : first + at_once], device=q.device)
            out = F.scaled_dot_product_attention(
                queries,
                keys[slots, :, :reach],
                values[slots, :, :reach],
                attn_mask=seen.repeat(1, 1, group, 1),
            )
            out = out.view(rows, kv_heads, group, width, dim).permute(0, 3, 1, 2, 4)
            found.append(out.reshape(rows * width, kv_heads * group, dim)[index])
            start += total
        return torch.cat(found)


def _side_by_side(counts: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Where the flat tokens of rows lie once each row is padded to `width`."""
    flat = np.concatenate([row * width + np.arange(count) for row, count in enumerate(counts)])
    return torch.from_numpy(flat).to(device)


def _one_each(keys: Tensor, values: Tensor, q: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    """Attention of one token in each row, over exactly the tokens that its slot holds."""
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
    """2 ** x for x <= 0, to the last bit or two; unlike a library's exp, the compiler does eight at a time."""
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
