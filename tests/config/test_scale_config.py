"""`scale:` says where a run plays; runs without it hash and behave as before it existed."""

from __future__ import annotations

import pytest

from ludus.config.loading import config_hash, load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError


def test_where_collectors_run_is_not_what_is_asked_for_but_their_number_is() -> None:
    plain = TrainerConfig(env="CartPole-v1", seed=1)
    assert config_hash(plain) == "90129850b5887fd3"  # as before there was a scale section
    two = TrainerConfig(env="CartPole-v1", seed=1, scale={"collectors": 2})
    elsewhere = {"collectors": 2, "ray": "10.0.0.1:6379", "cpus_per_collector": 0.5, "max_failures": 3}
    assert config_hash(TrainerConfig(env="CartPole-v1", seed=1, scale=elsewhere)) == config_hash(two)
    assert config_hash(two) != config_hash(plain)
    assert config_hash(two) != config_hash(TrainerConfig(env="CartPole-v1", seed=1, scale={"collectors": 3}))


@pytest.mark.parametrize(
    "address", ["auto", "local", "10.0.0.1:6379", "ray://head.example:10001", "[fe80::1]:6379"]
)
def test_a_cluster_is_named_by_its_address(address: str) -> None:
    scale = load_config(None, ["env=CartPole-v1", f"scale.ray='{address}'"]).config.scale
    assert scale is not None and scale.ray == address and scale.mode == "sync"


@pytest.mark.parametrize("address", ["", "ray://", "http://host:80", "host", "ray://user:secret@host:1"])
def test_other_texts_are_refused(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, ["env=CartPole-v1", f"scale.ray='{address}'"])
    assert caught.value.key == "scale.ray"
