"""Decoding on a GPU: a step for many rows recorded as one CUDA graph, and replayed until all rows have finished.

A recorded step works on fixed memory. It contains copies of the weights: each matrix has the A matrices of all adapters
in the batch below it, so that adapters need no separate product. Changed weights are copied again. The state of a row
(last token, position, finished) is updated within the step: the host only checks, one step later, whether any row
continues.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ludus.config.language import SamplerConfig
from ludus.language.models.attention import KeyValues
from ludus.language.models.decoding import Decoder, RowPart, weights_state
from ludus.language.models.llama import Block, LlamaModel, Weights
from ludus.language.models.low_rank import LowRank
from ludus.language.models.precise_head import logits as precise_logits
from ludus.language.models.rows import Row
from ludus.language.models.sampling import Drawn, draw
from ludus.language.models.shape import Shape
from ludus.language.models.slots import Place

_log = logging.getLogger("ludus.language")
_MAX_ADAPTERS = 16
"""Maximum number of adapters in one batch; more are decoded group by group."""
_PARTS = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "o": ("o_proj",),
    "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}


def can_capture(model: LlamaModel) -> bool:
    """Return True if the kernels support this device and these sizes."""
    if model.device.type != "cuda" or model.shape.head_dim not in (32, 64, 128, 256):
        return False
    if importlib.util.find_spec("triton") is None:
        _log.warning("decoding is not captured as CUDA graphs, so slower: Triton is not installed")
        return False
    return True


class FixedWeights:
    """Copies of a model's weights at fixed addresses, with memory for `slots` adapters of `rank`."""

    def __init__(self, like: Weights, shape: Shape, slots: int, rank: int) -> None:
        self.slots, self.rank = slots, rank
        new = like.embed.new_zeros
        self.embed = torch.empty_like(like.embed)
        self.norm = torch.empty_like(like.norm)
        self.lm_head = None if like.lm_head is None else torch.empty_like(like.lm_head)
        self.blocks = [_FixedBlock(like.block(i), slots, rank, new) for i in range(shape.layers)]
        self._loaded: Any = None
        self._adapters: list[Any] = [None] * slots

    @property
    def head(self) -> Tensor:
        return self.embed if self.lm_head is None else self.lm_head

    def forget(self) -> None:
        """Copy the trained weights again at the next call, even if they seem unchanged."""
        if self._loaded is not None and self._loaded[0] is not None:
            self._loaded = None  # a whole copy; the base never changes
        self._adapters = [None] * self.slots

    def load(self, weights: Weights, state: Any) -> None:
        """Copy a model's own weights, unless they are already copied (`state` is the same)."""
        if self._loaded == state:
            return
        self.embed.copy_(weights.embed)
        self.norm.copy_(weights.norm)
        if self.lm_head is not None and weights.lm_head is not None:
            self.lm_head.copy_(weights.lm_head)
        for i, fixed in enumerate(self.blocks):
            fixed.load(weights.block(i))
        self._loaded = state

    def load_adapter(self, slot: int, adapter: LowRank, state: Any) -> None:
        """Copy an adapter's weights, unless they are already copied."""
        held = self._adapters[slot]
        if held == state:
            return
        if (
            held is None or held[1] != state[1]
        ):  # the previous adapter may have had more layers or a higher rank
            for fixed in self.blocks:
                fixed.clear(slot)
        narrow: list[tuple[Tensor, Tensor]] = []
        wide: list[tuple[Tensor, Tensor]] = []
        for i, fixed in enumerate(self.blocks):
            fixed.places(slot, adapter, i, narrow, wide)
        for pairs in (narrow, wide):
            torch._foreach_copy_([to for to, _ in pairs], [source for _, source in pairs])
        if adapter.alpha != adapter.rank:
            torch._foreach_mul_([to for to, _ in wide], adapter.alpha / adapter.rank)
        self._adapters[slot] = state


