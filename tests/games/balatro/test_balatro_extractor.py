"""The extractor `balatro`: embeddings for what lies where, and the order of jokers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

import ludus.games.balatro.extractor  # noqa: F401  # registers it
from ludus.errors import ConfigError
from ludus.games.balatro.extractor import BalatroExtractor
from ludus.games.balatro.spaces import dict_space, flat_space
from ludus.policies.extractors import auto_extractor, make_extractor

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
    torch.nn.init.normal_(extractor.order)  # as learning leaves it
    return extractor


def test_auto_takes_it_for_the_dict_of_the_game_and_nothing_else() -> None:
    assert auto_extractor(SPACE) == "balatro"
    assert isinstance(make_extractor("auto", SPACE, features_dim=16, kwargs={}), BalatroExtractor)
    with pytest.raises(ConfigError, match="Dict observation"):
        make_extractor("balatro", flat_space(8), features_dim=16, kwargs={})


def test_a_joker_and_its_place_count_and_an_empty_place_does_not() -> None:
    extractor = made()
    empty, one, swapped, other = (features(extractor, joker_ids=ids) for ids in ([], [5, 9], [9, 5], [5, 10]))
    assert not np.allclose(one, empty) and not np.allclose(one, other)
    assert not np.allclose(one, swapped)
    assert np.array_equal(features(extractor, joker_ids=[5, 9, 0]), one)


def test_an_item_has_one_embedding_wherever_it_lies() -> None:
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
