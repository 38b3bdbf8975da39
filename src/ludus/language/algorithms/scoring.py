"""Scores of sampled tokens under the current policy: log-probabilities, entropies, states.

The policy is the model at the sampler's temperature without top_p: the distribution that the sampler draws from if
top_p is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as compute_twice

from ludus.language.algorithms.packing import Pass
from ludus.language.models.model import LanguageModel

_LOGITS_AT_ONCE = 2**26  # 256 MiB of float32; several such tensors are alive at a time


class Tokens(NamedTuple):
    """One entry for each sampled token of a pass."""

    log_probs: Tensor
    entropies: Tensor


@dataclass(frozen=True)
class Scored:
    tokens: Tokens
    states: Tensor
    """The hidden state of each turn's last prompt token, float32 [turns, width]."""


def score(
    model: LanguageModel,
    batch: Pass,
    *,
    adapter: str | None,
    temperature: float,
    checkpoint: bool = False,
    entropy_gradient: bool = False,
) -> Scored:
    """Return log-probability and entropy of every sampled token of `batch`, with gradients where they are enabled.

    Gradients of entropies are optional: they take twice the memory.
    """
    hidden = model.hidden(
        batch.tokens, batch.positions, batch.segments, adapter=adapter, checkpoint=checkpoint
    ).flatten(0, 1)
    at_once = max(1, _LOGITS_AT_ONCE // model.tokenizer.vocab_size)
    whole = len(batch.sampled) <= at_once
    found = []
    for start in range(0, max(len(batch.sampled), 1), at_once):
        piece = slice(start, start + at_once)
        asked = (model, hidden[batch.predicts[piece]], batch.sampled[piece], adapter, temperature)
        if whole or not torch.is_grad_enabled():
            found.append(_of_tokens(*asked, entropy_gradient))
        else:  # the logits of all tokens at once may need more memory than everything else together
            found.append(compute_twice(_of_tokens, *asked, entropy_gradient, use_reentrant=False))
    tokens = Tokens(*(torch.cat(parts) for parts in zip(*found, strict=True)))
    return Scored(tokens, hidden[batch.prompt_ends].float())


def _of_tokens(
    model: LanguageModel,
    states: Tensor,
    sampled: Tensor,
    adapter: str | None,
    temperature: float,
    entropy_gradient: bool,
) -> Tokens:
    logits = model.head(states, adapter=adapter) / temperature
    total = logits.logsumexp(dim=-1)
    log_probs = logits.gather(-1, sampled[:, None]).squeeze(-1) - total
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = total - ((logits - total[:, None]).exp() * logits).sum(dim=-1)
    return Tokens(log_probs, entropies)
