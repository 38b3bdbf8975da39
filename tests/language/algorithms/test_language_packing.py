"""Packed passes hold exactly the tokens that were sampled, each once, and no more tokens than the budget."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_setup import made_up, turn

from ludus.language.algorithms.packing import completion_starts, pack

CPU = torch.device("cpu")


def test_two_turns_share_a_row() -> None:
    turns = [turn(prompt=(1, 2, 3), completion=(4, 5, 6)), turn(prompt=(7,), completion=(8, 9))]
    long = turn(prompt=tuple(range(10, 17)), completion=(17,))
    (only,) = pack([*turns, long], [0, 1, 2], 14, CPU)
    assert only.turns == (2, 0, 1)
    assert only.tokens.tolist() == [[10, 11, 12, 13, 14, 15, 16], [1, 2, 3, 4, 5, 7, 8]]
    assert only.positions.tolist() == [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 0, 1]]
    assert only.segments.tolist() == [[1] * 7, [2] * 5 + [3] * 2]
    assert only.predicts.tolist() == [6, 9, 10, 11, 12, 13]
    assert only.sampled.tolist() == [17, 4, 5, 6, 8, 9]
    assert only.owner.tolist() == [2, 0, 0, 0, 1, 1]
    assert only.index.tolist() == [5, 0, 1, 2, 3, 4]
    assert only.prompt_ends.tolist() == [6, 9, 12]


@pytest.mark.parametrize("budget", [1, 17, 40, 1000])
def test_every_sampled_token_is_predicted_once_from_what_came_before_it(budget: int) -> None:
    turns = made_up(seed=3, matches=12).turns
    passes = pack(turns, range(len(turns)), budget, CPU)
    seen = []
    for one in passes:
        assert one.tokens.numel() <= budget or (len(one.tokens) == 1 and len(one.turns) == 1)
        flat, segments, positions = (x.flatten() for x in (one.tokens, one.segments, one.positions))
        for at, token, owner, index in zip(
            one.predicts.tolist(), one.sampled.tolist(), one.owner.tolist(), one.index.tolist(), strict=True
        ):
            segment = segments[at].item()
            assert one.turns[segment - 1] == owner
            here = flat[(segments == segment) & (torch.arange(len(flat)) <= at)].tolist()
            k = index - completion_starts(turns)[owner]
            assert here == [*turns[owner].prompt, *turns[owner].completion[:k]]
            assert positions[at] == len(here) - 1
            assert token == turns[owner].completion[k]
            seen.append(index)
        for owner, end in zip(one.turns, one.prompt_ends.tolist(), strict=True):
            assert flat[end] == turns[owner].prompt[-1]
    assert sorted(seen) == list(range(completion_starts(turns)[-1]))
    assert sorted(i for one in passes for i in one.turns) == list(range(len(turns)))


def test_what_a_turn_says_in_words_is_never_read() -> None:
    spoken = turn(text="something else", observation="another board", action="[9]")
    (one,) = pack([spoken], [0], 100, CPU)
    assert one.tokens.tolist() == [[1, 2, 3, 5]] and one.sampled.tolist() == [5, 6]


def test_an_empty_completion_keeps_its_state_and_predicts_nothing() -> None:
    turns = [turn(completion=()), turn(completion=(4,))]
    (one,) = pack(turns, [0, 1], 100, CPU)
    assert one.sampled.tolist() == [4] and one.owner.tolist() == [1]
    assert len(one.prompt_ends) == 2
    (alone,) = pack(turns, [0], 100, CPU)
    assert alone.sampled.shape == (0,) and alone.tokens.tolist() == [[1, 2, 3]]


def test_a_turn_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="no prompt"):
        pack([turn(prompt=())], [0], 100, CPU)


def test_little_is_padding_when_lengths_differ_widely() -> None:
    rng = np.random.default_rng(0)
    turns = [turn(prompt=(1,) * int(n)) for n in rng.integers(20, 300, 400)]
    passes = pack(turns, range(len(turns)), 4096, CPU)
    filled = sum(int((one.segments > 0).sum()) for one in passes)
    assert filled / sum(one.tokens.numel() for one in passes) > 0.95
