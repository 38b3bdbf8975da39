"""Models that transformers computes are sampled from as exactly as the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cut_sampling import check_a_call_ended_between_tokens
from torch import nn

from ludus.config.language import AdapterConfig, SamplerConfig
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import whole_rows
from ludus.language.models.sampling import Request
from ludus.language.models.tokenizer import ByteTokenizer

transformers = pytest.importorskip("transformers")

KINDS: dict[str, Any] = {
    "GPT2Config": {"vocab_size": 259, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96},
    "GPTNeoXConfig": {
        "vocab_size": 259,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 96,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_are_those_the_learner_computes(kind: str) -> None:
    torch.manual_seed(0)
    inner = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**KINDS[kind])).eval()
    model = ForeignModel(inner, ByteTokenizer())
    model.add_adapter("a", AdapterConfig(rank=4))
    model.add_adapter("all", None)
    for name in model.adapters:
        for weight in model.trainable(name):
            nn.init.normal_(weight, std=0.2)
    model.tokenizer.stop_ids = frozenset(range(0, 259, 8))  # so that rows leave at different times
    rng = np.random.default_rng(1)
    requests = [
        Request(tuple(rng.integers(0, 256, size=int(rng.integers(1, 40))).tolist()), adapter)
        for adapter in (None, "a", "all") * 4
    ]
    samplers = [
        LocalSampler(
            model, SamplerConfig(max_new_tokens=10, temperature=0.8), torch.Generator().manual_seed(3)
        )
        for _ in range(2)
    ]
    completions = samplers[0].sample(requests)
    assert [c.tokens for c in completions] == [c.tokens for c in samplers[1].sample(requests)]
    assert len({len(c.tokens) for c in completions}) > 2
    for request, completion in zip(requests, completions, strict=True):
        tokens = torch.tensor([[*request.prompt, *completion.tokens]])
        hidden = model.hidden(tokens, *whole_rows([tokens.shape[1]], tokens.device), adapter=request.adapter)
        logits = model.head(hidden[0, len(request.prompt) - 1 : -1], adapter=request.adapter)
        drawn = tokens[0, len(request.prompt) :, None]
        for temperature, found in ((0.8, completion.log_probs), (1.0, completion.raw_log_probs)):
            expected = torch.log_softmax(logits / temperature, -1).gather(1, drawn)[:, 0]
            np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-4)


def test_a_call_of_a_foreign_model_ends_between_two_tokens_and_leaves_nothing_behind() -> None:
    torch.manual_seed(0)
    inner = transformers.AutoModelForCausalLM.from_config(transformers.GPT2Config(**KINDS["GPT2Config"]))
    model = ForeignModel(inner.eval(), ByteTokenizer())
    model.tokenizer.stop_ids = frozenset()
    config = SamplerConfig(max_new_tokens=10)
    check_a_call_ended_between_tokens(
        LocalSampler(model, config, torch.Generator()), LocalSampler(model, config, torch.Generator())
    )
