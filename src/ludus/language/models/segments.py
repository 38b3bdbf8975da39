"""Sequences packed into rows: their positions, and attention within each.

All operations except attention work on single tokens, so a model computes one flat list of tokens without padding. For
attention, sequences of similar length form a bucket and are padded at the end, where a causal mask hides the padding.
One long sequence does not lengthen many short ones: at most 1 / 8 of a bucket is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

MAX_PADDING = 1 / 8
"""Maximum share of padding in a bucket."""


@dataclass(frozen=True)
class Bucket:
    """`count` consecutive sequences of similar length, to be padded to the `longest`."""

    slots: Tensor
    """[n]: index of each of their tokens among the `count` x `longest`."""
    count: int
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Bucket:
        longest = max(lengths)
        slots = [row * longest + np.arange(length) for row, length in enumerate(lengths)]
        return cls(torch.from_numpy(np.concatenate(slots)).to(device), len(lengths), longest)

    def side_by_side(self, flat: Tensor) -> Tensor:
        """[n, ...] to [count, longest, ...], zeros at the ends."""
        if len(flat) == self.count * self.longest:
            return flat.view(self.count, self.longest, *flat.shape[1:])
        room = flat.new_zeros(self.count * self.longest, *flat.shape[1:])
        room = room.index_copy(0, self.slots, flat)
        return room.view(self.count, self.longest, *flat.shape[1:])

    def flat(self, laid_out: Tensor) -> Tensor:
        """[count, longest, ...] back to [n, ...]."""
        laid_out = laid_out.flatten(0, 1)
        return laid_out if len(laid_out) == len(self.slots) else laid_out.index_select(0, self.slots)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention within each: q [n, heads, d], k and v [n, kv_heads, d] to [n, heads, d]."""
        q, k, v = (self.side_by_side(part).transpose(1, 2) for part in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.flat(out.transpose(1, 2))


@dataclass(frozen=True)
class Packing:
    """The sequences in `segments` [B, T]. Flat tokens are all tokens except padding, bucket after bucket."""

    tokens: Tensor
    """[N]: index of each flat token among the B x T."""
    buckets: tuple[Bucket, ...]

    @classmethod
    def of(cls, segments: Tensor) -> Packing:
        numbers = segments.cpu().numpy()
        before = np.pad(numbers, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        places = (numbers != 0).flatten().nonzero()[0]
        begins = (numbers != before).flatten()[places].nonzero()[0]
        sequences = np.split(places, begins[1:]) if len(places) else []
        groups = buckets_of([len(sequence) for sequence in sequences])
        order = [sequences[i] for group in groups for i in group]
        buckets = (Bucket.of([len(sequences[i]) for i in group], segments.device) for group in groups)
        return cls(
            torch.from_numpy(np.concatenate(order) if order else places).to(segments.device), tuple(buckets)
        )

    @property
    def padded(self) -> int:
        """Return the number of tokens with the padding of the buckets."""
        return sum(bucket.count * bucket.longest for bucket in self.buckets)

    def split(self, flat: Tensor) -> Sequence[Tensor]:
        """[N, ...] by bucket."""
        return torch.split(flat, [len(bucket.slots) for bucket in self.buckets]) if self.buckets else ()

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention within each sequence: q [N, heads, d], k and v [N, kv_heads, d] to [N, heads, d]."""
        parts = zip(self.buckets, *(self.split(part) for part in (q, k, v)), strict=True)
        found = [bucket.attend(*part) for bucket, *part in parts]
        return torch.cat(found) if found else q


def buckets_of(lengths: Sequence[int], most_padding: float = MAX_PADDING) -> list[list[int]]:
    """Return indices of sequences in groups of similar `lengths`, longest first; within a group they are in order.

    Padded to the longest of its group, at most `most_padding` of a group is padding.
    """
    groups: list[list[int]] = []
    tokens = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        tokens += lengths[i]
        if groups and tokens >= (1 - most_padding) * (len(groups[-1]) + 1) * lengths[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
            tokens = lengths[i]
    return [sorted(group) for group in groups]
