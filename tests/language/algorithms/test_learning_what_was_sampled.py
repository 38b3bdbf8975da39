"""Sampler and learner together: they agree about the policy, and what is rewarded becomes likelier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from language_setup import experience, learner, match, tiny_model, turn

from ludus.config.language import RewardsConfig, SamplerConfig
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.models.local import LocalSampler
from ludus.language.models.sampling import Request
from ludus.league.records import MatchRecord

PROMPTS = [(1, 2, 3), (4,), (9, 8, 7, 6, 5, 4, 3), (200, 201)]


def played(one: LanguageLearner[Any], sampler: LocalSampler, number: int) -> list[MatchRecord]:
    """`number` matches of one turn, won by completions whose first byte is small."""
    requests = [Request(PROMPTS[i % len(PROMPTS)], "learner", str(i)) for i in range(number)]
    matches = []
    for i, (request, drawn) in enumerate(zip(requests, sampler.sample(requests), strict=True)):
        sampled = turn(
            match=i,
            version=one.version("learner"),
            prompt=request.prompt,
            completion=drawn.tokens,
            log_probs=drawn.log_probs,
            raw_log_probs=drawn.raw_log_probs,
            truncated=drawn.truncated,
            group=i % len(PROMPTS),
        )
        matches.append(match([sampled], (1.0 if drawn.tokens[0] < 100 else -1.0,)))
    return matches


def make(algorithm: str, sampler: dict[str, Any], **given: Any) -> tuple[LanguageLearner[Any], LocalSampler]:
    model = tiny_model(full=True)
    one = learner(algorithm, model, language={"sampler": sampler}, **given)
    return one, LocalSampler(model, SamplerConfig(**sampler), torch.Generator().manual_seed(5))


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.6}, {"temperature": 1.5, "top_p": 0.8}], ids=["plain", "cold", "cut"]
)
def test_learner_and_sampler_agree_about_every_token(settings: dict[str, Any]) -> None:
    one, sampler = make("GRPO", {"max_new_tokens": 6} | settings)
    data = experience(played(one, sampler, 24))
    assert one.agreement("learner", data.turns)["train/log_prob_gap_max"] < 1e-4
    weight = one.update(data, 0.0)["train/importance_weight"]
    if "top_p" in settings:  # the share of the policy's mass that the sampler kept
        assert 0.8 - 1e-4 <= weight < 1.0
    else:
        assert weight == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("algorithm", ["REINFORCE", "A2C", "PPO", "GRPO"])
def test_what_is_rewarded_becomes_likelier(algorithm: str) -> None:
    one, sampler = make(
        algorithm,
        {"max_new_tokens": 2},
        rewards=RewardsConfig(sampling=["center_by_env"]),
        learning_rate=1e-2,
        mini_batch_size=32,
    )
    won = []
    for _ in range(12):
        matches = played(one, sampler, 64)
        won.append(np.mean([result.rewards[0] > 0 for result in matches]))
        one.update(experience(matches), 0.0)
    assert np.mean(won[:2]) < 0.6 and np.mean(won[-2:]) > 0.8
