"""Algorithms of one name for envs and for language models are distinguished by the config's language section."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.config.language import LanguageConfig
from ludus.config.registry import algorithm_names, find_algorithm
from ludus.config.schema import TrainerConfig, get_default_config
from ludus.errors import ConfigError, UnknownName


def test_a_language_section_takes_the_algorithms_for_language_models() -> None:
    plain, spoken = TrainerConfig(algorithm="ppo"), TrainerConfig(algorithm="ppo", language={})
    assert "n_steps" in type(plain.typed_hyperparams()).model_fields
    assert "kl_coef" in type(spoken.typed_hyperparams()).model_fields
    assert algorithm_names("language") == ["A2C", "GRPO", "PPO", "REINFORCE"]
    assert "GRPO" not in algorithm_names() and "REINFORCE" not in algorithm_names()


def test_an_algorithm_for_language_models_alone_says_what_it_lacks() -> None:
    with pytest.raises(ConfigError, match="GRPO trains language models") as caught:
        find_algorithm("GRPO")
    assert "language:" in caught.value.fix and caught.value.key == "algorithm"


def test_an_algorithm_for_envs_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="DQN does not train language models") as caught:
        TrainerConfig(algorithm="DQN", language={}).algorithm_entry()
    assert "A2C, GRPO, PPO, REINFORCE" in caught.value.fix
    with pytest.raises(UnknownName) as unknown:
        TrainerConfig(algorithm="GPRO", language={}).algorithm_entry()
    assert unknown.value.fix == "did you mean 'GRPO'?"


def test_the_other_engine_does_not_train_language_models() -> None:
    with pytest.raises(ConfigError, match="engine: sb3 does not train"):
        TrainerConfig(algorithm="PPO", engine="sb3", language={}).algorithm_entry()


def test_default_config_for_language_models_is_valid() -> None:
    config = get_default_config("GRPO", "language")
    assert config.language == LanguageConfig() and config.engine == "native"
    assert config.typed_hyperparams() == TrainerConfig(algorithm="GRPO", language={}).typed_hyperparams()


def test_network_layers_are_no_error_but_are_not_taken() -> None:
    config = TrainerConfig(algorithm="GRPO", language={}, hyperparams={"policy_net_arch": [8]})
    assert not hasattr(config.typed_hyperparams(), "policy_net_arch")
    assert config.ignored_hyperparams() == ["policy_net_arch"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hyperparams": {"mini_batch_sise": 3}}, "did you mean 'mini_batch_size'"),
        ({"hyperparams": {"length_norm": "words"}}, "hyperparams.length_norm"),
        ({"hyperparams": {"importance_cap": 0.5}}, "hyperparams.importance_cap"),
        ({"rewards": {"final": ["rolle"]}}, "unknown final transform 'rolle'"),
    ],
)
def test_impossible_values_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UnknownName)) as caught:
        TrainerConfig(algorithm="GRPO", language={}, **given).typed_hyperparams()
    assert message in str(caught.value)
