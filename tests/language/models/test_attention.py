"""Attention over the cache is attention over the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ludus.language.models.attention import KeyValues, NewTokens
from ludus.language.models.models import tiny
from ludus.language.models.row_attention import _two_to
from ludus.language.models.slots import BLOCK, Place


def test_powers_of_two_are_right_to_the_last_bits() -> None:
    x = np.concatenate((np.linspace(-100, 0, 20_001), [-126.0, -0.5, -1.5])).astype(np.float32)
    found = np.array([_two_to(value) for value in x])
    np.testing.assert_allclose(found, 2.0 ** x.astype(np.float64), rtol=3e-7)
    assert _two_to(np.float32(-1e9)) < 1e-37


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("in_steps", [[11, 1, 1, 5, 1], [1] * 19])
def test_new_tokens_see_all_that_came_before_them(in_steps: list[int], threads: int) -> None:
    heads, kv_heads, dim, rows, length = 6, 2, 8, 3, sum(in_steps)
    shape = tiny({"layers": 1, "hidden": heads * dim, "heads": heads}).shape
    shape = type(shape)(**{**vars(shape), "kv_heads": kv_heads})
    cache = KeyValues(shape, 5, 4 * BLOCK, torch.float32, torch.device("cpu"), zeroed=True)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows, length, n, dim, generator=generator) for n in (heads, kv_heads, kv_heads))
    expected = F.scaled_dot_product_attention(
        *(part.transpose(1, 2) for part in (q, k, v)), is_causal=True, enable_gqa=True
    ).transpose(1, 2)
    slots, before, start = [4, 0, 2], torch.get_num_threads(), 0
    torch.set_num_threads(threads)
    try:
        for count in in_steps:
            end = start + count
            new = NewTokens(
                torch.tensor(slots).repeat_interleave(count),
                torch.arange(start, end).repeat(rows),
                [count] * rows,
                [end] * rows,
                slots,
            )
            parts = [part[:, start:end].flatten(0, 1) for part in (q, k, v)]
            found = new.attend(cache, 0, *parts).view(rows, count, heads, dim)
            torch.testing.assert_close(found, expected[:, start:end], atol=1e-5, rtol=1e-5)
            on_gpu = new.attend_to_cache(cache.k[0], cache.v[0], parts[0]).view(rows, count, heads, dim)
            torch.testing.assert_close(on_gpu, expected[:, start:end], atol=1e-5, rtol=1e-5)
            start = end
    finally:
        torch.set_num_threads(before)


def test_what_is_kept_is_copied_block_by_block() -> None:
    shape = tiny({"layers": 2, "hidden": 8, "heads": 1}).shape
    cache = KeyValues(shape, 3, 4 * BLOCK, torch.float32, torch.device("cpu"), zeroed=False)
    for part in (cache.k, cache.v):
        part.copy_(torch.randn(part.shape))
    before = cache.k.clone(), cache.v.clone()
    cache.copy([Place(0, 2 * BLOCK, 2, False), Place(1, 40, None, False)])
    for part, was in zip((cache.k, cache.v), before, strict=True):
        assert torch.equal(part[:, 0, :, : 2 * BLOCK], was[:, 2, :, : 2 * BLOCK])
        assert torch.equal(part[:, 0, :, 2 * BLOCK :], was[:, 0, :, 2 * BLOCK :])
        assert torch.equal(part[:, 1:], was[:, 1:])
