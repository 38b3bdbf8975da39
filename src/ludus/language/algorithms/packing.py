"""Pack turns of any length into few forward passes with little padding, over exactly the sampled tokens.

A row contains several turns one after the other, separated by their segment ids. A pass holds as many rows as fit its
budget of tokens, all as long as its longest turn, so that little of it is padding.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Sampled(Protocol):
    """Token ids of a prompt and of its completion."""

    @property
    def prompt(self) -> tuple[int, ...]: ...

    @property
    def completion(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Pass:
    """One forward pass over the turns `turns` (indices of the list that was packed).

    `tokens`, `positions` and `segments` are [rows, length], segment 0 is padding. `predicts` is the
    position in the flattened rows from which a token was sampled; `sampled` is that token, `owner` its turn, and
    `index` its index among all completion tokens of the list, turn after turn. `prompt_ends` are the positions of the
    last prompt token of each turn.
    """

    turns: tuple[int, ...]
    tokens: Tensor
    positions: Tensor
    segments: Tensor
    predicts: Tensor
    sampled: Tensor
    owner: Tensor
    index: Tensor
    prompt_ends: Tensor


def completion_starts(turns: Sequence[Sampled]) -> list[int]:
    """Return the offset of each turn's tokens among all completion tokens, and at the end their number."""
    return [0, *accumulate(len(turn.completion) for turn in turns)]


def pack(turns: Sequence[Sampled], chosen: Sequence[int], budget: int, device: torch.device) -> list[Pass]:
    """Return the turns `chosen`, packed into passes of at most `budget` tokens, padding included.

    A turn longer than the budget has a pass of its own. Every turn needs a prompt: there is no state to sample
    a first token from otherwise.
    """
    starts = completion_starts(turns)
    return [_as_pass(turns, rows, starts, length, device) for rows, length in _plan(turns, chosen, budget)]


def n_passes(turns: Sequence[Sampled], chosen: Sequence[int], budget: int) -> int:
    """Return the number of passes that `pack` returns."""
    return sum(1 for _ in _plan(turns, chosen, budget))


def _plan(
    turns: Sequence[Sampled], chosen: Sequence[int], budget: int
) -> Iterator[tuple[list[list[int]], int]]:
    """Return the rows of each pass, and their length."""
    lengths = {i: _input_length(turns[i]) for i in chosen}
    waiting = sorted(lengths, key=lambda i: -lengths[i])
    while waiting:
        rows, waiting = _fill(waiting, lengths, budget)
        yield rows, lengths[rows[0][0]]


def _input_length(turn: Sampled) -> int:
    """Return the number of input tokens: the last sampled token predicts nothing."""
    if not turn.prompt:
        raise ValueError("a turn has no prompt: there is nothing to predict its first token from")
    return len(turn.prompt) + max(len(turn.completion) - 1, 0)


def _fill(waiting: list[int], lengths: dict[int, int], budget: int) -> tuple[list[list[int]], list[int]]:
    """Fill the rows of one pass from `waiting` (longest first). Return them and the turns that did not fit."""
    length = lengths[waiting[0]]
    rows: list[list[int]] = [[] for _ in range(max(1, budget // length))]
    space = [(-length, row) for row in range(len(rows))]
    left = []
    for i in waiting:
        free, row = space[0]
        if -free < lengths[i]:
            left.append(i)
            continue
        rows[row].append(i)
        heapq.heapreplace(space, (free + lengths[i], row))
    return [row for row in rows if row], left


def _as_pass(
    turns: Sequence[Sampled], rows: list[list[int]], starts: list[int], length: int, device: torch.device
) -> Pass:
    tokens, positions, segments = (np.zeros((len(rows), length), dtype=np.int64) for _ in range(3))
    packed: list[int] = []
    predicts, owner, index, prompt_ends = [], [], [], []
    for row, members in enumerate(rows):
        at = 0
        for i in members:
            turn = turns[i]
            prompt, completion = turn.prompt, turn.completion
            size = _input_length(turn)
            tokens[row, at : at + size] = (prompt + completion)[:size]
            positions[row, at : at + size] = np.arange(size)
            segments[row, at : at + size] = len(packed) + 1
            last = row * length + at + len(prompt) - 1
            n = len(completion)
            predicts.append(np.arange(last, last + n))
            owner.append(np.full(n, i))
            index.append(np.arange(starts[i], starts[i] + n))
            prompt_ends.append(last)
            packed.append(i)
            at += size
    sampled = [token for i in packed for token in turns[i].completion]

    def moved(array: object) -> Tensor:
        return torch.as_tensor(np.asarray(array, dtype=np.int64), device=device)

    return Pass(
        turns=tuple(packed),
        tokens=moved(tokens),
        positions=moved(positions),
        segments=moved(segments),
        predicts=moved(np.concatenate(predicts)),
        sampled=moved(sampled),
        owner=moved(np.concatenate(owner)),
        index=moved(np.concatenate(index)),
        prompt_ends=moved(prompt_ends),
    )
