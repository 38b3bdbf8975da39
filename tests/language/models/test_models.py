"""A model is found by its name, or the user reads what to type."""

from __future__ import annotations

import pytest
import torch

from ludus.config.language import LanguageConfig
from ludus.errors import ConfigError
from ludus.language.models.llama import LlamaModel
from ludus.language.models.models import load_language_model


def test_tiny_has_the_sizes_asked_for_and_the_weights_that_the_generator_draws() -> None:
    config = LanguageConfig(model_kwargs={"layers": 1, "hidden": 16, "heads": 2, "context": 64})
    one, two, other = (
        load_language_model(config, "cpu", torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert isinstance(one, LlamaModel) and isinstance(two, LlamaModel) and isinstance(other, LlamaModel)
    assert (one.shape.layers, one.width, one.context) == (1, 16, 64)
    assert torch.equal(one.base.embed, two.base.embed) and not torch.equal(one.base.embed, other.base.embed)
    assert not any(weight.requires_grad for weight in one.parameters())


@pytest.mark.parametrize(
    ("kwargs", "key", "fix"),
    [
        ({"layer": 2}, "language.model_kwargs.layer", "layers"),
        ({"hidden": 0}, "language.model_kwargs.hidden", ""),
        ({"hidden": 100, "heads": 8}, "language.model_kwargs.hidden", "256"),
    ],
)
def test_sizes_that_cannot_be_are_refused(kwargs: dict[str, int], key: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_language_model(LanguageConfig(model_kwargs=kwargs), "cpu")
    assert caught.value.key == key and fix in caught.value.fix


def test_a_model_that_is_not_there_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="not on this machine") as caught:
        load_language_model(LanguageConfig(model="smollm2-135m"), "cpu")
    assert caught.value.fix == "ludus models get smollm2-135m"
    with pytest.raises(ConfigError) as caught:
        load_language_model(LanguageConfig(model="smolm2-135m"), "cpu")
    assert "did you mean 'smollm2-135m'?" in caught.value.fix


def test_sizes_for_a_model_that_brings_its_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="for 'tiny' only"):
        load_language_model(LanguageConfig(model="smollm2-135m", model_kwargs={"layers": 2}), "cpu")
