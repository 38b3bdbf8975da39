"""The local sampler draws what the learner will compute: the same tokens, the same log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from cut_sampling import check_a_call_ended_between_tokens

from ludus.config.language import AdapterConfig, SamplerConfig
from ludus.errors import ConfigError, UserError
from ludus.language.models.llama import LlamaModel
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import LanguageModel, whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.sampling import Completion, Request


def make_model() -> LlamaModel:
    model = tiny({"layers": 2, "hidden": 32, "heads": 4, "context": 96})
    generator = torch.Generator().manual_seed(11)
    model.base.draw(generator)
    for name, config in {
        "a": AdapterConfig(rank=4),
        "b": AdapterConfig(rank=2, targets="mlp"),
        "all": None,
    }.items():
        model.add_adapter(name, config, generator)
        for weight in model.trainable(name):
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.3, generator=generator)
    return model


def sampler_of(model: LanguageModel, seed: int = 0, **settings: object) -> LocalSampler:
    config = SamplerConfig.model_validate({"max_new_tokens": 12, **settings})
    return LocalSampler(model, config, torch.Generator().manual_seed(seed))


def requests_of(
    count: int, seed: int = 0, adapters: Sequence[str | None] = (None, "a", "b", "all")
) -> list[Request]:
    rng = np.random.default_rng(seed)
    return [
        Request(
            tuple(rng.integers(0, 256, size=rng.integers(1, 60)).tolist()),
            adapters[int(rng.integers(len(adapters)))],
            f"{i}/0",
        )
        for i in range(count)
    ]


def learner_log_probs(
    model: LanguageModel, request: Request, completion: Completion, temperature: float
) -> torch.Tensor:
    """As a learner computes them: the whole sequence at once, without a cache."""
    prompt = request.prompt[completion.prompt_cut :] or (model.tokenizer.start_id,)
    tokens = torch.tensor([[*prompt, *completion.tokens]])
    positions, segments = whole_rows([tokens.shape[1]], torch.device("cpu"))
    hidden = model.hidden(tokens, positions, segments, adapter=request.adapter)
    logits = model.head(hidden[0, len(prompt) - 1 : -1], adapter=request.adapter)
    return torch.log_softmax(logits / temperature, -1).gather(1, tokens[0, len(prompt) :, None])[:, 0]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_log_probs_are_those_the_learner_computes(temperature: float) -> None:
    model = make_model()
    requests = requests_of(24, seed=int(10 * temperature))
    for completion, request in zip(
        sampler_of(model, temperature=temperature).sample(requests), requests, strict=True
    ):
        drawn = learner_log_probs(model, request, completion, temperature)
        raw = learner_log_probs(model, request, completion, 1.0)
        np.testing.assert_allclose(completion.log_probs, drawn.detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(completion.raw_log_probs, raw.detach().numpy(), atol=1e-4)
        assert completion.log_probs.dtype == np.float32


def test_the_same_generator_state_and_requests_give_the_same_tokens() -> None:
    model = make_model()
    first, second, other = (sampler_of(model, seed) for seed in (7, 7, 8))
    for turn in range(3):
        requests = requests_of(9, seed=turn)
        one, two = first.sample(requests), second.sample(requests)
        assert [c.tokens for c in one] == [c.tokens for c in two]
        assert all(np.array_equal(a.log_probs, b.log_probs) for a, b in zip(one, two, strict=True))
        assert [c.tokens for c in one] != [c.tokens for c in other.sample(requests)]


def test_a_generator_that_is_put_back_repeats_the_call() -> None:
    model = make_model()
    sampler = sampler_of(model)
    sampler.sample(requests_of(5))
    state = sampler.generator.get_state()
    sampler.forget()
    one = sampler.sample(requests_of(5, seed=1))
    sampler.generator.set_state(state)
    sampler.forget()
    assert [c.tokens for c in sampler.sample(requests_of(5, seed=1))] == [c.tokens for c in one]


def test_nothing_is_longer_than_allowed_and_the_stop_token_is_the_last() -> None:
    model = make_model()
    (stop,) = model.tokenizer.stop_ids
    with torch.no_grad():
        model.base.embed[stop] *= 3  # the head is tied: now it is drawn now and then
    completions = sampler_of(model, max_new_tokens=7).sample(requests_of(64, adapters=[None]))
    assert {c.truncated for c in completions} == {True, False}
    for completion in completions:
        assert stop not in completion.tokens[:-1]
        assert completion.truncated == (completion.tokens[-1] != stop)
        assert 1 <= len(completion.tokens) == len(completion.log_probs) == len(completion.raw_log_probs) <= 7
        assert len(completion.tokens) == 7 or not completion.truncated
        assert completion.entropy > 0


def test_a_stop_token_at_once_is_the_whole_completion() -> None:
    model = make_model()
    model.tokenizer.stop_ids = frozenset(range(259))
    for completion in sampler_of(model).sample(requests_of(6)):
        assert len(completion.tokens) == 1 and not completion.truncated


def test_one_new_token_is_sampled() -> None:
    model = make_model()
    for completion in sampler_of(model, max_new_tokens=1).sample(requests_of(6)):
        assert len(completion.tokens) == 1


def test_empty_prompt_continues_from_the_start_token() -> None:
    model = make_model()
    request = Request((), "a", "0/0")
    (completion,) = sampler_of(model).sample([request])
    expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
    np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)


def test_a_prompt_longer_than_the_context_loses_its_beginning_and_that_is_counted() -> None:
    model = make_model()  # reads 96 tokens, of which 12 are kept for the completion
    request = Request(tuple(i % 256 for i in range(200)), "a", "0/0")
    (completion,) = sampler_of(model).sample([request])
    assert completion.prompt_cut == 200 - 84
    expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
    np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)
    (shorter,) = sampler_of(model, max_prompt_tokens=10).sample([request])
    assert shorter.prompt_cut == 190


def test_no_requests_give_no_completions() -> None:
    assert sampler_of(make_model()).sample([]) == []


def test_an_adapter_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="no adapter 'gone'"):
        sampler_of(make_model()).sample([Request((1,), "gone")])


def test_a_completion_that_leaves_no_room_for_a_prompt_is_refused() -> None:
    with pytest.raises(ConfigError, match="no room for a prompt"):
        sampler_of(make_model(), max_new_tokens=96)


@pytest.mark.parametrize("top_p", [0.5, 0.9])
def test_only_the_likeliest_tokens_are_drawn_with_top_p(top_p: float) -> None:
    model = make_model()
    requests = requests_of(12, adapters=["a"])
    for request, completion in zip(
        requests, sampler_of(model, top_p=top_p, temperature=0.8).sample(requests), strict=True
    ):
        prompt = request.prompt
        tokens = torch.tensor([[*prompt, *completion.tokens]])
        positions, segments = whole_rows([tokens.shape[1]], torch.device("cpu"))
        hidden = model.hidden(tokens, positions, segments, adapter="a")
        probs = (model.head(hidden[0, len(prompt) - 1 : -1], adapter="a") / 0.8).softmax(-1)
        for row, token, log_prob in zip(probs, completion.tokens, completion.log_probs, strict=True):
            ranked = row.sort(descending=True).values
            kept = int((ranked.cumsum(0) - ranked < top_p).sum())
            nucleus = ranked[:kept].sum()
            assert row[token] >= ranked[kept - 1] - 1e-6
            np.testing.assert_allclose(log_prob, (row[token] / nucleus).log().item(), atol=1e-4)


def test_continued_prompts_are_not_computed_again_and_results_are_equal() -> None:
    """Several turns of several matches: with what is kept from turn to turn, and without."""
    model = make_model()
    rng = np.random.default_rng(0)
    rules = tuple(rng.integers(0, 256, size=40).tolist())
    keeping, forgetting = sampler_of(model, max_new_tokens=4), sampler_of(model, max_new_tokens=4)
    prompts = {f"{i}/{i % 2}": (*rules, i) for i in range(6)}
    for turn in range(4):
        requests = [
            Request(prompt, ("a", "all")[i % 2], key) for i, (key, prompt) in enumerate(prompts.items())
        ]
        forgetting.forget()
        kept, afresh = keeping.sample(requests), forgetting.sample(requests)
        assert [c.tokens for c in kept] == [c.tokens for c in afresh]
        for request, completion in zip(requests, kept, strict=True):
            expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
            np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)
            prompts[request.key] = (*request.prompt, *completion.tokens, turn)
    assert keeping.work.prompt_tokens == forgetting.work.prompt_tokens
    assert keeping.work.computed < 0.35 * forgetting.work.prompt_tokens
    assert forgetting.work.computed < forgetting.work.prompt_tokens  # they begin alike within a call, too


def test_what_was_kept_of_weights_that_have_changed_since_is_not_used() -> None:
    model = make_model()
    sampler = sampler_of(model)
    request = Request(tuple(range(70)), "a", "0/0")
    sampler.sample([request])
    with torch.no_grad():
        for weight in model.trainable("a"):
            weight.mul_(1.5)
    (completion,) = sampler.sample([request])
    expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
    np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)


@pytest.mark.parametrize("kv_cache_tokens", [1, 300])
def test_a_small_cache_takes_requests_in_turns(kv_cache_tokens: int) -> None:
    model = make_model()
    sampler = sampler_of(model, kv_cache_tokens=kv_cache_tokens)
    for turn in range(2):
        requests = requests_of(7, seed=turn)
        for request, completion in zip(requests, sampler.sample(requests), strict=True):
            expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
            np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)


def test_the_cache_grows_with_what_is_asked() -> None:
    model = make_model()
    sampler = sampler_of(model)
    for size, count in ((3, 2), (80, 1), (80, 12)):
        requests = [Request(tuple(range(i, i + size)), "b", f"{i}/0") for i in range(count)]
        for request, completion in zip(requests, sampler.sample(requests), strict=True):
            expected = learner_log_probs(model, request, completion, 1.0).detach().numpy()
            np.testing.assert_allclose(completion.log_probs, expected, atol=1e-4)


def test_bfloat16_agrees_in_the_mean() -> None:
    model = make_model()
    model.base.to(torch.bfloat16)
    requests = requests_of(16, adapters=[None, "a", "b"])
    differences = [
        completion.log_probs - learner_log_probs(model, request, completion, 1.0).detach().numpy()
        for request, completion in zip(requests, sampler_of(model).sample(requests), strict=True)
    ]
    assert np.abs(np.concatenate(differences)).mean() < 2e-2


def test_a_call_ends_between_two_tokens_and_leaves_nothing_behind() -> None:
    model = make_model()
    model.tokenizer.stop_ids = frozenset()
    check_a_call_ended_between_tokens(sampler_of(model), sampler_of(model))
