"""Requests and completions of samplers, and drawing a token from logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ludus.config.language import SamplerConfig
from ludus.types import Array


@dataclass(frozen=True)
class Request:
    """A prompt to be continued."""

    prompt: tuple[int, ...]
    adapter: str | None = None
    key: str = ""
    """Match and seat, as "match/seat": a hint that prompts with one key have a common beginning."""
    keep: int = 0
    """Number of tokens at the beginning that are kept if the prompt is too long; see `fit_prompt`."""


@dataclass(frozen=True)
class Completion:
    """A sampled completion. A sampled stop token is included: it is trained on."""

    tokens: tuple[int, ...]
    log_probs: Array
    """Float32, one for each token: under the distribution that was drawn from (temperature, top_p)."""
    raw_log_probs: Array
    """Float32, likewise: under the plain policy (temperature 1, all tokens)."""
    truncated: bool
    """True if it reached the maximum length without a stop token."""
    entropy: float
    """Of the plain policy, mean per token, in nats."""
    prompt_cut: int = 0
    """Number of prompt tokens that `fit_prompt` dropped."""


def fit_prompt(prompt: tuple[int, ...], keep: int, longest: int) -> tuple[int, ...]:
    """Return `prompt` with at most `longest` tokens: tokens after the first `keep` are dropped.

    At least a quarter of the result is the end of the prompt, which shows the newest state.
    """
    cut = max(len(prompt) - longest, 0)
    keep = min(keep, longest - longest // 4 - 1)
    return prompt[:keep] + prompt[keep + cut :] if cut else prompt


class Sampler(Protocol):
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return a completion for each request, in order."""

    def forget(self) -> None:
        """Clear the caches."""


@dataclass(frozen=True)
class Drawn:
    """One token for each row of logits."""

    tokens: Tensor
    log_probs: Tensor
    raw_log_probs: Tensor
    entropy: Tensor


def draw_by(generator: torch.Generator, logits: Tensor, config: SamplerConfig) -> Drawn:
    """Draw one token from each row of logits, by `config` and the next numbers of `generator`."""
    uniform = torch.rand(len(logits), generator=generator, device=generator.device)
    return draw(logits, uniform.to(logits.device), config.temperature, config.top_p)


def draw(logits: Tensor, uniform: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Drawn:
    """Draw one token from each row of `logits` [R, V] (float32, may be overwritten), by `uniform` [R] in [0, 1).

    With `top_p` only the most likely tokens with this total probability are kept; ties are broken by their id.
    """
    raw = logits - logits.logsumexp(-1, keepdim=True)
    probs = raw.exp()
    entropy = -(probs * raw.clamp_min(torch.finfo(raw.dtype).min)).sum(-1)
    log_probs = drawn_from(raw, temperature, top_p)
    if log_probs is not raw:
        probs = log_probs.exp()
    tokens = _invert(probs, uniform)
    picked = tokens[:, None]
    return Drawn(
        tokens, log_probs.gather(-1, picked).squeeze(-1), raw.gather(-1, picked).squeeze(-1), entropy
    )


def drawn_from(raw: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Tensor:
    """Return the log-probabilities to draw from; `raw` [R, V] are those of the plain policy."""
    log_probs = raw if temperature == 1.0 else torch.log_softmax(raw / temperature, -1)
    if top_p == 1.0:
        return log_probs
    ranked, order = torch.sort(log_probs.exp(), dim=-1, descending=True, stable=True)
    out = torch.empty_like(log_probs, dtype=torch.bool)
    out.scatter_(-1, order, ranked.cumsum(-1) - ranked >= top_p)
    log_probs = log_probs.masked_fill(out, -math.inf)
    return log_probs - log_probs.logsumexp(-1, keepdim=True)


def _invert(probs: Tensor, uniform: Tensor) -> Tensor:
    """Return the first token at which the cumulative probability exceeds `uniform` of the total."""
    cumulated = probs.double().cumsum(-1)
    total = cumulated[:, -1:]
    tokens = torch.searchsorted(cumulated, uniform.double()[:, None] * total, right=True).squeeze(-1)
    # rounding could lead past the last token that has any probability
    last = probs.shape[-1] - 1 - (probs > 0).flip(-1).int().argmax(-1)
    return torch.minimum(tokens, last)
