"""vLLM plays the adapter that was published last, and its log-probabilities are the learner's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from ludus.config.language import LanguageConfig, SamplerConfig
from ludus.errors import ConfigError
from ludus.language.algorithms.packing import completion_starts, pack
from ludus.language.algorithms.scoring import score
from ludus.language.models.engine import PublishedSampler
from ludus.language.models.known import fetched
from ludus.language.models.model import LanguageModel
from ludus.language.models.models import load_language_model
from ludus.language.models.sampling import Completion, Request
from ludus.language.models.vllm_engine import VLLMEngine

KNOWN = "smollm2-135m"
MODEL = KNOWN if fetched(KNOWN) else "tiny"
TOLERANCE = 1e-3
"""Of log-probabilities in float32: vLLM's kernels add up in another order."""


def language(**sampler: Any) -> LanguageConfig:
    return LanguageConfig(
        model=MODEL,
        model_kwargs={} if MODEL == KNOWN else {"layers": 2, "hidden": 128, "heads": 4, "context": 256},
        adapter={"rank": 8, "alpha": 16},
        dtype="float32",
        sampler={"kind": "vllm", "max_new_tokens": 8, "max_prompt_tokens": 96} | sampler,
    )


class Stage:
    """A learner's model, and vLLM in the same test."""

    def __init__(self) -> None:
        self.language = language()
        self.model: LanguageModel = load_language_model(
            self.language, "cpu", torch.Generator().manual_seed(0)
        )
        self.engine = VLLMEngine(self.model, self.language)
        self.sampler = PublishedSampler(self.engine, self.language.sampler, torch.Generator().manual_seed(1))
        text = "The rules: players take turns. The board is empty. You are player 0. Your move is: "
        self.prompt = tuple(self.model.tokenizer.encode(text))

    def adapter(self, name: str, seed: int) -> None:
        """An adapter of this name that changes what the model says."""
        generator = torch.Generator().manual_seed(seed)
        if name not in self.model.adapters:
            self.model.add_adapter(name, self.language.adapter, generator)
        with torch.no_grad():
            for weight in self.model.trainable(name):
                weight.copy_(0.08 * torch.randn(weight.shape, generator=generator))

    def publish(self, name: str) -> None:
        self.sampler.publish(name, self.model.adapter_tensors(name))

    def ask(self, name: str | None, n: int = 4) -> list[Completion]:
        return self.sampler.sample([Request(self.prompt, name, f"{i}/0") for i in range(n)])

    @torch.no_grad()
    def gap(self, completions: list[Completion], adapter: str | None, temperature: float = 1.0) -> float:
        """Return how far the log-probabilities are from those the model gives the same tokens."""
        turns: Any = [Said(self.prompt, one.tokens) for one in completions]
        ours = np.zeros(completion_starts(turns)[-1], np.float32)
        for batch in pack(turns, range(len(turns)), 10_000, torch.device("cpu")):
            found = score(self.model, batch, adapter=adapter, temperature=temperature)
            ours[batch.index.numpy()] = found.tokens.log_probs.numpy()
        return float(np.abs(ours - np.concatenate([one.log_probs for one in completions])).max())


class Said:
    def __init__(self, prompt: tuple[int, ...], completion: tuple[int, ...]) -> None:
        self.prompt, self.completion = prompt, completion


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.engine.close()


def test_log_probabilities_are_those_of_the_learner(stage: Stage) -> None:
    stage.adapter("learner", 1)
    stage.publish("learner")
    for adapter in (None, "learner"):
        completions = stage.ask(adapter, 8)
        assert stage.gap(completions, adapter) < TOLERANCE
        assert all(len(one.log_probs) == len(one.tokens) > 0 for one in completions)
        assert all(
            one.truncated == (one.tokens[-1] not in stage.model.tokenizer.stop_ids) for one in completions
        )
    # and they are no other policy's
    assert stage.gap(stage.ask("learner", 8), None) > 100 * TOLERANCE


def test_at_another_temperature_they_are_those_it_drew_from(stage: Stage) -> None:
    stage.adapter("learner", 1)
    stage.publish("learner")
    warm = stage.sampler.with_settings(
        SamplerConfig(**(stage.language.sampler.model_dump() | {"temperature": 0.7})), torch.Generator()
    )
    completions = warm.sample([Request(stage.prompt, "learner", "0/0")] * 4)
    assert stage.gap(completions, "learner", 0.7) < TOLERANCE
    assert all(np.isnan(one.raw_log_probs).all() for one in completions)


def test_two_versions_with_opposite_behaviour_are_never_confused(stage: Stage) -> None:
    """The same prompts, in turn under weights and under their opposite: a cache that mixed them up would show."""
    stage.adapter("learner", 2)
    positive = {name: tensor.clone() for name, tensor in stage.model.adapter_tensors("learner").items()}
    for version in range(6):
        sign = 1.0 if version % 2 == 0 else -1.0
        weights = {n: sign * t if "lora_B" in n else t for n, t in positive.items()}
        stage.model.load_adapter_tensors("learner", weights)
        stage.publish("learner")
        for _ in range(2):  # the second time the prompt is in the cache
            completions = stage.ask("learner")
            assert stage.gap(completions, "learner") < TOLERANCE
        opposite = {n: -t if "lora_B" in n else t for n, t in weights.items()}
        stage.model.load_adapter_tensors("learner", opposite)
        assert stage.gap(completions, "learner") > 100 * TOLERANCE
        stage.model.load_adapter_tensors("learner", weights)


def test_two_adapters_in_one_batch_are_kept_apart(stage: Stage) -> None:
    for name, seed in (("a", 3), ("b", 4)):
        stage.adapter(name, seed)
        stage.publish(name)
    requests = [Request(stage.prompt, "ab"[i % 2], f"{i}/0") for i in range(8)]
    completions = stage.sampler.sample(requests)
    assert stage.gap(completions[0::2], "a") < TOLERANCE
    assert stage.gap(completions[1::2], "b") < TOLERANCE
    assert stage.gap(completions[0::2], "b") > 100 * TOLERANCE


def test_a_name_is_never_used_twice(stage: Stage) -> None:
    stage.adapter("c", 5)
    names, numbers = set(), set()
    for _ in range(3):
        stage.publish("c")
        now = stage.sampler.current["c"]
        names.add(now)
        numbers.add(stage.engine._adapters[now])
    assert len(names) == len(numbers) == 3
    stage.sampler.withdraw("c")
    stage.publish("c")
    assert stage.sampler.current["c"] not in names


def test_the_same_seed_draws_the_same(stage: Stage) -> None:
    stage.sampler.generator.manual_seed(9)
    first = [one.tokens for one in stage.ask(None)]
    stage.sampler.generator.manual_seed(9)
    assert [one.tokens for one in stage.ask(None)] == first
    assert len(set(first)) > 1


def test_an_engine_that_dies_is_started_again_with_its_adapters(stage: Stage) -> None:
    stage.adapter("learner", 6)
    stage.publish("learner")
    stage.ask("learner")
    before = stage.engine.restarts
    for child in psutil.Process().children(recursive=True):
        if "EngineCore" in " ".join(child.cmdline()) or "EngineCore" in child.name():
            os.kill(child.pid, signal.SIGKILL)
    assert stage.gap(stage.ask("learner"), "learner") < TOLERANCE
    assert stage.engine.restarts == before + 1


def test_settings_that_vllm_does_not_support_are_reported_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="low-rank"):
        VLLMEngine(load_language_model(LanguageConfig(), "cpu"), LanguageConfig(adapter=None))
    with pytest.raises(ValueError, match="top_p"):
        language(top_p=0.9)
