"""The feature extractor `balatro`: jokers, consumables, offers and cards of the hand as learnt embeddings.

Balatro's Dict observation has integer ids of what is in each slot, next to the numeric features of the slots. An item
has one embedding whether it is held, in the shop or in a pack; so has each of the 52 cards.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from ludus.errors import ConfigError
from ludus.games.balatro.plugin import PLACES, choose_extractor
from ludus.policies.extractors import WHERE, RawObservationExtractor


class BalatroExtractor(RawObservationExtractor):
    """Embed each slot's id, add its features, apply one layer; jokers are summed, the other slots concatenated."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        features_dim: int = 512,
        item_dim: int = 32,
        card_dim: int = 16,
        place_dim: int = 32,
    ) -> None:
        super().__init__(observation_space, features_dim)
        if not isinstance(observation_space, gym.spaces.Dict) or choose_extractor(observation_space) is None:
            raise ConfigError(
                f"the extractor balatro needs Balatro's Dict observation, got {type(observation_space).__name__}",
                where=WHERE,
                fix="set env.kwargs.observation: dict, or features_extractor: auto",
            )
        sizes = {name: _choices(observation_space[ids]) for name, ids in PLACES.items()}
        self.counts = {name: len(size) for name, size in sizes.items()}
        items = _choices(observation_space["consumable_ids"])
        self.items = nn.Embedding(max(items), item_dim, padding_idx=0)
        self.cards = nn.Embedding(max(sizes["hand"]), card_dim, padding_idx=0)
        self.places = nn.ModuleDict()
        for name, count in self.counts.items():
            numbers = _width(observation_space[name]) // count
            embedded = card_dim if name == "hand" else item_dim
            self.places[name] = nn.Linear(embedded + numbers, place_dim)
        self.order = nn.Parameter(torch.zeros(self.counts["jokers"], place_dim))
        self.rest = [
            name
            for name, part in observation_space.spaces.items()
            if name not in PLACES and isinstance(part, gym.spaces.Box)
        ]
        width = sum(_width(observation_space[name]) for name in self.rest)
        width += item_dim + place_dim * (1 + self.counts["offers"] + self.counts["hand"])
        self.linear = nn.Sequential(nn.Linear(width, features_dim), nn.ReLU())

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        jokers, offers, hand = (self._places(name, observations) for name in PLACES)
        held = observations["joker_ids"].unsqueeze(-1) > 0
        parts = [observations[name] for name in self.rest]
        parts.append(self.items(observations["consumable_ids"]).sum(dim=1))
        parts.append((torch.relu(jokers + self.order) * held).sum(dim=1))
        parts += [torch.relu(offers).flatten(1), torch.relu(hand).flatten(1)]
        features: Tensor = self.linear(torch.cat(parts, dim=1))
        return features

    def _places(self, name: str, observations: dict[str, Tensor]) -> Tensor:
        table = self.cards if name == "hand" else self.items
        embedded = table(observations[PLACES[name]])
        numbers = observations[name].unflatten(1, (self.counts[name], -1))  # type: ignore[no-untyped-call]
        placed: Tensor = self.places[name](torch.cat([embedded, numbers], dim=2))
        return placed


def _choices(space: gym.Space[Any]) -> list[int]:
    assert isinstance(space, gym.spaces.MultiDiscrete)
    return [int(n) for n in space.nvec]


def _width(space: gym.Space[Any]) -> int:
    assert space.shape is not None
    return int(space.shape[0])
