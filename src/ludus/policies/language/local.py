"""The sampler in the learner's own process: the same weights, so what it draws is exactly on-policy.

All requests of a call are one batch, whatever their lengths and adapters. A row that has finished leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ludus.config.language import SamplerConfig
from ludus.errors import ConfigError
from ludus.policies.language.model import LanguageModel, whole_rows
from ludus.policies.language.sampling import Completion, Drawn, Request, draw


@dataclass
class Row:
    """One request on its way."""

    index: int
    prompt: tuple[int, ...]
    adapter: str | None
    cut: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    raw_log_probs: list[float] = field(default_factory=list)
    entropy: float = 0.0
    stopped: bool = False

    def completion(self) -> Completion:
        return Completion(
            tuple(self.tokens),
            np.array(self.log_probs, dtype=np.float32),
            np.array(self.raw_log_probs, dtype=np.float32),
            truncated=not self.stopped,
            entropy=self.entropy / max(len(self.tokens), 1),
            prompt_cut=self.cut,
        )


class LocalSampler:
    """Draws with `generator`: on a CPU the same state and the same requests give the same completions."""

    def __init__(self, model: LanguageModel, config: SamplerConfig, generator: torch.Generator) -> None:
        if config.max_new_tokens >= model.context:
            raise ConfigError(
                f"{config.max_new_tokens} new tokens leave no room for a prompt: the model reads {model.context}",
                key="language.sampler.max_new_tokens",
                fix=f"at most {model.context - 1}",
            )
        self.model = model
        self.config = config
        self.generator = generator
        self._longest_prompt = min(config.max_prompt_tokens, model.context - config.max_new_tokens)

    def forget(self) -> None:
        """Drop whatever is kept between calls."""

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """A completion for each request, in order; raises UserError for an adapter that is not there."""
        rows = [self._row(i, request) for i, request in enumerate(requests)]
        for adapter in dict.fromkeys(row.adapter for row in rows):
            self._complete([row for row in rows if row.adapter == adapter], adapter)
        return [row.completion() for row in rows]

    def _row(self, index: int, request: Request) -> Row:
        prompt = request.prompt or (self.model.tokenizer.start_id,)
        cut = max(len(prompt) - self._longest_prompt, 0)
        return Row(index, prompt[cut:], request.adapter, cut)

    def _complete(self, rows: list[Row], adapter: str | None) -> None:
        model, open_rows = self.model, rows
        while open_rows:
            sequences = [(*row.prompt, *row.tokens) for row in open_rows]
            lengths = [len(sequence) for sequence in sequences]
            tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
            for i, sequence in enumerate(sequences):
                tokens[i, : len(sequence)] = torch.tensor(sequence)
            positions, segments = whole_rows(lengths, model.device)
            hidden = model.hidden(tokens.to(model.device), positions, segments, adapter=adapter)
            last = hidden[torch.arange(len(lengths)), torch.tensor(lengths) - 1]
            drawn = self._draw(model.head(last, adapter=adapter))
            open_rows = self._record(open_rows, drawn)

    def _draw(self, logits: Tensor) -> Drawn:
        uniform = torch.rand(len(logits), generator=self.generator, device=self.generator.device)
        return draw(logits, uniform.to(logits.device), self.config.temperature, self.config.top_p)

    def _record(self, rows: list[Row], drawn: Drawn) -> list[Row]:
        """Write down what was drawn; the rows that go on."""
        columns = (drawn.tokens, drawn.log_probs, drawn.raw_log_probs, drawn.entropy)
        for row, token, log_prob, raw, entropy in zip(rows, *(c.tolist() for c in columns), strict=True):
            row.tokens.append(token)
            row.log_probs.append(log_prob)
            row.raw_log_probs.append(raw)
            row.entropy += entropy
            row.stopped = token in self.model.tokenizer.stop_ids
        return [row for row in rows if not row.stopped and len(row.tokens) < self.config.max_new_tokens]
