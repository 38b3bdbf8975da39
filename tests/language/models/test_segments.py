"""Sequences packed into one row do not see each other."""

from __future__ import annotations

import torch

from ludus.config.language import AdapterConfig
from ludus.language.models.model import whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.segments import Packing


def test_where_each_token_lies() -> None:
    packing = Packing.of(torch.tensor([[1, 1, 2, 0], [0, 5, 5, 5]]))
    assert packing.tokens.tolist() == [0, 1, 2, 5, 6, 7]
    assert (packing.count, packing.longest) == (3, 3)
    assert packing.slots.tolist() == [0, 1, 3, 6, 7, 8]
    flat = torch.arange(6.0)
    laid_out = packing.side_by_side(flat)
    assert laid_out.tolist() == [[0, 1, 0], [2, 0, 0], [3, 4, 5]]
    assert packing.flat(laid_out).tolist() == flat.tolist()


def test_the_same_number_in_two_rows_is_two_sequences() -> None:
    assert Packing.of(torch.tensor([[1, 1], [1, 1]])).count == 2


def test_only_padding_gives_zeros() -> None:
    model = tiny({"layers": 1, "hidden": 16, "heads": 2})
    zeros = torch.zeros(2, 3, dtype=torch.long)
    assert model.hidden(zeros, zeros, zeros, adapter=None).tolist() == torch.zeros(2, 3, 16).tolist()


def test_packed_rows_give_what_each_sequence_gives_alone_and_the_same_gradient() -> None:
    model = tiny({"layers": 2, "hidden": 32, "heads": 2})
    generator = torch.Generator().manual_seed(3)
    model.add_adapter("a", AdapterConfig(rank=3), generator)
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
