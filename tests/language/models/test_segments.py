"""Sequences packed into one row do not see each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from language_setup import turn

from ludus.config.language import AdapterConfig
from ludus.language.algorithms.packing import pack
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.model import whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.segments import Bucket, Packing
from ludus.language.models.tokenizer import ByteTokenizer


def test_sequences_of_similar_length_are_padded_together() -> None:
    packing = Packing.of(torch.tensor([[1, 1, 2, 0], [0, 5, 5, 5], [6, 6, 6, 0]]))
    assert packing.tokens.tolist() == [0, 1, 5, 6, 7, 8, 9, 10, 2]
    assert [(bucket.count, bucket.longest) for bucket in packing.buckets] == [(3, 3), (1, 1)]
    laid_out = [
        bucket.side_by_side(part)
        for bucket, part in zip(packing.buckets, packing.split(torch.arange(9.0)), strict=True)
    ]
    assert [part.tolist() for part in laid_out] == [[[0, 1, 0], [2, 3, 4], [5, 6, 7]], [[8]]]


def test_a_bucket_pads_at_its_ends() -> None:
    bucket = Bucket.of([8, 7], torch.device("cpu"))
    flat = torch.arange(15.0)
    laid_out = bucket.side_by_side(flat)
    assert laid_out.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 0]]
    assert bucket.flat(laid_out).tolist() == flat.tolist()


def test_padded_tokens_of_a_pass_are_bounded_by_its_tokens() -> None:
    rng = np.random.default_rng(0)
    cases = [[40] * 150 + [2000], [*range(1, 301)], rng.geometric(0.01, 400).tolist(), [1] * 99 + [4096]]
    for lengths in cases:
        turns = [turn(prompt=(1,) * n, completion=(2,)) for n in lengths]
        for one in pack(turns, range(len(turns)), 8192, torch.device("cpu")):
            packing = Packing.of(one.segments)
            assert 7 * packing.padded <= 8 * len(packing.tokens) and len(packing.tokens) <= 8192


@pytest.mark.parametrize("checkpoint", [False, True])
def test_transformers_computes_no_more_padding_than_that(checkpoint: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=259, n_embd=16, n_layer=1, n_head=2, n_positions=600)
    model = ForeignModel(transformers.AutoModelForCausalLM.from_config(config).eval(), ByteTokenizer())
    model.add_adapter("all", None)
    seen: list[int] = []
    model.adapter("all").get_submodule("transformer").register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    turns = [turn(prompt=(1,) * n, completion=(2,)) for n in (20, 500, *[20] * 25)]
    (one,) = pack(turns, range(len(turns)), 4096, torch.device("cpu"))
    model.hidden(one.tokens, one.positions, one.segments, adapter="all", checkpoint=checkpoint)
    assert sum(seen) == 26 * 20 + 500


def test_the_same_number_in_two_rows_is_two_sequences() -> None:
    assert Packing.of(torch.tensor([[1, 1], [1, 1]])).buckets[0].count == 2


def test_only_padding_gives_zeros() -> None:
    model = tiny({"layers": 1, "hidden": 16, "heads": 2})
    zeros = torch.zeros(2, 3, dtype=torch.long)
    assert model.hidden(zeros, zeros, zeros, adapter=None).tolist() == torch.zeros(2, 3, 16).tolist()


def test_packed_rows_give_what_each_sequence_gives_alone_and_the_same_gradient() -> None:
    model = tiny({"layers": 2, "hidden": 32, "heads": 2})
    generator = torch.Generator().manual_seed(3)
    model.add_adapter("a", AdapterConfig(rank=3), generator)
    model.double()  # sums in another order differ by less than the rotation's float32 does
    for weight in model.trainable("a"):
        torch.nn.init.normal_(weight, std=0.2, generator=generator)
    texts = [torch.randint(0, 259, (n,), generator=generator) for n in (5, 1, 7)]

    alone = []
    for text in texts:
        positions, segments = whole_rows([len(text)], torch.device("cpu"))
        alone.append(model.hidden(text[None], positions, segments, adapter="a")[0])
    torch.cat(alone).square().sum().backward()
    expected = [weight.grad.clone() for weight in model.trainable("a") if weight.grad is not None]

    for checkpoint in (False, True):
        model.zero_grad()
        tokens = torch.cat((*texts[:2], torch.zeros(2, dtype=torch.long), texts[2]))[None]
        segments = torch.tensor([[1] * 5 + [2] + [0] * 2 + [3] * 7])
        positions = torch.tensor([[*range(5), 0, 0, 0, *range(7)]])
        packed = model.hidden(tokens, positions, segments, adapter="a", checkpoint=checkpoint)
        assert not packed[0, 6:8].any()
        torch.testing.assert_close(packed[0, segments[0] > 0], torch.cat(alone), atol=1e-5, rtol=1e-5)
        packed.square().sum().backward()
        for weight, grad in zip(model.trainable("a"), expected, strict=True):
            torch.testing.assert_close(weight.grad, grad, atol=1e-4, rtol=1e-4)
