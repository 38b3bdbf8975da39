"""Keys and values of the tokens so far, and attention of new tokens to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ludus.language.models.segments import Bucket, buckets_of
from ludus.language.models.shape import Shape
from ludus.language.models.slots import BLOCK, Place

_FEW = 8
"""New tokens of a row up to which a CPU takes them one by one."""
_MOST_SCORES = 1 << 27
"""Queries times keys that one masked attention on a GPU may span."""


class KeyValues:
    """Room for `slots` sequences of `capacity` tokens: k and v [layers, slots, kv_heads, capacity, head_dim].

    On a CPU they are float32, whatever the model: the loops there read nothing else. `zeroed` is for attention with
    masks, which multiplies what it does not see by zero: it must be a number then. Otherwise memory that is never
    used is never taken.
    """

    def __init__(
        self,
        shape: Shape,
        slots: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        zeroed: bool,
    ) -> None:
        size = (shape.layers, slots, shape.kv_heads, capacity, shape.head_dim)
        dtype = torch.float32 if device.type == "cpu" else dtype
        make = torch.zeros if zeroed else torch.empty
        self.k, self.v = (make(size, dtype=dtype, device=device) for _ in range(2))
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


@dataclass
class NewTokens:
    """Flat tokens, with the slot and position of each; those of a row stand side by side, in order."""

    slots: Tensor
    positions: Tensor
    counts: list[int]
    """Number of tokens in each row."""
    ends: list[int]
    """Tokens in each row's slot, these included."""
    row_slots: list[int]
    _parts: list[_Part] | None = None
    _buckets: list[tuple[Bucket, Tensor]] | None = None

    def attend(self, cache: KeyValues, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write k and v [N, kv_heads, d] into the cache; q [N, heads, d] attends to all of its row up to itself."""
        keys, values = cache.k[layer], cache.v[layer]
        keys[self.slots, :, self.positions] = k.to(keys.dtype)
        values[self.slots, :, self.positions] = v.to(values.dtype)
        if q.device.type != "cpu":
            return self.attend_to_cache(keys, values, q)
        if self.counts == self.ends:
            return self._causal(q, k, v)
        if len(q) <= _FEW * len(self.counts):
            from ludus.language.models.row_attention import (
                token_by_token,
            )  # numba, which a GPU does without

            return token_by_token(keys, values, q, self.slots, self.positions)
        return self._row_by_row(keys, values, q)

    def _causal(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Rows that begin here: their own keys and values are all there is."""
        if self._buckets is None:
            self._buckets = self._by_length(q.device)  # the same in every layer
        if len(self._buckets) == 1:
            return self._buckets[0][0].attend(q, k, v)
        out = torch.empty_like(q)
        for bucket, tokens in self._buckets:
            out[tokens] = bucket.attend(q[tokens], k[tokens], v[tokens])
        return out

    def _by_length(self, device: torch.device) -> list[tuple[Bucket, Tensor]]:
        """Buckets of rows of similar length, each with the places of its tokens among the flat ones."""
        stops = np.cumsum(self.counts)
        found = []
        for group in buckets_of(self.counts):
            tokens = np.concatenate([np.arange(stops[i] - self.counts[i], stops[i]) for i in group])
            found.append(
                (Bucket.of([self.counts[i] for i in group], device), torch.from_numpy(tokens).to(device))
            )
        return found

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

    def attend_to_cache(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        """All rows at once, padded to the longest, over keys and values that are in the cache already."""
        group = q.shape[1] // keys.shape[1]
        if self._parts is None:
            self._parts = self._lay_out(group, keys.shape[2], q.device)  # the same in every layer
        found = [part.attend(keys, values, q) for part in self._parts]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _lay_out(self, group: int, capacity: int, device: torch.device) -> list[_Part]:
        width, reach = max(self.counts), max(self.ends)
        fresh = self.counts == self.ends
        reach = width if fresh else min(-(-reach // 16) * 16, capacity)  # kernels want masks of even widths
        at_once = max(_MOST_SCORES // (group * width * reach), 1)
        parts, start = [], 0
        for first in range(0, len(self.counts), at_once):
            counts = self.counts[first : first + at_once]
            total = sum(counts)
            index = _side_by_side(counts, width, device)
            slots = torch.tensor(self.row_slots[first : first + at_once], device=device)
            mask = None
            if not fresh:
                places = self.positions.new_zeros(len(counts) * width)
                places[index] = self.positions[start : start + total]
                columns = torch.arange(reach, device=device)
                mask = (columns <= places.view(-1, 1, width, 1)).repeat(1, 1, group, 1)
            parts.append(_Part(slice(start, start + total), slots, index, width, reach, mask))
            start += total
        return parts


@dataclass(frozen=True)
class _Part:
    """Rows that attend at once: which flat tokens they have, where these lie when padded, and what they see."""

    tokens: slice
    slots: Tensor
    index: Tensor
    width: int
    reach: int
    mask: Tensor | None
    """None: the rows begin here, so that a causal mask will do."""

    def attend(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        rows, width, kv_heads, dim = len(self.slots), self.width, keys.shape[1], keys.shape[3]
        group = q.shape[1] // kv_heads
        room = q.new_zeros(rows * width, *q.shape[1:])
        room[self.index] = q[self.tokens]
        mine, theirs = keys[self.slots, :, : self.reach], values[self.slots, :, : self.reach]
        if self.mask is None:
            laid_out = room.view(rows, width, -1, dim).transpose(1, 2)
            out = F.scaled_dot_product_attention(laid_out, mine, theirs, is_causal=True, enable_gqa=group > 1)
            return out.transpose(1, 2).reshape(-1, *q.shape[1:])[self.index]
        # heads that share keys lie behind one another as queries: not every masked kernel knows groups
        laid_out = (
            room.view(rows, width, kv_heads, group, dim)
            .permute(0, 2, 3, 1, 4)
            .reshape(rows, kv_heads, -1, dim)
        )
        out = F.scaled_dot_product_attention(laid_out, mine, theirs, attn_mask=self.mask)
        out = out.view(rows, kv_heads, group, width, dim).permute(0, 3, 1, 2, 4)
        return out.reshape(-1, *q.shape[1:])[self.index]


def _side_by_side(counts: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return the positions of the flat tokens of rows after padding each row to `width`."""
    flat = np.concatenate([row * width + np.arange(count) for row, count in enumerate(counts)])
    return torch.from_numpy(flat).to(device)
