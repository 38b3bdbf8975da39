"""A model has named adapters: low-rank ones, and copies of all weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ludus.config.language import AdapterConfig
from ludus.errors import ConfigError, UserError
from ludus.language.models.llama import LlamaModel
from ludus.language.models.low_rank import LowRank
from ludus.language.models.model import whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.weights import tensors_by_name


@pytest.fixture
def model() -> LlamaModel:
    return tiny({"layers": 2, "hidden": 32, "heads": 2})


def logits(model: LlamaModel, adapter: str | None) -> Tensor:
    tokens = torch.tensor([[10, 20, 30, 40]])
    positions, segments = whole_rows([4], torch.device("cpu"))
    return model.head(model.hidden(tokens, positions, segments, adapter=adapter), adapter=adapter)


def scramble(model: LlamaModel, name: str, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in model.trainable(name):
        torch.nn.init.normal_(weight, std=0.1, generator=generator)


@pytest.mark.parametrize("config", [AdapterConfig(rank=4), None])
def test_a_fresh_adapter_changes_nothing(model: LlamaModel, config: AdapterConfig | None) -> None:
    model.add_adapter("new", config)
    torch.testing.assert_close(logits(model, "new"), logits(model, None))
    assert model.adapters == ["new"]


def test_a_low_rank_adapter_computes_what_merging_it_would(model: LlamaModel) -> None:
    config = AdapterConfig(rank=4, alpha=6.0)
    model.add_adapter("a", config)
    scramble(model, "a")
    with torch.enable_grad():
        learner = logits(model, "a")
    with torch.no_grad():
        sampler = logits(model, "a")
    tensors = model.adapter_tensors("a")
    for name, weight in tensors_by_name(model.shape, model.base).items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in tensors:
            weight += 1.5 * tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
    merged = logits(model, None)
    assert (merged - tiny_logits()).abs().max() > 1e-2
    torch.testing.assert_close(learner, merged, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sampler, merged, atol=1e-5, rtol=1e-5)


def tiny_logits() -> Tensor:
    return logits(tiny({"layers": 2, "hidden": 32, "heads": 2}), None)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("all-linear", {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}),
        ("attention", {"q_proj", "k_proj", "v_proj", "o_proj"}),
        ("mlp", {"gate_proj", "up_proj", "down_proj"}),
        (["v_proj", "up_proj"], {"v_proj", "up_proj"}),
    ],
)
def test_targets_choose_layers(model: LlamaModel, targets: object, expected: set[str]) -> None:
    model.add_adapter("a", AdapterConfig.model_validate({"rank": 2, "targets": targets}))
    adapter = model.adapter("a")
    assert isinstance(adapter, LowRank) and set(adapter.targets()) == expected
    assert len(model.adapter_tensors("a")) == 2 * 2 * len(expected)
    scramble(model, "a")
    with torch.enable_grad():
        learner = logits(model, "a")
    with torch.no_grad():
        torch.testing.assert_close(logits(model, "a"), learner, atol=1e-5, rtol=1e-5)
    assert (learner - logits(model, None)).abs().max() > 1e-3


def test_a_layer_that_is_not_there_is_named_with_the_nearest(model: LlamaModel) -> None:
    with pytest.raises(ConfigError, match="q_prj") as caught:
        model.add_adapter("a", AdapterConfig(targets=["q_prj"]))
    assert "q_proj" in caught.value.fix and model.adapters == []


def test_only_an_adapters_own_weights_get_gradients(model: LlamaModel) -> None:
    model.add_adapter("a", AdapterConfig(rank=2))
    model.add_adapter("b", AdapterConfig(rank=2))
    scramble(model, "a")
    logits(model, "a").sum().backward()
    assert all(weight.grad is not None for weight in model.trainable("a"))
    assert all(weight.grad is None for weight in (*model.trainable("b"), *model.base.parameters()))


def test_a_whole_copy_learns_while_the_start_stays(model: LlamaModel) -> None:
    start = logits(model, None)
    model.add_adapter("all", None)
    optimizer = torch.optim.SGD(model.trainable("all"), lr=0.5)
    logits(model, "all").square().mean().backward()
    optimizer.step()
    assert (logits(model, "all") - start).abs().max() > 1e-3
    torch.testing.assert_close(logits(model, None), start)


@pytest.mark.parametrize("config", [AdapterConfig(rank=4), None])
def test_tensors_carry_an_adapter_to_another_model(model: LlamaModel, config: AdapterConfig | None) -> None:
    model.add_adapter("a", config)
    scramble(model, "a")
    model.add_adapter("b", config)
    model.load_adapter_tensors("b", model.adapter_tensors("a"))
    torch.testing.assert_close(logits(model, "b"), logits(model, "a"))
    model.remove_adapter("a")
    assert model.adapters == ["b"]
    with pytest.raises(UserError, match="no adapter 'a'"):
        logits(model, "a")


def test_tensors_that_do_not_fit_change_nothing(model: LlamaModel) -> None:
    model.add_adapter("a", AdapterConfig(rank=4))
    model.add_adapter("other", AdapterConfig(rank=2))
    before = {name: tensor.clone() for name, tensor in model.adapter_tensors("a").items()}
    with pytest.raises(UserError, match="do not fit"):
        model.load_adapter_tensors("a", model.adapter_tensors("other"))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.adapter_tensors("a").items())


def test_a_name_is_given_once_and_may_hold_any_character(model: LlamaModel) -> None:
    model.add_adapter("learner.0/v 3", AdapterConfig(rank=2))
    with pytest.raises(UserError, match="already"):
        model.add_adapter("learner.0/v 3", AdapterConfig(rank=2))
