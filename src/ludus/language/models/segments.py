"""Sequences packed into rows: where each one lies, and attention within each.

Everything but attention works token by token, so a model runs over one flat list of the tokens that are there. For
attention the sequences are laid side by side, padded at their end, where a causal mask keeps padding out of sight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """The sequences in `segments` [B, T]. Flat means: the tokens that are no padding, in reading order."""

    tokens: Tensor
    """[N]: place of each flat token among the B x T."""
    slots: Tensor
    """[N]: place of each flat token among the `count` x `longest`."""
    count: int
    longest: int

    @classmethod
    def of(cls, segments: Tensor) -> Packing:
        segments = segments.long()
        before = F.pad(segments, (1, 0), value=-1)[:, :-1]
        tokens = (segments != 0).flatten().nonzero().squeeze(1)
        sequence = (segments != before).flatten()[tokens].long().cumsum(0) - 1
        count = int(sequence[-1]) + 1 if len(tokens) else 0
        lengths = torch.bincount(sequence, minlength=count)
        starts = lengths.cumsum(0) - lengths
        index = torch.arange(len(tokens), device=segments.device) - starts[sequence]
        longest = int(lengths.max()) if count else 0
        return cls(tokens, sequence * longest + index, count, longest)

    def side_by_side(self, flat: Tensor) -> Tensor:
        """[N, ...] to [count, longest, ...], zeros at the ends."""
        if len(flat) == self.count * self.longest:
            return flat.view(self.count, self.longest, *flat.shape[1:])
        room = flat.new_zeros(self.count * self.longest, *flat.shape[1:])
        room = room.index_copy(0, self.slots, flat)
        return room.view(self.count, self.longest, *flat.shape[1:])

    def flat(self, laid_out: Tensor) -> Tensor:
        """[count, longest, ...] back to [N, ...]."""
        laid_out = laid_out.flatten(0, 1)
        return laid_out if len(laid_out) == len(self.slots) else laid_out.index_select(0, self.slots)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention within each sequence: q [N, heads, d], k and v [N, kv_heads, d] to [N, heads, d]."""
        q, k, v = (self.side_by_side(part).transpose(1, 2) for part in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.flat(out.transpose(1, 2))
