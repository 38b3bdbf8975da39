"""Requests while they are completed, and the amount of work."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from ludus.language.models.sampling import Completion, Drawn


@dataclass
class Row:
    """One request that is being completed."""

    prompt: tuple[int, ...]
    adapter: str | None
    key: str
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


@dataclass
class RowWork:
    """Amount of sampling work so far."""

    prompt_tokens: int = 0
    computed: int = 0
    """Prompt tokens that were not in the cache."""
    generated: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


def record(rows: Sequence[Row], drawn: Drawn, stops: Container[int]) -> None:
    """Record the token drawn for each row."""
    columns = (drawn.tokens, drawn.log_probs, drawn.raw_log_probs, drawn.entropy)
    for row, token, log_prob, raw, entropy in zip(rows, *(c.tolist() for c in columns), strict=True):
        row.tokens.append(token)
        row.log_probs.append(log_prob)
        row.raw_log_probs.append(raw)
        row.entropy += entropy
        row.stopped = token in stops
