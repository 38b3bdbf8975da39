"""Decode completions token by token; keys and values of earlier tokens are in the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from ludus.config.language import SamplerConfig
from ludus.language.models.attention import KeyValues, NewTokens
from ludus.language.models.llama import LlamaModel, Stretch
from ludus.language.models.rows import Row, RowWork, record
from ludus.language.models.sampling import Drawn, draw_by
from ludus.language.models.slots import BLOCK, Place, Slots

RowPart = tuple[str | None, int, int, int]
"""Adapter, slot, tokens in the slot with the new ones, and how many are new."""
_MAX_TOKENS = 32_768
"""Maximum number of prompt tokens in one forward pass; the last row may exceed it."""
_SHARE = 0.5
"""Share of a GPU's free memory for keys and values; the learner needs the rest."""


class Decoder:
    """Completes rows, with a cache that is kept between calls."""

    def __init__(self, model: LlamaModel, config: SamplerConfig, generator: torch.Generator) -> None:
        self.model = model
        self.config = config
        self.work = RowWork()
        self.generator = generator
        self.before_token: Callable[[], None] = lambda: None
        """Called before each forward pass; may raise."""
        self._stops = model.tokenizer.stop_ids
        self._cache: KeyValues | None = None
        self._zeroed = model.device.type != "cpu"
        self._slots = Slots(0)

    def forget(self) -> None:
        if self.model.device.type == "cpu":
            self._cache = None  # its size depends on earlier calls and affects what later calls keep
        self._slots = Slots(0 if self._cache is None else self._cache.slots)

    def _draw(self, logits: Tensor) -> Drawn:
        return draw_by(self.generator, logits, self.config)

    def complete(self, rows: Sequence[Row]) -> None:
        """Compute the rows' completions: all at once, or in groups if the cache is too small for all."""
        adapters = dict.fromkeys(row.adapter for row in rows)
        weights = {adapter: weights_state(self.model, adapter) for adapter in adapters}
        self._make_room(rows)
        waiting = sorted(rows, key=lambda row: (row.adapter is not None, row.adapter or ""))
        while waiting:
            self._slots.begin()
            places: list[tuple[Row, Place]] = []
            later: list[Row] = []
            for row in waiting:
                place = self._slots.place(row.prompt, weights[row.adapter], row.key)
                if place is None:
                    later.append(row)
                else:
                    places.append((row, place))
            self._complete_placed(places, weights)
            waiting = later

    def _complete_placed(
        self, places: Sequence[tuple[Row, Place]], weights: dict[str | None, Hashable]
    ) -> None:
        began = time.perf_counter()
        logits: dict[int, Tensor] = {}
        for waits in (False, True):
            now = [(row, place) for row, place in places if place.waits == waits]
            if now:
                for (row, _), last in zip(now, self._prefill(now), strict=True):
                    logits[id(row)] = last
        first = self._draw(torch.stack([logits[id(row)] for row, _ in places]))
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)  # otherwise its time would count as decoding
        self.work.prefill_seconds += time.perf_counter() - began
        began = time.perf_counter()
        self._decode(places, first)
        self.work.decode_seconds += time.perf_counter() - began
        for row, place in places:
            self.work.generated += len(row.tokens)
            # the last token was drawn, but not computed
            self._slots.hold(place.slot, (*row.prompt, *row.tokens[:-1]), weights[row.adapter], row.key)

    def _prefill(self, places: Sequence[tuple[Row, Place]]) -> Tensor:
        """Compute the prompt tokens that are not in the cache; return the logits after each prompt."""
        assert self._cache is not None
        self._cache.copy([place for _, place in places])
        new = [row.prompt[place.kept :] for row, place in places]
        self.work.prompt_tokens += sum(len(row.prompt) for row, _ in places)
        self.work.computed += sum(map(len, new))
        found, first, total = [], 0, 0
        for i, tokens in enumerate(new):
            total += len(tokens)
            if total >= _MAX_TOKENS or i + 1 == len(new):
                found.append(self._prefill_part(places[first : i + 1], new[first : i + 1]))
                first, total = i + 1, 0
        return torch.cat(found)

    def _prefill_part(self, places: Sequence[tuple[Row, Place]], new: Sequence[tuple[int, ...]]) -> Tensor:
        self.before_token()
        counts = [len(tokens) for tokens in new]
        hidden = self._run(
            [token for tokens in new for token in tokens],
            [
                (row.adapter, place.slot, len(row.prompt), n)
                for (row, place), n in zip(places, counts, strict=True)
            ],
        )
        ends = torch.tensor(np.cumsum(counts) - 1, device=hidden.device)
        return self._logits(hidden[ends], [row.adapter for row, _ in places])

    def _decode(self, places: Sequence[tuple[Row, Place]], drawn: Drawn) -> None:
        going = self._record(places, drawn)
        while going:
            self.before_token()
            hidden = self._run(
                [row.tokens[-1] for row, _ in going],
                [(row.adapter, place.slot, len(row.prompt) + len(row.tokens), 1) for row, place in going],
            )
            going = self._record(going, self._draw(self._logits(hidden, [row.adapter for row, _ in going])))

    def _run(self, tokens: list[int], rows: Sequence[RowPart]) -> Tensor:
        """Return the hidden states of flat tokens [N], and write their keys and values to the cache."""
        cache, new = self._cache, self._new_tokens(rows)
        assert cache is not None
        return self.model.run(
            torch.tensor(tokens, device=self.model.device),
            new.positions,
            self._stretches([(row[0], row[3]) for row in rows]),
            lambda layer, q, k, v: new.attend(cache, layer, q, k, v),
        )

    def _new_tokens(self, rows: Sequence[RowPart]) -> NewTokens:
        _, row_slots, ends, counts = (list(column) for column in zip(*rows, strict=True))
        positions = [np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
        return NewTokens(
            torch.from_numpy(np.repeat(row_slots, counts)).to(self.model.device),
            torch.from_numpy(np.concatenate(positions)).to(self.model.device),
            counts,
            ends,
            row_slots,
        )

    def _stretches(self, rows: Sequence[tuple[str | None, int]]) -> list[Stretch]:
        """Group adjacent rows by adapter."""
        found, start, stop = [], 0, 0
        for i, (adapter, count) in enumerate(rows):
            stop += count
            if i + 1 == len(rows) or rows[i + 1][0] != adapter:
                found.append(self.model.stretch(adapter, start, stop))
                start = stop
        return found

    def _logits(self, hidden: Tensor, adapters: Sequence[str | None]) -> Tensor:
        found = [
            (s.weights, s.start, s.stop) for s in self._stretches([(adapter, 1) for adapter in adapters])
        ]
        if all(weights is found[0][0] for weights, _, _ in found):
            return self.model.head(hidden, adapter=adapters[0])
        return torch.cat([self.model.head(hidden[a:b], adapter=adapters[a]) for _, a, b in found])

    def _record(self, places: Sequence[tuple[Row, Place]], drawn: Drawn) -> list[tuple[Row, Place]]:
        """Record the drawn tokens; return the rows that continue."""
        record([row for row, _ in places], drawn, self._stops)
        return [
            (row, p) for row, p in places if not row.stopped and len(row.tokens) < self.config.max_new_tokens
        ]

    def _make_room(self, rows: Sequence[Row]) -> None:
        """Allocate a cache for this number of rows and length. A cache that grows starts empty."""
        longest = max((len(row.prompt) for row in rows), default=0) + self.config.max_new_tokens
        slots, capacity = (0, 0) if self._cache is None else (self._cache.slots, self._cache.capacity)
        if (
            self._cache is not None
            and capacity >= longest
            and (slots >= len(rows) or self._limit(capacity) <= slots)
        ):
            return
        while capacity < longest:
            capacity = max(4 * BLOCK, capacity * 2)
        # twice as many as rows: one of two seats waits while the other plays
        slots = max(slots, 2 * len(rows))
        slots = max(min(slots, self._limit(capacity)), 1)
        self._cache = None  # freed before the next one is allocated
        shape, dtype, device = self.model.shape, self.model.dtype, self.model.device
        self._cache = KeyValues(shape, slots, capacity, dtype, device, zeroed=self._zeroed)
        self._slots = Slots(slots)

    def _limit(self, capacity: int) -> int:
        """Return the maximum number of slots by the config, or else by the device's memory."""
        if self.config.kv_cache_tokens is not None:
            return max(self.config.kv_cache_tokens // capacity, 1)
        if self.model.device.type != "cuda":
            return 1 << 30  # memory that is never written is never allocated
        shape = self.model.shape
        numbers = 2 * shape.layers * shape.kv_heads * shape.head_dim * capacity
        free, _ = torch.cuda.mem_get_info(self.model.device)
        held = 0 if self._cache is None else self._cache.k.nbytes + self._cache.v.nbytes
        return max(int(_SHARE * (free + held)) // (numbers * self.model.dtype.itemsize), 1)


def weights_state(model: LlamaModel, adapter: str | None) -> Hashable:
    """Return a value that changes with the weights of an adapter."""
    module = model.base if adapter is None else model.adapter(adapter)
    return adapter, id(module), tuple(weight._version for weight in module.parameters())