class _FixedBlock:
    """One layer: its vectors, and for each product the matrix with all A below it, and all B (transposed, scaled)."""

    def __init__(self, like: Block, slots: int, rank: int, new: Callable[..., Tensor]) -> None:
        self.rank = rank
        self.vectors = {
            name: torch.empty_like(weight) for name, weight in like.named_parameters() if weight.dim() == 1
        }
        self.matrices: dict[str, Tensor] = {}
        self.pairs: dict[str, Tensor] = {}
        for name, parts in _PARTS.items():
            out, into = getattr(like, name).shape
            self.matrices[name] = new(out + slots * len(parts) * rank, into)
            self.pairs[name] = new(slots, rank, out)

    @property
    def qkv_bias(self) -> Tensor | None:
        return self.vectors.get("qkv_bias")

    @property
    def q_norm(self) -> Tensor | None:
        return self.vectors.get("q_norm")

    @property
    def k_norm(self) -> Tensor | None:
        return self.vectors.get("k_norm")

    def load(self, block: Block) -> None:
        for name, vector in self.vectors.items():
            vector.copy_(getattr(block, name))
        for name, matrix in self.matrices.items():
            weight = getattr(block, name)
            matrix[: len(weight)].copy_(weight)

    def clear(self, slot: int) -> None:
        for name, parts in _PARTS.items():
            self.pairs[name][slot].zero_()
            first = self.pairs[name].shape[2] + slot * len(parts) * self.rank
            self.matrices[name][first : first + len(parts) * self.rank].zero_()

    def places(
        self,
        slot: int,
        adapter: LowRank,
        layer: int,
        narrow: list[tuple[Tensor, Tensor]],
        wide: list[tuple[Tensor, Tensor]],
    ) -> None:
        """Collect the target of each A and B matrix of the adapter, and the matrix itself."""
        for name, parts in _PARTS.items():
            product = adapter.product(f"{layer}.{name}")
            if product is None:
                continue
            pair, matrix = self.pairs[name], self.matrices[name]
            for i, linear in enumerate(product.layers):
                start = pair.shape[2] + (slot * len(parts) + parts.index(linear.name)) * self.rank
                a = product.a.detach()[i * product.rank : (i + 1) * product.rank]
                narrow.append((matrix[start : start + product.rank], a))
                columns = slice(linear.offset, linear.offset + linear.outputs)
                wide.append((pair[slot, : product.rank, columns], product.b[i].detach().t()))


