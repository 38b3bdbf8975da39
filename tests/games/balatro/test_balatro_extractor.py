"""The extractor `balatro`: embeddings of items and cards, and the order of jokers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

import ludus.games.balatro.extractor  # noqa: F401  # registers it
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.games.balatro.extractor import BalatroExtractor
from ludus.games.balatro.spaces import dict_space, flat_space
from ludus.games.balatro.wrappers import create_balatro_env
from ludus.policies.extractors import auto_extractor, make_extractor
from ludus.training.factory import create_trainer

SPACE = dict_space(8, worked_out=True)


def nothing(space: spaces.Dict = SPACE) -> dict[str, Tensor]:
    """An observation of zeros: no card, no joker, no offer."""
    return {
        name: torch.zeros((1, *part.shape), dtype=torch.long if "ids" in name else torch.float32)
        for name, part in space.spaces.items()
    }


def features(extractor: Any, **places: list[int]) -> np.ndarray:
    obs = nothing()
    for name, ids in places.items():
        obs[name][0, : len(ids)] = torch.tensor(ids)
    found: np.ndarray = extractor(obs).detach().numpy()
    return found


def made() -> BalatroExtractor:
    torch.manual_seed(0)
    extractor = BalatroExtractor(SPACE, features_dim=16)
    torch.nn.init.normal_(extractor.order)  # like a trained one: it is initialised with zeros
    return extractor


def test_auto_selects_the_extractor_only_for_balatro_dict_observations() -> None:
    assert auto_extractor(SPACE) == "balatro"
    assert isinstance(make_extractor("auto", SPACE, features_dim=16, kwargs={}), BalatroExtractor)
    with pytest.raises(ConfigError, match="Dict observation"):
        make_extractor("balatro", flat_space(8), features_dim=16, kwargs={})


def test_jokers_and_their_order_change_features_and_empty_slots_do_not() -> None:
    extractor = made()
    empty, one, swapped, other = (features(extractor, joker_ids=ids) for ids in ([], [5, 9], [9, 5], [5, 10]))
    assert not np.allclose(one, empty) and not np.allclose(one, other)
    assert not np.allclose(one, swapped)
    assert np.array_equal(features(extractor, joker_ids=[5, 9, 0]), one)


def test_item_has_one_embedding_in_all_slots() -> None:
    extractor = made()
    extractor(nothing())
    loss = extractor(nothing() | {"offer_ids": torch.full_like(nothing()["offer_ids"], 7)}).sum()
    loss.backward()
    assert extractor.items.weight.grad is not None
    assert extractor.items.weight.grad[7].abs().sum() > 0
    before = features(extractor, joker_ids=[7])
    with torch.no_grad():
        extractor.items.weight[7] += 1.0
    assert not np.allclose(features(extractor, joker_ids=[7]), before)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN"])
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_the_env_of_the_document_is_read_by_it_with_the_configs_features_dim(
    engine: str, algorithm: str
) -> None:
    config = TrainerConfig(
        engine=engine,
        algorithm=algorithm,
        n_envs=1,
        hyperparams={"features_dim": 24, "policy_net_arch": [8]},
    )
    trainer = create_trainer(create_balatro_env(seed=42), config)
    policy = trainer.create_model()
    extractors = [module for module in policy.modules() if isinstance(module, BalatroExtractor)]
    assert extractors and {extractor.features_dim for extractor in extractors} == {24}
    trainer.close()


def test_on_flat_observations_a_warning_says_that_it_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    config = TrainerConfig(n_envs=1, feature_extractor_type="balatro", hyperparams={"features_dim": 24})
    assert config.feature_extractor_type == "balatro"
    trainer = create_trainer(create_balatro_env(seed=42, observation="flat"), config)
    trainer.create_model()
    trainer.close()
    assert "feature_extractor_type: balatro has no effect: FlattenExtractor reads" in caplog.text
    assert "policy.features_dim has no effect: the width of FlattenExtractor follows" in caplog.text
