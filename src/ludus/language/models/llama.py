"""The forward pass of Llama and similar models (SmolLM, Mistral, Qwen 2 and 3), and of `tiny`.

Ludus has its own implementation because it needs: sequences packed into rows, one product for layers that share their
input, adapters that are not merged, several adapters in one batch, and a cache of keys and values that the sampler
manages. Logits equal those of transformers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as compute_twice

from ludus.algorithms.peers import Shard
from ludus.language.models.low_rank import Layer, LowRank
from ludus.language.models.model import LanguageModel
from ludus.language.models.precise_head import logits
from ludus.language.models.segments import Packing
from ludus.language.models.shape import Shape
from ludus.language.models.tokenizer import Tokenizer

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [N, heads, d], k and v [N, kv_heads, d]) to [N, heads, d]; keys and queries carry their positions."""


class Block(nn.Module):
    """The weights of one layer. `qkv` and `gate_up` are several matrices, stacked by rows."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden, head = shape.hidden, shape.head_dim
        self.input_norm = nn.Parameter(torch.ones(hidden))
        self.qkv = nn.Parameter(torch.empty(sum(shape.qkv_widths), hidden))
        self.qkv_bias = nn.Parameter(torch.zeros(sum(shape.qkv_widths))) if shape.qkv_bias else None
        self.q_norm = nn.Parameter(torch.ones(head)) if shape.qk_norm else None
        self.k_norm = nn.Parameter(torch.ones(head)) if shape.qk_norm else None
        self.o = nn.Parameter(torch.empty(hidden, shape.qkv_widths[0]))
        self.mlp_norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = nn.Parameter(torch.empty(2 * shape.intermediate, hidden))
        self.down = nn.Parameter(torch.empty(hidden, shape.intermediate))

    def forward(self, compute: Callable[..., Tensor], *arguments: Any, **named: Any) -> Tensor:
        """Call `compute` with these weights. Sharded weights are gathered by this call."""
        return compute(*arguments, **named)


class Weights(nn.Module):
    """All weights of one model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self.lm_head = None if shape.tied else nn.Parameter(torch.empty(shape.vocab, shape.hidden))

    def forward(self, compute: Callable[..., Tensor], *arguments: Any, **named: Any) -> Tensor:
        """Like that of a block. Weights outside blocks stay gathered until the backward pass is over."""
        return compute(*arguments, **named)

    def block(self, layer: int) -> Block:
        block = self.blocks[layer]
        assert isinstance(block, Block)
        return block

    @property
    def head(self) -> Tensor:
        return self.embed if self.lm_head is None else self.lm_head

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None) -> None:
        """Return random weights as in GPT-2: weights into the residual stream are scaled by the number of layers."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                narrow = name.endswith((".o", ".down"))
                weight.normal_(
                    0.0, 0.02 / (2 * len(self.blocks)) ** 0.5 if narrow else 0.02, generator=generator
                )


@dataclass(frozen=True)
class Stretch:
    """Flat tokens `start` to `stop` use `weights`, with `low_rank` added."""

    weights: Weights
    low_rank: LowRank | None
    start: int
    stop: int


class LlamaModel(LanguageModel):
    """A model of this module. Base weights are frozen."""

    def __init__(self, shape: Shape, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer, shape.context)
        self.shape = shape
        self.base = Weights(shape).requires_grad_(False)
        q, k, _ = shape.qkv_widths
        self._splits = {
            "qkv": ((0, q, q + k), shape.qkv_widths),
            "o": ((0,), (shape.hidden,)),
            "gate_up": ((0, shape.intermediate), (shape.intermediate,) * 2),
            "down": ((0,), (shape.hidden,)),
        }
        # always float32: to change the weights' dtype, call `model.base.to(dtype)`, not `model.to(dtype)`
        self.register_buffer("frequencies", shape.frequencies(), persistent=False)

    @property
    def width(self) -> int:
        return self.shape.hidden

    @property
    def dtype(self) -> torch.dtype:
        return self.base.embed.dtype

    @property
    def device(self) -> torch.device:
        return self.base.embed.device

    def products(self) -> dict[str, list[Layer]]:
        s = self.shape
        q, k, v = s.qkv_widths
        found = {}
        for i in range(s.layers):
            stem = f"model.layers.{i}"
            found[f"{i}.qkv"] = [
                Layer(f"{stem}.self_attn.q_proj", s.hidden, q, 0),
                Layer(f"{stem}.self_attn.k_proj", s.hidden, k, q),
                Layer(f"{stem}.self_attn.v_proj", s.hidden, v, q + k),
            ]
            found[f"{i}.o"] = [Layer(f"{stem}.self_attn.o_proj", q, s.hidden)]
            found[f"{i}.gate_up"] = [
                Layer(f"{stem}.mlp.gate_proj", s.hidden, s.intermediate, 0),
                Layer(f"{stem}.mlp.up_proj", s.hidden, s.intermediate, s.intermediate),
            ]
            found[f"{i}.down"] = [Layer(f"{stem}.mlp.down_proj", s.intermediate, s.hidden)]
        return found

    def _whole_copy(self) -> nn.Module:
        if self._shard is not None:  # each process has a part of the base only: the caller loads the weights
            empty = Weights(self.shape).to(device=self.device, dtype=self.dtype)
            self._shard(list(empty.blocks), empty)
            return empty
        return copy.deepcopy(self.base).requires_grad_(True)

    def shard(self, by: Shard) -> None:
        copies = [one for one in self._adapters.values() if isinstance(one, Weights)]
        for weights in (self.base, *copies):
            by(list(weights.blocks), weights)
        self._shard = by

    def stretch(self, adapter: str | None, start: int, stop: int) -> Stretch:
        """Return the stretch for flat tokens `start` to `stop` with this adapter."""
        module = None if adapter is None else self.adapter(adapter)
        if isinstance(module, Weights):
            return Stretch(module, None, start, stop)
        return Stretch(self.base, module if isinstance(module, LowRank) else None, start, stop)

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        adapter: str | None,
        checkpoint: bool = False,
    ) -> Tensor:
        packing = Packing.of(segments)
        stretch = self.stretch(adapter, 0, len(packing.tokens))
        flat: Tensor = stretch.weights(
            self.run,
            tokens.flatten()[packing.tokens],
            positions.flatten()[packing.tokens],
            [stretch],
            lambda layer, q, k, v: packing.attend(q, k, v),
            checkpoint=checkpoint,
        )
        if len(flat) == tokens.numel() and len(packing.buckets) == 1:  # in reading order already
            return flat.view(*tokens.shape, self.width)
        room = flat.new_zeros(tokens.numel(), flat.shape[1])
        return room.index_copy(0, packing.tokens, flat).view(*tokens.shape, self.width)

    def head(self, hidden: Tensor, *, adapter: str | None) -> Tensor:
        return logits(hidden, self.stretch(adapter, 0, 0).weights.head)

    def run(
        self,
        tokens: Tensor,
        positions: Tensor,
        stretches: Sequence[Stretch],
        attend: Attend,
        *,
        checkpoint: bool = False,
    ) -> Tensor:
        """Return the last hidden states [N, D] of flat tokens [N], which the stretches cover in order.

        More than one stretch is for inference only.
        """
        x = _rows([F.embedding(tokens[s.start : s.stop], s.weights.embed) for s in stretches])
        turned = positions.float()[:, None] * self.frequencies  # type: ignore[operator]  # a buffer
        turn = turned.cos()[:, None], turned.sin()[:, None]
        for layer in range(self.shape.layers):
            block = stretches[0].weights.block(layer)
            if checkpoint and torch.is_grad_enabled():
                x = block(compute_twice, self._layer, layer, x, turn, stretches, attend, use_reentrant=False)
            else:
                x = block(self._layer, layer, x, turn, stretches, attend)
        return self._norm(x, [s.weights.norm for s in stretches], stretches)

    def _layer(
        self,
        layer: int,
        x: Tensor,
        turn: tuple[Tensor, Tensor],
        stretches: Sequence[Stretch],
        attend: Attend,
    ) -> Tensor:
        s, blocks = self.shape, [stretch.weights.block(layer) for stretch in stretches]
        normed = self._norm(x, [block.input_norm for block in blocks], stretches)
        q, k, v = self._product("qkv", layer, normed, stretches)
        q, k, v = (part.reshape(len(part), part.shape[1] // s.head_dim, s.head_dim) for part in (q, k, v))
        if s.qk_norm:
            q = self._norm(q, [block.q_norm for block in blocks], stretches)
            k = self._norm(k, [block.k_norm for block in blocks], stretches)
        mixed = attend(layer, rotate(q, *turn), rotate(k, *turn), v).flatten(1)
        x = x + self._product("o", layer, mixed, stretches)[0]
        normed = self._norm(x, [block.mlp_norm for block in blocks], stretches)
        gate, up = self._product("gate_up", layer, normed, stretches)
        return x + self._product("down", layer, F.silu(gate) * up, stretches)[0]

    def _norm(self, x: Tensor, weights: Sequence[Tensor | None], stretches: Sequence[Stretch]) -> Tensor:
        if all(weight is weights[0] for weight in weights):
            return F.rms_norm(x, x.shape[-1:], weights[0], self.shape.norm_eps)
        parts = zip(weights, stretches, strict=True)
        return _rows(
            [F.rms_norm(x[s.start : s.stop], x.shape[-1:], w, self.shape.norm_eps) for w, s in parts]
        )

    def _product(self, name: str, layer: int, x: Tensor, stretches: Sequence[Stretch]) -> Sequence[Tensor]:
        """Return the outputs of the product's layers, one tensor each."""
        offsets, widths = self._splits[name]
        blocks = [stretch.weights.block(layer) for stretch in stretches]
        if all(block is blocks[0] for block in blocks):
            y = F.linear(x, getattr(blocks[0], name), blocks[0].qkv_bias if name == "qkv" else None)
        else:
            y = _rows(
                [
                    F.linear(
                        x[s.start : s.stop], getattr(block, name), block.qkv_bias if name == "qkv" else None
                    )
                    for s, block in zip(stretches, blocks, strict=True)
                ]
            )
        adapters = [stretch.low_rank for stretch in stretches]
        pairs = [None if adapter is None else adapter.product(f"{layer}.{name}") for adapter in adapters]
        if len(pairs) == 1 and torch.is_grad_enabled():
            parts = list(torch.split(y, list(widths), dim=1))
            return pairs[0].add_to(x, parts, offsets) if pairs[0] is not None else parts
        for s, pair in zip(stretches, pairs, strict=True):
            if pair is not None:
                pair.add_in_place(x[s.start : s.stop], y[s.start : s.stop])
        return torch.split(y, list(widths), dim=1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of heads x [N, heads, d]: pairs (i, i + d/2) rotated by angles [N, 1, d/2], in float32."""
    one, two = x.float().chunk(2, dim=-1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1).to(x.dtype)


def _rows(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
