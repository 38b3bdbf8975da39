"""Sampling engines with their own copy of the weights. Adapters are sent by name; a name is used for one adapter only.

A run plays through a `PublishedSampler`. Samples depend only on the requests and a seed, so a batch can be repeated by
another engine when one is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ludus.config.language import LanguageConfig, SamplerConfig
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import LanguageModel
from ludus.language.models.sampling import Completion, Request


class SamplingEngine(Protocol):
    def load(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Load an adapter under a name that was never used before."""

    def drop(self, name: str) -> None:
        """Remove an adapter. Its name is not used again."""

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        """Return a completion for each request, in order. All their adapters must be loaded."""

    def forget(self) -> None:
        """Clear the caches."""

    def close(self) -> None:
        """Close the engine."""


@runtime_checkable
class Resizable(Protocol):
    """An engine that consists of a variable number of others."""

    @property
    def number(self) -> int: ...

    def resize(self, number: int) -> None: ...


class LocalEngine:
    """A model in this process that is not trained."""

    def __init__(self, model: LanguageModel, language: LanguageConfig) -> None:
        self.model = model
        self._adapter = None if language.adapter is None else language.adapter.without_start()
        self._samplers: dict[str, LocalSampler] = {}

    def load(self, name: str, weights: Mapping[str, Tensor]) -> None:
        self.model.add_adapter(name, self._adapter)
        self.model.load_adapter_tensors(name, weights)
        for parameter in self.model.trainable(name):
            parameter.requires_grad_(False)

    def drop(self, name: str) -> None:
        self.model.remove_adapter(name)

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        key = settings.model_dump_json()
        if key not in self._samplers:
            self._samplers[key] = LocalSampler(self.model, settings, torch.Generator())
        sampler = self._samplers[key]
        sampler.generator.manual_seed(seed)
        return sampler.sample(requests)

    def forget(self) -> None:
        for sampler in self._samplers.values():
            sampler.forget()

    def close(self) -> None:
        self._samplers.clear()


class PublishedSampler:
    """Samples with the last published weights of each name. Seeds come from `generator`.

    Every publication has a new name in the engine (`learner#12`), so that old adapters and their cached keys and values
    are never used by mistake.
    """

    def __init__(self, engine: SamplingEngine, settings: SamplerConfig, generator: torch.Generator) -> None:
        self.engine = engine
        self.settings = settings
        self.generator = generator
        self.current: dict[str, str] = {}
        self._published = 0

    def with_settings(self, settings: SamplerConfig, generator: torch.Generator) -> PublishedSampler:
        """Return a sampler of the same players with other settings."""
        other = PublishedSampler(self.engine, settings, generator)
        other.current = self.current
        return other

    def publish(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Answer requests for `name` with these weights from now on."""
        self._published += 1
        before, now = self.current.get(name), f"{name}#{self._published}"
        self.engine.load(now, weights)
        self.current[name] = now
        if before is not None:
            self.engine.drop(before)

    def withdraw(self, name: str) -> None:
        self.engine.drop(self.current.pop(name))

    def forget(self) -> None:
        self.engine.forget()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        seed = int(torch.randint(2**62, (), generator=self.generator))
        named = [
            replace(request, adapter=None if request.adapter is None else self.current[request.adapter])
            for request in requests
        ]
        return self.engine.sample(named, self.settings, seed) if named else []
