"""Completions of models that transformers computes, with its own cache of keys and values."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from ludus.config.language import SamplerConfig
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.rows import Row, RowWork, record
from ludus.language.models.sampling import draw_by
from ludus.language.models.segments import buckets_of

_MAX_PADDING = 1 / 2
"""Share of a batch of prompts that may be padding. Fewer and larger batches decode faster."""


class ForeignDecoder:
    """Decodes batches of left-padded prompts of similar length and one adapter. Nothing is kept between calls."""

    def __init__(self, model: ForeignModel, config: SamplerConfig, generator: torch.Generator) -> None:
        self.model = model
        self.config = config
        self.work = RowWork()
        self.generator = generator
        self.before_token: Callable[[], None] = lambda: None
        """Called before each forward pass; may raise."""

    def forget(self) -> None:
        pass

    def complete(self, rows: Sequence[Row]) -> None:
        """Compute the rows' completions."""
        for adapter in dict.fromkeys(row.adapter for row in rows):
            own = [row for row in rows if row.adapter == adapter]
            for group in buckets_of([len(row.prompt) for row in own], _MAX_PADDING):
                self._complete([own[i] for i in group], adapter)

    def _complete(self, rows: list[Row], adapter: str | None) -> None:
        began = time.perf_counter()
        device, cache = self.model.device, self.model.new_cache()
        longest = max(len(row.prompt) for row in rows)
        pads = [longest - len(row.prompt) for row in rows]
        ids = torch.tensor(
            [[0] * pad + list(row.prompt) for row, pad in zip(rows, pads, strict=True)], device=device
        )
        seen = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in pads], device=device)
        positions = (seen.cumsum(1) - 1).clamp_min(0)
        self.work.prompt_tokens += int(seen.sum())
        self.work.computed += int(seen.sum())
        going = rows
        while True:
            self.before_token()
            hidden, cache = self.model.run(ids, positions, seen, adapter, cache)
            logits = self.model.head(hidden[:, -1], adapter=adapter)
            record(going, draw_by(self.generator, logits, self.config), self.model.tokenizer.stop_ids)
            if going is rows and len(rows[0].tokens) == 1:
                self.work.prefill_seconds += time.perf_counter() - began
                began = time.perf_counter()
            stay = [
                i
                for i, row in enumerate(going)
                if not row.stopped and len(row.tokens) < self.config.max_new_tokens
            ]
            if not stay:
                break
            if len(stay) < len(going):
                index = torch.tensor(stay, device=device)
                cache.reorder_cache(index)  # caches of recurrent layers can do this too
                seen, positions = seen[index], positions[index]
                going = [going[i] for i in stay]
            ids = torch.tensor([[row.tokens[-1]] for row in going], device=device)
            positions = positions[:, -1:] + 1
            seen = torch.cat((seen, torch.ones_like(positions)), dim=1)
        self.work.decode_seconds += time.perf_counter() - began
        self.work.generated += sum(len(row.tokens) for row in rows)
