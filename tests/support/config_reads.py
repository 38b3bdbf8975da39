"""Records which config keys the code uses: reads of every section, while a real run trains."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from pydantic import BaseModel

from ludus.algorithms.learner import LearnerContext
from ludus.config.hyperparameters import LearningHyperparameters
from ludus.config.schema import TrainerConfig
from ludus.config.sections import Section
from ludus.policies.base import NetworkSpec

# Code that passes configs on (to YAML, to hashes, to copies) or warns of keys: it reads keys and uses none.
_COPIES = (
    ("ludus.config.loading", ""),
    ("ludus.config.describe", ""),
    ("ludus.config.schema", "TrainerConfig.__getattr__"),
    ("ludus.config.language", "LeagueConfig._"),
    ("ludus.config.language", "SamplerConfig._"),
    ("ludus.training.resolve", "ResolvedConfig"),
    ("ludus.training.resolve", "_is_set"),
    ("ludus.training.native", "NativeTrainer._learner_context"),
    ("ludus.training.native", "NativeTrainer._warn_unused_keys"),
    ("ludus.algorithms.learner", "LearnerContext.network"),
)
# What a section becomes on its way to the code that uses it: its fields, and the keys that they stand for.
_CARRIERS: dict[type, dict[str, str]] = {
    LearnerContext: {
        "kernels": "kernels",
        "threads": "threads",
        "half_features": "precision",
        "normalize_obs": "normalize_obs",
        "reward_normalizer": "normalize_reward",
        "n_envs": "n_envs",
        "device": "device",
    },
    NetworkSpec: {
        name: f"hyperparams.{name}"
        if name.endswith("net_arch")
        else name
        if name == "normalize_obs"
        else f"policy.{name}"
        for name in NetworkSpec.__dataclass_fields__
    },
}


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _sections_in(part)


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[type[BaseModel], str, str]]:
    for name, field in model.model_fields.items():
        inner = list(_sections_in(field.annotation))
        if not inner and name != "hyperparams":
            yield model, name, prefix + name
        for section in inner:
            yield from _walk(section, f"{prefix}{name}.")


def _paths() -> dict[type[BaseModel], dict[str, set[str]]]:
    """The keys that a field of a section stands for; a section may be used in several places."""
    paths: dict[type[BaseModel], dict[str, set[str]]] = {}
    for model, name, key in _walk(TrainerConfig, ""):
        paths.setdefault(model, {}).setdefault(name, set()).add(key)
    return paths


_PATHS = _paths()
EVERY_KEY = frozenset(key for fields in _PATHS.values() for keys in fields.values() for key in keys)


def keys_of(hyperparameters: type[LearningHyperparameters]) -> set[str]:
    """The hyperparameters of an algorithm as config keys."""
    return {f"hyperparams.{name}" for name in hyperparameters.model_fields}


def recorded_reads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that from now on receives every key that code of Ludus uses."""
    used: set[str] = set()

    def note(instance: Any, name: str) -> None:
        if isinstance(instance, LearningHyperparameters):
            if name in type(instance).model_fields:
                used.add(f"hyperparams.{name}")
            return
        for cls in type(instance).__mro__:
            used.update(_PATHS.get(cls, {}).get(name, ()))
            if name in _CARRIERS.get(cls, {}):
                used.add(_CARRIERS[cls][name])

    def getting(plain: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            value = plain(self, name)
            if not name.startswith("_") and _uses(sys._getframe(1)):
                note(self, name)
            return value

        return get

    def dumping(plain: Callable[..., Any]) -> Callable[..., Any]:
        def dump(self: Any, **options: Any) -> Any:
            if not isinstance(self, TrainerConfig) and _uses(sys._getframe(1)):
                for name in type(self).model_fields:
                    note(self, name)
            return plain(self, **options)

        return dump

    for cls in (Section, LearningHyperparameters, *_CARRIERS):
        monkeypatch.setattr(cls, "__getattribute__", getting(cls.__getattribute__), raising=False)
    monkeypatch.setattr(Section, "model_dump", dumping(Section.model_dump))
    return used


def _uses(frame: FrameType) -> bool:
    """Return True if the code of `frame` is Ludus's and uses the value that it reads."""
    module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
    if not module.startswith("ludus.") or "unused" in function:
        return False
    return not any(module == copier and function.startswith(part) for copier, part in _COPIES)
