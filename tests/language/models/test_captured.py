"""The recorded step of a GPU computes what the learner computes. Elsewhere its kernels run in Triton's interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from cut_sampling import check_a_call_ended_between_tokens

from ludus.config.language import AdapterConfig, SamplerConfig
from ludus.language.models.captured import CapturedDecoder
from ludus.language.models.llama import LlamaModel
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import whole_rows
from ludus.language.models.sampling import Request
from ludus.language.models.shape import Shape
from ludus.language.models.tokenizer import ByteTokenizer

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with CUDA")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which is at the first step


def make_model(family: str) -> LlamaModel:
    shape = Shape(
        family=family,
        vocab=259,
        hidden=48,
        layers=2,
        heads=6,
        kv_heads=2,
        head_dim=32,
        intermediate=80,
        context=256,
        norm_eps=1e-5,
        rope={"rope_type": "default", "rope_theta": 10_000.0},
        tied=family == "llama",
    )
    model = LlamaModel(shape, ByteTokenizer())
    generator = torch.Generator().manual_seed(1)
    adapters = {
        "a": AdapterConfig(rank=4, alpha=6),
        "b": AdapterConfig(rank=20, targets=["k_proj", "up_proj"]),
        "c": AdapterConfig(rank=3, targets="mlp"),
        "all": None,
    }
    for name, config in adapters.items():
        model.add_adapter(name, config, generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2 + (weight.dim() == 1))
    return model.to(DEVICE)


def sampler_of(model: LlamaModel, **settings: object) -> LocalSampler:
    config = SamplerConfig.model_validate({"max_new_tokens": 6, **settings})
    sampler = LocalSampler(model, config, torch.Generator().manual_seed(4))
    if DEVICE == "cpu":
        sampler._decoder = CapturedDecoder(model, config, sampler.generator)
    assert isinstance(sampler._decoder, CapturedDecoder)
    return sampler


def requests_of(count: int, adapters: tuple[str | None, ...]) -> list[Request]:
    rng = np.random.default_rng(0)
    return [
        Request(
            tuple(rng.integers(0, 256, size=int(rng.integers(1, 90))).tolist()),
            adapters[i % len(adapters)],
            f"{i}/0",
        )
        for i in range(count)
    ]


def largest_difference(model: LlamaModel, sampler: LocalSampler, requests: list[Request]) -> float:
    most = 0.0
    for request, completion in zip(requests, sampler.sample(requests), strict=True):
        tokens = torch.tensor([[*request.prompt, *completion.tokens]], device=DEVICE)
        with torch.no_grad():
            hidden = model.hidden(
                tokens, *whole_rows([tokens.shape[1]], tokens.device), adapter=request.adapter
            )
            logits = model.head(hidden[0, len(request.prompt) - 1 : -1], adapter=request.adapter)
        drawn = tokens[0, len(request.prompt) :, None]
        for heat, found in (
            (sampler.config.temperature, completion.log_probs),
            (1.0, completion.raw_log_probs),
        ):
            expected = torch.log_softmax(logits / heat, -1).gather(1, drawn)[:, 0].cpu().numpy()
            most = max(most, float(np.abs(found - expected).max()))
        policy = torch.distributions.Categorical(logits=logits)
        assert abs(completion.entropy - policy.entropy().mean().item()) < 1e-3
        stopped = completion.tokens[-1] in model.tokenizer.stop_ids
        assert completion.truncated != stopped and (
            stopped or len(completion.tokens) == sampler.config.max_new_tokens
        )
        assert not model.tokenizer.stop_ids.intersection(completion.tokens[:-1])
    return most


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_log_probs_are_those_the_learner_computes(family: str) -> None:
    model = make_model(family)
    sampler = sampler_of(model, temperature=0.7)
    assert largest_difference(model, sampler, requests_of(5, (None, "a", "b", "c", "all"))) < 1e-4
    assert largest_difference(model, sampler, requests_of(2, ("b", "a"))) < 1e-4


def test_rows_leave_when_they_have_finished() -> None:
    model = make_model("llama")
    model.tokenizer.stop_ids = frozenset(range(0, 259, 2))
    sampler = sampler_of(model, max_new_tokens=8)
    assert largest_difference(model, sampler, requests_of(20, (None, "a"))) < 1e-4


def test_weights_that_change_between_calls_are_taken_over() -> None:
    model = make_model("llama")
    sampler = sampler_of(model, max_new_tokens=3)
    for _ in range(2):
        assert largest_difference(model, sampler, requests_of(3, ("a", "b"))) < 1e-4
        with torch.no_grad():
            for weight in model.trainable("a"):
                weight.mul_(1.3)


def test_top_p_in_a_recorded_step() -> None:
    model = make_model("llama")
    sampler = sampler_of(model, top_p=0.3, max_new_tokens=4)
    for completion in sampler.sample(requests_of(4, ("a",))):
        assert (completion.log_probs >= completion.raw_log_probs - 1e-6).all()
        assert (completion.log_probs > completion.raw_log_probs + 0.1).any()


def test_the_same_state_of_the_generator_gives_the_same_tokens() -> None:
    model = make_model("llama")
    one, two = (sampler_of(model).sample(requests_of(3, ("a",))) for _ in range(2))
    assert [c.tokens for c in one] == [c.tokens for c in two]


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    from ludus.language.models import kernels

    logits = torch.log(torch.tensor([0.5, 0.25, 0.15, 0.1], device=DEVICE)).repeat(500, 1)
    uniform = (torch.arange(500, device=DEVICE) + 0.5) / 500
    tokens, log_probs, raw, entropy = kernels.draw_tokens(logits, 2.0, uniform)
    expected = (logits[0] / 2).softmax(-1)
    found = torch.bincount(tokens, minlength=4) / len(tokens)
    assert (found - expected).abs().max() < 0.005
    torch.testing.assert_close(log_probs, expected.log()[tokens])
    torch.testing.assert_close(raw, logits[0][tokens])
    assert abs(entropy[0].item() - torch.distributions.Categorical(logits=logits[0]).entropy().item()) < 1e-5


def test_a_call_ends_between_two_recorded_steps_and_leaves_nothing_behind() -> None:
    model = make_model("llama")
    model.tokenizer.stop_ids = frozenset()
    check_a_call_ended_between_tokens(sampler_of(model), sampler_of(model))
