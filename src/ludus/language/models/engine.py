"""Sampling engines with weights of their own: adapters are sent to them by name, and a name means one adapter only.

`PublishedSampler` is how a run plays through one. What an engine draws follows from the requests and a seed, so that a
batch can be asked for again, elsewhere, when an engine is lost.
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
        """Have an adapter of this name, which was never used before."""

    def drop(self, name: str) -> None:
        """Let an adapter go. Its name does not come back."""

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        """A completion for each request, in order, whose adapters are all here."""

    def forget(self) -> None:
        """Drop what is kept between calls."""

    def close(self) -> None:
        """End it."""


@runtime_checkable
class Resizable(Protocol):
    """An engine made of several, which may become more or fewer."""

    @property
    def number(self) -> int: ...

    def resize(self, number: int) -> None: ...


class LocalEngine:
    """A model in this process that no learner touches."""

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
    """Plays what was last published under each name. Draws its seeds from `generator`.

    Every publication gets a name of its own for the engine (`learner#12`), so that neither an adapter that is still
    there nor keys and values that were computed with it can be taken for another's.
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
        """From here on requests for `name` are answered with these weights."""
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
