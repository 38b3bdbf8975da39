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

_MAX_TOKENS_ONE_BY_ONE = 8
"""Maximum mean number of new tokens per row for which a CPU computes attention token by token."""
_MAX_SCORES = 1 << 27
"""Maximum number of queries times keys in one masked attention on a GPU."""


class KeyValues:
    """Cache for `slots` sequences of `capacity` tokens: k and v [layers, slots, kv_heads, capacity, head_dim].

    On a CPU they are always float32, the only type that the CPU loops read. `zeroed` is for masked attention: it
    multiplies masked values by zero, so they must not be NaN. Without `zeroed`, memory that is never used is never
    allocated by the operating system.
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
        """Copy the tokens that each place keeps from its source slot into its own slot."""
        to_copy = [place for place in places if place.source is not None and place.kept]
        if not to_copy:
            return
        blocks = [(p.source, p.slot, i) for p in to_copy for i in range(p.kept // BLOCK)]
        source, target, block = (
            torch.tensor(column, device=self.k.device) for column in zip(*blocks, strict=True)
        )
        for part in (self.k, self.v):
            layers, slots, heads, _, dim = part.shape
            blocked = part.view(layers, slots, heads, self.capacity // BLOCK, BLOCK, dim)
            for layer in blocked:  # one layer at a time: the temporary copy stays small
                layer[target, :, block] = layer[source, :, block]


@dataclass
class NewTokens:
    """Flat tokens with the slot and position of each. The tokens of a row are adjacent and in order."""

    slots: Tensor
    positions: Tensor
    counts: list[int]
    """Number of tokens in each row."""
    ends: list[int]
    """Number of tokens in each row's slot, including these."""
    row_slots: list[int]
    _parts: list[_Part] | None = None
    _buckets: list[tuple[Bucket, Tensor]] | None = None

    def attend(self, cache: KeyValues, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write k and v [N, kv_heads, d] into the cache; q [N, heads, d] attends to its row up to itself."""
        keys, values = cache.k[layer], cache.v[layer]
        keys[self.slots, :, self.positions] = k.to(keys.dtype)
        values[self.slots, :, self.positions] = v.to(values.dtype)
        if q.device.type != "cpu":
            return self.attend_to_cache(keys, values, q)
        if self.counts == self.ends:
            return self._causal(q, k, v)
        if len(q) <= _MAX_TOKENS_ONE_BY_ONE * len(self.counts):
            # imports numba, which is not needed on a GPU
            from ludus.language.models.row_attention import token_by_token

            return token_by_token(keys, values, q, self.slots, self.positions)
        return self._row_by_row(keys, values, q)

    def _causal(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute attention of rows without earlier tokens: only their new keys and values matter."""
        if self._buckets is None:
            self._buckets = self._by_length(q.device)  # the same in every layer
        if len(self._buckets) == 1:
            return self._buckets[0][0].attend(q, k, v)
        out = torch.empty_like(q)
        for bucket, tokens in self._buckets:
            out[tokens] = bucket.attend(q[tokens], k[tokens], v[tokens])
        return out

    def _by_length(self, device: torch.device) -> list[tuple[Bucket, Tensor]]:
        """Return buckets of rows of similar length, each with the indices of its flat tokens."""
        stops = np.cumsum(self.counts)
        buckets = []
        for group in buckets_of(self.counts):
            tokens = np.concatenate([np.arange(stops[i] - self.counts[i], stops[i]) for i in group])
            buckets.append(
                (Bucket.of([self.counts[i] for i in group], device), torch.from_numpy(tokens).to(device))
            )
        return buckets

    def _row_by_row(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        outputs, start = [], 0
        for slot, count, end in zip(self.row_slots, self.counts, self.ends, strict=True):
            row_q = q[start : start + count].float().transpose(0, 1)[None]
            past = end - count
            mask = None
            if past and count > 1:
                mask = torch.ones(count, end, dtype=torch.bool).tril(past)
            out = F.scaled_dot_product_attention(
                row_q,
                keys[slot, :, :end][None],
                values[slot, :, :end][None],
                attn_mask=mask,
                is_causal=past == 0,
                enable_gqa=True,
            )
            outputs.append(out[0].transpose(0, 1))
            start += count
        return torch.cat(outputs).to(q.dtype)

    def attend_to_cache(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        """Compute attention of all rows at once, padded to the longest, over keys and values in the cache."""
        group = q.shape[1] // keys.shape[1]
        if self._parts is None:
            self._parts = self._make_parts(group, keys.shape[2], q.device)  # the same in every layer
        outputs = [part.attend(keys, values, q) for part in self._parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _make_parts(self, group: int, capacity: int, device: torch.device) -> list[_Part]:
        width, n_keys = max(self.counts), max(self.ends)
        fresh = self.counts == self.ends
        n_keys = (
            width if fresh else min(-(-n_keys // 16) * 16, capacity)
        )  # kernels need mask widths that are multiples of 16
        at_once = max(_MAX_SCORES // (group * width * n_keys), 1)
        parts, start = [], 0
        for first in range(0, len(self.counts), at_once):
            counts = self.counts[first : first + at_once]
            total = sum(counts)
            index = _padded_positions(counts, width, device)
            slots = torch.tensor(self.row_slots[first : first + at_once], device=device)
            mask = None
            if not fresh:
                positions = self.positions.new_zeros(len(counts) * width)
                positions[index] = self.positions[start : start + total]
                columns = torch.arange(n_keys, device=device)
                mask = (columns <= positions.view(-1, 1, width, 1)).repeat(1, 1, group, 1)
            parts.append(_Part(slice(start, start + total), slots, index, width, n_keys, mask))
            start += total
        return parts


@dataclass(frozen=True)
class _Part:
    """Rows of one attention call: their flat tokens, the positions of these after padding, and the mask."""

    tokens: slice
    slots: Tensor
    index: Tensor
    width: int
    n_keys: int
    mask: Tensor | None
    """None if the rows have no earlier tokens: then a causal mask is enough."""

    def attend(self, keys: Tensor, values: Tensor, q: Tensor) -> Tensor:
        rows, width, kv_heads, dim = len(self.slots), self.width, keys.shape[1], keys.shape[3]
        group = q.shape[1] // kv_heads
        padded = q.new_zeros(rows * width, *q.shape[1:])
        padded[self.index] = q[self.tokens]
        row_keys, row_values = keys[self.slots, :, : self.n_keys], values[self.slots, :, : self.n_keys]
        if self.mask is None:
            queries = padded.view(rows, width, -1, dim).transpose(1, 2)
            out = F.scaled_dot_product_attention(
                queries, row_keys, row_values, is_causal=True, enable_gqa=group > 1
            )
            return out.transpose(1, 2).reshape(-1, *q.shape[1:])[self.index]
        # heads that share keys are stacked along the query axis: not every masked kernel supports groups
        queries = (
            padded.view(rows, width, kv_heads, group, dim)
            .permute(0, 2, 3, 1, 4)
            .reshape(rows, kv_heads, -1, dim)
        )
        out = F.scaled_dot_product_attention(queries, row_keys, row_values, attn_mask=self.mask)
        out = out.view(rows, kv_heads, group, width, dim).permute(0, 3, 1, 2, 4)
        return out.reshape(-1, *q.shape[1:])[self.index]


def _padded_positions(counts: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return the positions of the flat tokens of rows after padding each row to `width`."""
    flat = np.concatenate([row * width + np.arange(count) for row, count in enumerate(counts)])
    return torch.from_numpy(flat).to(device)
