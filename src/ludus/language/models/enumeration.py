"""Enumerate the likely completions of a model with their exact probabilities, instead of sampling.

Completions form a tree: each token is an edge, and a stop token or the maximum length ends a path. The tree is searched
level by level. A path is followed while it is likely enough, or if it leads to a text that the caller asked for. Of all
other completions only the beginning is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ludus.language.models.local import LocalSampler
from ludus.language.models.model import whole_rows
from ludus.language.models.sampling import drawn_from

FLOOR = 1e-4
WIDEST = 64
_TOKENS_AT_ONCE = 16_384

Tokens = tuple[int, ...]


@dataclass
class Enumerated:
    """Completions of one prompt: complete ones, and the beginnings of all others."""

    completions: dict[Tokens, float] = field(default_factory=dict)
    """Probability of each complete one, by the tokens that the sampler would return."""
    beginnings: dict[Tokens, float] = field(default_factory=dict)
    """Probability of the other completions, by the longest beginning that was followed."""


@torch.no_grad()
def enumerate_completions(
    sampler: LocalSampler,
    prompts: Sequence[Tokens],
    adapter: str | None,
    wanted: Sequence[Sequence[str]],
    *,
    floor: float = FLOOR,
    widest: int = WIDEST,
) -> list[Enumerated]:
    """Return, for each of `prompts`, the completions that `sampler` draws with `adapter`, temperature and top_p.

    Paths with a probability of at least `floor` are followed, at each length the `widest` most likely of a prompt.
    Paths to the texts `wanted`, followed by a stop token, are always followed.
    """
    config, stops = sampler.config, sampler.model.tokenizer.stop_ids
    paths = [_paths(sampler, texts) for texts in wanted]
    found = [Enumerated() for _ in prompts]
    shown = [sampler.fitted(prompt) for prompt in prompts]
    live: list[tuple[int, Tokens, float]] = [(index, (), 0.0) for index in range(len(prompts))]
    for length in range(1, config.max_new_tokens + 1):
        following = _following(sampler, [shown[index] + tokens for index, tokens, _ in live], adapter)
        further: list[list[tuple[int, Tokens, float]]] = [[] for _ in prompts]
        for (index, tokens, so_far), log_probs in zip(live, following, strict=True):
            total = so_far + log_probs.double()
            likely = (total >= math.log(floor)).nonzero().flatten().tolist()
            followed = {*likely, *(path[-1] for path in paths[index] if path[:-1] == tokens)}
            rest = math.exp(so_far) - math.fsum(math.exp(float(total[token])) for token in followed)
            found[index].beginnings[tokens] = max(rest, 0.0)
            for token in followed:
                child, log_prob = (*tokens, token), float(total[token])
                if token in stops or length == config.max_new_tokens:
                    found[index].completions[child] = math.exp(log_prob)
                elif log_prob > -math.inf:
                    further[index].append((index, child, log_prob))
        live = []
        for own, ways, one in zip(further, paths, found, strict=True):
            ranked = sorted(own, key=lambda branch: -branch[2])
            for rank, branch in enumerate(ranked):
                if rank < widest or branch[1] in ways:
                    live.append(branch)
                else:
                    one.beginnings[branch[1]] = math.exp(branch[2])
        if not live:
            break
    return found


def _paths(sampler: LocalSampler, texts: Sequence[str]) -> set[Tokens]:
    """Return all prefixes of the wanted texts' tokens, each text with each of the stop tokens."""
    tokenizer = sampler.model.tokenizer
    spelt = [(*tokenizer.encode(text), stop) for text in texts for stop in tokenizer.stop_ids]
    return {tokens[:length] for tokens in spelt for length in range(1, len(tokens) + 1)}


def _following(sampler: LocalSampler, sequences: Sequence[Tokens], adapter: str | None) -> list[Tensor]:
    """Return the log-probabilities [V] of the token after each sequence, on the CPU."""
    model, config = sampler.model, sampler.config
    at_once = max(1, _TOKENS_AT_ONCE // max(map(len, sequences)))
    found: list[Tensor] = []
    for first in range(0, len(sequences), at_once):
        part = sequences[first : first + at_once]
        lengths = [len(sequence) for sequence in part]
        positions, segments = whole_rows(lengths, model.device)
        tokens = torch.full(positions.shape, model.tokenizer.pad_id, device=model.device)
        for row, sequence in enumerate(part):
            tokens[row, : len(sequence)] = torch.tensor(sequence, device=model.device)
        hidden = model.hidden(tokens, positions, segments, adapter=adapter)
        ends = torch.tensor(lengths, device=model.device) - 1
        last = hidden[torch.arange(len(part), device=model.device), ends]
        raw = torch.log_softmax(model.head(last, adapter=adapter).float(), -1)
        found += drawn_from(raw, config.temperature, config.top_p).cpu()
    return found
