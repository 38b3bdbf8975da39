"""What `auto` and everything left unsaid become; `config.yaml` of a run names each choice."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import torch

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.schema import EnvConfig, TrainerConfig
from ludus.errors import ConfigError
from ludus.trainers.env_source import EnvSource

_log = logging.getLogger("ludus.trainers")
SMALL_NETWORK = 1_000_000


def resolve_config(config: TrainerConfig, source: EnvSource) -> TrainerConfig:
    """`config` with env, number of envs, device and every hyperparameter filled in and checked."""
    for name in config.ignored_hyperparams():
        _log.warning("%s has no hyperparameter '%s'; it is ignored", config.algorithm, name)
    config = config.model_copy(
        update={
            "algorithm": config.algorithm_entry().name,
            "env": _named_env(config, source),
            "n_envs": source.n_envs,
            "device": resolve_device(config.device),
        }
    )
    typed = config.typed_hyperparams()
    return config.model_copy(update={"hyperparams": HyperparameterConfig(**typed.model_dump())})


def resolve_device(asked: str) -> str:
    """The torch device to use; ConfigError when it is unknown or not there."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ConfigError(
            f"unknown device '{asked}'", key="device", fix="auto, cpu, cuda, cuda:1 or mps"
        ) from None
    missing = {"cuda": not torch.cuda.is_available(), "mps": not torch.backends.mps.is_available()}
    if missing.get(device.type, False):
        raise ConfigError(
            f"the device '{asked}' is not available on this machine", key="device", fix="use device: auto"
        )
    return asked


def resolve_threads(asked: int | str, parameters: int, device: torch.device) -> int:
    """Torch threads: a small network is faster on one than on several that wait for each other."""
    if asked != "auto":
        return int(asked)
    if device.type != "cpu" or parameters < SMALL_NETWORK:
        return 1
    return os.cpu_count() or 1


def _named_env(config: TrainerConfig, source: EnvSource) -> EnvConfig | None:
    """The env as a config can name it; None when it is an object or function that has no name."""
    if source.spec is not None:
        fields = {name: getattr(source.spec, name) for name in EnvConfig.model_fields}
        return EnvConfig(**{**fields, "kwargs": dict(fields["kwargs"]), "wrappers": list(fields["wrappers"])})
    registered = source.registered
    if registered is None:
        return None
    kwargs: dict[str, Any] = {key: value for key, value in registered.kwargs.items() if key != "render_mode"}
    try:
        json.dumps(kwargs)
    except TypeError:
        return None  # arguments that a config cannot hold
    return EnvConfig(id=registered.id, kwargs=kwargs)
