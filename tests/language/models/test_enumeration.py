"""Completions with their probabilities: those of the sampler, all of them where there are few."""

from __future__ import annotations

import math

import pytest
import torch

from ludus.config.language import SamplerConfig
from ludus.language.models.enumeration import enumerate_completions
from ludus.language.models.local import LocalSampler
from ludus.language.models.models import tiny
from ludus.language.models.sampling import Request

PROMPTS = [tuple(b"K check; 1 +0"), tuple(b"J ")]


def sampler_of(**settings: float) -> LocalSampler:
    model = tiny({"layers": 1, "hidden": 16, "heads": 2, "context": 32}, torch.Generator().manual_seed(3))
    model.add_adapter("sure", None)
    with torch.no_grad():
        for parameter in model.trainable("sure"):
            parameter.mul_(16)  # some answers are much likelier than others
    config = SamplerConfig(**{"max_new_tokens": 3} | settings)
    return LocalSampler(model, config, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.5}, {"top_p": 0.6}, {"temperature": 1.5, "top_p": 0.9}]
)
def test_a_completion_is_as_likely_as_the_sampler_says(settings: dict[str, float]) -> None:
    sampler = sampler_of(**settings)
    found = enumerate_completions(sampler, PROMPTS, "sure", [[], []], floor=1e-3)
    drawn = sampler.sample([Request(prompt, "sure") for prompt in PROMPTS * 200])
    both = 0
    for place, completion in enumerate(drawn):
        chance = found[place % 2].completions.get(completion.tokens)
        if chance is not None:
            both += 1
            assert chance == pytest.approx(math.exp(float(completion.log_probs.sum())), rel=1e-3)
    looked_at = sum(sum(one.completions.values()) for one in found) / 2
    for one in found:
        assert sum(one.completions.values()) + sum(one.beginnings.values()) == pytest.approx(1.0, abs=1e-5)
    assert both / len(drawn) == pytest.approx(looked_at, abs=0.1) and looked_at > 0.3


def test_where_all_are_followed_nothing_is_left_out() -> None:
    found = enumerate_completions(
        sampler_of(max_new_tokens=2), PROMPTS[:1], None, [[]], floor=1e-30, widest=300
    )[0]
    stops = 1
    assert len(found.completions) == stops + (259 - stops) * 259
    assert sum(found.completions.values()) == pytest.approx(1.0, abs=1e-5)
    assert sum(found.beginnings.values()) == pytest.approx(0.0, abs=1e-5)


def test_what_is_wanted_is_found_however_unlikely() -> None:
    sampler = sampler_of(max_new_tokens=4)
    (stop,) = sampler.model.tokenizer.stop_ids
    found = enumerate_completions(sampler, PROMPTS, None, [["[1]"], []], floor=0.5)
    assert list(found[0].completions) == [(*b"[1]", stop)] and not found[1].completions
    assert 0 < found[0].completions[(*b"[1]", stop)] < 1e-6
    assert found[1].beginnings == {(): 1.0}
    assert set(found[0].beginnings) == {tuple(b"[1]"[:length]) for length in range(4)}


def test_a_prompt_that_is_too_long_is_cut_as_the_sampler_cuts_it() -> None:
    sampler = sampler_of(max_prompt_tokens=4)
    whole, end = tuple(b"K check; 1 +0"), tuple(b"1 +0")
    first, second = enumerate_completions(sampler, [whole, end], "sure", [[], []], floor=0.01)
    assert first == second