@dataclass
class _Rows:
    """The state of the rows at fixed addresses; the last output row receives what finished rows write."""

    last: Tensor
    slots: Tensor
    places: Tensor
    adapter: Tensor
    done: Tensor
    count: Tensor
    row: Tensor
    tokens: Tensor
    log_probs: Tensor
    raw_log_probs: Tensor
    entropy: Tensor
    alive: Tensor
    step: Tensor
    uniform: Tensor

    @classmethod
    def room(cls, rows: int, new: int, device: torch.device) -> _Rows:
        def whole(*size: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        def real(*size: int) -> Tensor:
            return whole(*size, dtype=torch.float32)

        narrow = torch.int32
        return cls(
            last=whole(rows),
            slots=whole(rows),
            places=whole(rows),
            adapter=whole(rows, dtype=narrow),
            done=torch.ones(rows, dtype=narrow, device=device),
            count=whole(rows),
            row=whole(rows),
            tokens=whole(rows + 1, new),
            log_probs=real(rows + 1, new),
            raw_log_probs=real(rows + 1, new),
            entropy=real(rows + 1),
            alive=whole(1),
            step=whole(1),
            uniform=real(new, rows),
        )

    def moving(self) -> list[Tensor]:
        return [self.last, self.slots, self.places, self.adapter, self.done, self.count, self.row]

    def advance(self, n: int, drawn: Drawn, stops: Tensor, new: int) -> None:
        """Record the tokens of the first n rows, and advance those that have not finished."""
        live = self.done[:n] == 0
        row = torch.where(live, self.row[:n], len(self.tokens) - 1)
        at = row, self.count[:n].clamp_max(new - 1)
        self.tokens.index_put_(at, drawn.tokens)
        self.log_probs.index_put_(at, drawn.log_probs)
        self.raw_log_probs.index_put_(at, drawn.raw_log_probs)
        self.entropy.index_add_(0, row, drawn.entropy)
        self.last[:n] = torch.where(live, drawn.tokens, self.last[:n])
        self.count[:n] += live
        self.places[:n] += live
        ended = (drawn.tokens[:, None] == stops).any(1) | (self.count[:n] >= new)
        self.done[:n] |= ended.int()
        self.alive.copy_((self.done[:n] == 0).sum()[None])

    def keep(self, indices: Tensor, size: int) -> None:
        """Keep only these rows; the first `size` entries are theirs and those of finished rows."""
        n = len(indices)
        for part in self.moving():
            part[:n] = part[indices]
        self.uniform[:, :n] = self.uniform[:, indices]
        self.done[n:size] = 1


class CapturedDecoder(Decoder):
    """A Decoder whose tokens after the first come from recorded steps."""

    def __init__(self, model: LlamaModel, config: SamplerConfig, generator: torch.Generator) -> None:
        super().__init__(model, config, generator)
        self._zeroed = True
        self._weights: FixedWeights | None = None
        self._rows: _Rows | None = None
        self._recorded: dict[tuple[int, int], Callable[[], None]] = {}
        self._for_cache: KeyValues | None = None
        self._pool: Any = None
        self._stop_tensor = torch.tensor(sorted(self._stops) or [-1], device=model.device)

    def forget(self) -> None:
        super().forget()
        if self._weights is not None:
            self._weights.forget()

    def _run(self, tokens: list[int], rows: Sequence[RowPart]) -> Tensor:
        """Like Decoder's, with the fused kernels if the rows share their weights."""
        adapters = list(dict.fromkeys(row[0] for row in rows))
        cache, device = self._cache, self.model.device
        if any(self.model.stretch(name, 0, 0).weights is not self.model.base for name in adapters):
            return super()._run(tokens, rows)
        if len(adapters) > _MAX_ADAPTERS or cache is None:
            return super()._run(tokens, rows)
        new, number, keys, values = self._new_tokens(rows), self._load(adapters), cache.k, cache.v
        mine = np.repeat([number.get(row[0] or "", -1) for row in rows], [row[3] for row in rows])
        return self._layers(
            torch.tensor(tokens, device=device),
            torch.from_numpy(mine.astype(np.int32)).to(device),
            (new.slots, new.positions, torch.zeros(len(tokens), dtype=torch.int32, device=device)),
            _at_least(len(number)),
            lambda i, q: new.attend_to_cache(keys[i], values[i], q).flatten(1),
        )

    def _decode(self, places: Sequence[tuple[Row, Place]], drawn: Drawn) -> None:
        groups: dict[Any, list[int]] = {}
        adapters: dict[int, dict[str, int]] = {}
        for i, (row, _) in enumerate(places):
            whole = id(self.model.stretch(row.adapter, 0, 0).weights)
            mine = adapters.setdefault(whole, {})
            if row.adapter is not None and isinstance(self.model.adapter(row.adapter), LowRank):
                mine.setdefault(row.adapter, len(mine))
            group = mine.get(row.adapter or "", 0) // _MAX_ADAPTERS
            groups.setdefault((whole, group), []).append(i)
        for chosen in groups.values():
            index = torch.tensor(chosen, device=drawn.tokens.device)
            parts = (drawn.tokens, drawn.log_probs, drawn.raw_log_probs, drawn.entropy)
            self._decode_together([places[i] for i in chosen], Drawn(*(part[index] for part in parts)))

    def _load(self, names: Sequence[str | None]) -> dict[str, int]:
        """Copy these adapters, all of one set of weights. Return the index of each low-rank adapter."""
        model, fixed = self.model, self._weights
        adapters = {name: model.adapter(name) for name in names if name is not None}
        low_rank = {name: adapter for name, adapter in adapters.items() if isinstance(adapter, LowRank)}
        slots, rank = _at_least(len(low_rank)), max((a.rank for a in low_rank.values()), default=0)
        if fixed is None or slots > fixed.slots or rank > fixed.rank:
            slots = max(slots, fixed.slots if fixed else 0)
            rank = max(_power(rank) if rank else 0, fixed.rank if fixed else 0)
            self._weights = fixed = None
            self._weights = fixed = FixedWeights(model.base, model.shape, slots, rank)
            self._drop()
        whole = None if low_rank or not adapters else next(iter(adapters))
        fixed.load(model.stretch(whole, 0, 0).weights, weights_state(model, whole))
        number = {name: i for i, name in enumerate(low_rank)}
        for name, adapter in low_rank.items():
            fixed.load_adapter(number[name], adapter, weights_state(model, name))
        return number

    def _decode_together(self, places: Sequence[tuple[Row, Place]], drawn: Drawn) -> None:
        """Decode rows of one set of weights and few adapters."""
        number = self._load(list(dict.fromkeys(row.adapter for row, _ in places)))
        n, new, device = len(places), self.config.max_new_tokens, self.model.device
        size = _bucket(n)
        rows = self._make_rows(size)

        def put(target: Tensor, values: list[int]) -> None:
            target[:n] = torch.tensor(values, dtype=target.dtype).to(device, non_blocking=True)

        put(rows.slots, [place.slot for _, place in places])
        put(rows.places, [len(row.prompt) - 1 for row, _ in places])
        put(rows.adapter, [number.get(row.adapter or "", -1) for row, _ in places])
        put(rows.row, list(range(n)))
        rows.count.zero_()
        rows.entropy.zero_()
        rows.done.fill_(1)
        rows.done[:n] = 0
        rows.step.zero_()
        rows.uniform[:, :n] = torch.rand(new, n, generator=self.generator, device=self.generator.device).to(
            device
        )
        rows.advance(n, drawn, self._stop_tensor, new)
        self._replay(rows, size, _at_least(len(number)))
        self._collect(rows, places)

    def _replay(self, rows: _Rows, size: int, slots: int) -> None:
        """Step until no row continues. Their number is read one step later, so that the device never waits."""
        cuda = self.model.device.type == "cuda"
        step = self._step(size, slots)
        alive = torch.zeros(self.config.max_new_tokens + 1, dtype=torch.int64, pin_memory=cuda)
        events: list[Any] = []
        for i in range(self.config.max_new_tokens):
            alive[i : i + 1].copy_(rows.alive, non_blocking=True)
            if cuda:
                events.append(torch.cuda.Event())  # type: ignore[no-untyped-call]
                events[-1].record()
                events[max(i - 1, 0)].synchronize()
            going = int(alive[max(i - 1, 0)])
            if going == 0 or i + 1 == self.config.max_new_tokens:
                break
            if 2 * going <= size and size > _SMALLEST:
                left = (rows.done[:size] == 0).nonzero().squeeze(1)
                size = _bucket(max(len(left), 1))
                rows.keep(left, size)
                step = self._step(size, slots)
            self.before_token()
            step()

    def _collect(self, rows: _Rows, places: Sequence[tuple[Row, Place]]) -> None:
        n = len(places)
        columns = [
            part[:n].tolist() for part in (rows.tokens, rows.log_probs, rows.raw_log_probs, rows.entropy)
        ]
        for (row, _), tokens, log_probs, raw, entropy in zip(places, *columns, strict=True):
            ends = [i for i, token in enumerate(tokens) if token in self._stops]
            length = ends[0] + 1 if ends else len(tokens)
            row.tokens, row.log_probs, row.raw_log_probs = tokens[:length], log_probs[:length], raw[:length]
            row.entropy, row.stopped = entropy, bool(ends)

    def _make_rows(self, size: int) -> _Rows:
        """Allocate memory for this number of rows; steps recorded for other addresses are dropped."""
        if self._rows is None or len(self._rows.done) < size:
            self._rows = _Rows.room(size, self.config.max_new_tokens, self.model.device)
            self._drop()
        if self._for_cache is not self._cache:
            self._for_cache = self._cache
            self._drop()
        return self._rows

    def _drop(self) -> None:
        self._recorded.clear()
        self._pool = None  # torch frees the memory of a pool when all its graphs are deleted

    def _step(self, size: int, slots: int) -> Callable[[], None]:
        key = size, slots
        if key not in self._recorded:
            self._recorded[key] = self._record_step(lambda: self._compute(size, slots))
        return self._recorded[key]

    def _record_step(self, compute: Callable[[], None]) -> Callable[[], None]:
        if self.model.device.type != "cuda":
            return compute
        rows = self._rows
        assert rows is not None
        changed = [
            *rows.moving(),
            rows.alive,
            rows.step,
            rows.entropy,
            rows.tokens,
            rows.log_probs,
        ]
        changed.append(rows.raw_log_probs)
        before = [part.clone() for part in changed]
        rows.done.fill_(1)  # a row that has finished changes nothing
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # compiles kernels, and lets libraries allocate memory
                compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool):
            compute()
        for part, was in zip(changed, before, strict=True):
            part.copy_(was)
        return graph.replay

    def _compute(self, size: int, slots: int) -> None:
        """Compute one step of the first `size` rows."""
        from ludus.language.models import kernels

        shape, rows, weights, cache = self.model.shape, self._rows, self._weights, self._cache
        assert rows is not None and weights is not None and cache is not None
        row_state = rows.slots[:size], rows.places[:size], rows.done[:size]
        mixed = weights.norm.new_empty(size, shape.heads * shape.head_dim)

        def attend(layer: int, q: Tensor) -> Tensor:
            kernels.attend(q, cache.k[layer], cache.v[layer], *row_state, mixed)
            return mixed

        hidden = self._layers(rows.last[:size], rows.adapter[:size], row_state, slots, attend)
        logits = precise_logits(hidden, weights.head)
        uniform = rows.uniform.index_select(0, rows.step)[0, :size]
        if self.config.top_p < 1.0:
            drawn = draw(logits, uniform, self.config.temperature, self.config.top_p)
        else:
            drawn = Drawn(*kernels.draw_tokens(logits, self.config.temperature, uniform))
        rows.advance(size, drawn, self._stop_tensor, self.config.max_new_tokens)
        rows.step += 1

    def _layers(
        self,
        tokens: Tensor,
        adapter: Tensor,
        row_state: tuple[Tensor, Tensor, Tensor],
        slots: int,
        attend: Callable[[int, Tensor], Tensor],
    ) -> Tensor:
        """Return the last hidden states of tokens [N]; `row_state` has the slot, position and done flag of each.

        `attend(layer, q)` reads keys and values from the cache, including those of these tokens.
        """
        from ludus.language.models import kernels

        shape, weights, cache, size = self.model.shape, self._weights, self._cache, len(tokens)
        assert weights is not None and cache is not None
        x = F.embedding(tokens, weights.embed)
        angles = row_state[1].float()[:, None] * self.model.frequencies  # type: ignore[operator]  # a buffer
        turn = angles.cos(), angles.sin()
        normed, middle = torch.empty_like(x), x.new_empty(size, shape.intermediate)
        q = x.new_empty(size, shape.heads, shape.head_dim)

        def product(block: _FixedBlock, name: str, given: Tensor) -> Tensor:
            used = block.pairs[name].shape[2] + slots * len(_PARTS[name]) * block.rank
            return torch.mm(given, block.matrices[name][:used].t())

        def pairs(block: _FixedBlock, name: str) -> Tensor | None:
            return block.pairs[name] if slots else None

        y: Tensor | None = None
        low_rank: Tensor | None = None
        for i, block in enumerate(weights.blocks):
            kernels.add_norm(x, y, low_rank, adapter, block.vectors["input_norm"], normed, shape.norm_eps)
            y = product(block, "qkv", normed)
            given = pairs(block, "qkv"), adapter, block, turn, *row_state, q, cache.k[i], cache.v[i]
            kernels.queries(y, *given, shape.norm_eps)
            y = product(block, "o", attend(i, q))
            low_rank = pairs(block, "o")
            kernels.add_norm(x, y, low_rank, adapter, block.vectors["mlp_norm"], normed, shape.norm_eps)
            y = product(block, "gate_up", normed)
            kernels.gate(y, pairs(block, "gate_up"), adapter, middle)
            y = product(block, "down", middle)
            low_rank = pairs(block, "down")
        kernels.add_norm(x, y, low_rank, adapter, weights.norm, normed, shape.norm_eps)
        return normed


_SMALLEST = 16


def _bucket(n: int) -> int:
    """Return the number of rows of a recorded step: 16, 24, 32, 48, 64, …"""
    size = _SMALLEST
    while size < n:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def _at_least(n: int) -> int:
    """Return the number of adapters of a recorded step: 0, 1, 2, 4, 8, 16."""
    return 1 << (n - 1).bit_length() if n else 0


def _power(rank: int) -> int:
    return max(16, 1 << (rank - 1).bit_length())
