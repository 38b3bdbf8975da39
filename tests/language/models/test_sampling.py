"""A token is drawn with the probability that is then written down."""

from __future__ import annotations

import math

import torch

from ludus.language.models.sampling import draw

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))


def test_the_uniform_number_picks_by_cumulated_probability() -> None:
    for uniform, token in [
        (0.0, 0),
        (0.49, 0),
        (0.51, 1),
        (0.79, 1),
        (0.81, 2),
        (0.94, 2),
        (0.96, 3),
        (0.999, 3),
    ]:
        assert draw(LOGITS.clone(), torch.tensor([uniform])).tokens.item() == token


def test_probabilities_are_those_of_what_was_drawn_from_and_of_the_plain_policy() -> None:
    drawn = draw(LOGITS.clone(), torch.tensor([0.6]), temperature=0.5, top_p=0.9)
    # squared: 0.25, 0.09, 0.0225, 0.0025; of the whole 0.685, 0.247, ...: the first two hold 0.93 and are left
    assert drawn.tokens.item() == 0
    assert math.isclose(drawn.log_probs.item(), math.log(0.25 / 0.34), rel_tol=1e-5)
    assert math.isclose(drawn.raw_log_probs.item(), math.log(0.5), rel_tol=1e-5)
    entropy = -sum(p * math.log(p) for p in (0.5, 0.3, 0.15, 0.05))
    assert math.isclose(drawn.entropy.item(), entropy, rel_tol=1e-5)


def test_the_likeliest_token_is_always_left() -> None:
    drawn = draw(LOGITS.clone(), torch.tensor([0.999]), top_p=0.01)
    assert drawn.tokens.item() == 0 and drawn.log_probs.item() == 0.0


def test_frequencies_are_the_probabilities() -> None:
    n = 20_000
    uniform = torch.rand(n, generator=torch.Generator().manual_seed(0))
    drawn = draw(LOGITS.expand(n, 4).clone(), uniform, temperature=2.0)
    expected = LOGITS.div(2).softmax(-1)[0]
    found = torch.bincount(drawn.tokens, minlength=4) / n
    assert (found - expected).abs().max() < 0.015


def test_tokens_without_any_probability_are_never_drawn() -> None:
    logits = torch.tensor([[0.0, -math.inf, 0.0, -math.inf]])
    for uniform in (0.0, 0.4999, 0.5, 1 - 2**-24):
        drawn = draw(logits.clone(), torch.tensor([uniform]))
        assert drawn.tokens.item() in (0, 2) and math.isclose(drawn.entropy.item(), math.log(2), rel_tol=1e-6)
