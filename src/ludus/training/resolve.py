"""What `auto` and everything left unsaid become; `config.yaml` of a run names each choice."""

from __future__ import annotations

import itertools
import json
import logging
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ludus.algorithms.learner import Learner
from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.schema import EnvConfig, PolicyConfig, TrainerConfig
from ludus.errors import ConfigError
from ludus.policies.observations import is_image_space
from ludus.training.env_source import EnvSource

_log = logging.getLogger("ludus.training")
SMALL_NETWORK = 1_000_000
WORTH_A_GPU = 20_000_000  # PPO with two 64x64 networks from batches of 2,048 on; SAC with 256x256


def resolve_config(config: TrainerConfig, source: EnvSource) -> TrainerConfig:
    """`config` with env, number of envs, device and every hyperparameter filled in and checked."""
    for name in config.ignored_hyperparams():
        _log.warning("%s has no hyperparameter '%s'; it is ignored", config.algorithm, name)
    config = config.model_copy(
        update={
            "algorithm": config.algorithm_entry().name,
            "env": _named_env(config, source),
            "n_envs": source.n_envs,
            "device": check_device(config.device),
            "policy": _with_features_dim(config),
        }
    )
    if source.support.no_spare_simulator:
        config = _on_training_envs_alone(config)
    typed = config.typed_hyperparams()
    return config.model_copy(update={"hyperparams": HyperparameterConfig(**typed.model_dump())})


def _on_training_envs_alone(config: TrainerConfig) -> TrainerConfig:
    """`config` without evaluations; ConfigError where evaluations or videos were asked for."""
    for name, command in (("evaluation", "ludus eval RUN"), ("video", "ludus play RUN --video")):
        asked = name in config.model_fields_set and getattr(config, name).every is not None
        if asked:
            raise ConfigError(
                f"{name} while training needs an engine of its own, and all engines are used for training",
                key=f"{name}.every",
                fix=f"set {name}: null, and afterwards: {command}",
            )
    return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": None})})


def check_device(asked: str) -> str:
    """`asked`; ConfigError when it is no device, or one that is not there."""
    if asked == "auto":
        return asked
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


def choose_device(config: TrainerConfig, observation_space: gym.Space[Any]) -> str:
    """What `device: auto` becomes: a GPU for all but plain networks with so little to do that it would wait.

    The measure is what one gradient step multiplies: parameters of two networks times samples.
    """
    if not torch.cuda.is_available():
        return "cpu"
    plain = isinstance(observation_space, gym.spaces.Box) and not is_image_space(observation_space)
    if not (plain and config.kernels and config.engine == "native"):
        return "cuda"
    h: Any = config.typed_hyperparams()
    batch = getattr(h, "batch_size", getattr(h, "n_steps", 1) * config.n_envs)
    inputs = int(np.prod(observation_space.shape or ()))
    work = 0
    for widths in (h.policy_net_arch, h.value_net_arch):
        layers = [inputs, *widths]
        work += sum(a * b for a, b in itertools.pairwise(layers)) * batch
    return "cuda" if work >= WORTH_A_GPU else "cpu"


def choose_precision(asked: str, device: torch.device, observation_space: gym.Space[Any]) -> str:
    """What `precision: auto` becomes."""
    if asked != "auto":
        return asked
    if device.type != "cuda":
        return "float32"
    parts = (
        observation_space.spaces.values()
        if isinstance(observation_space, gym.spaces.Dict)
        else [observation_space]
    )
    return "bfloat16" if any(map(is_image_space, parts)) else "tf32"


def available_threads(asked: int | str, cores: int) -> int:
    """How many threads a run may use that has `cores` to learn with."""
    return cores if asked == "auto" else int(asked)


def keep_to_one_thread() -> None:
    """For as long as a network is built: orthogonal weights differ in their last bits with the number of threads.

    A process starts with as many as there are cores, and `set_threads` leaves torch with what the last run used. BLAS
    keeps to one: the kernels call it from several cores at once.
    """
    import_module("scipy.linalg.cython_blas")  # the kernels' own: a library can be told once it is loaded
    threadpool_limits(limits=1, user_api="blas")
    torch.set_num_threads(1)


def set_threads(asked: int | str, threads: int, learner: Learner[Any, Any], device: torch.device) -> int:
    """Tell torch how many threads to use, of those available; returns how many the run uses. BLAS keeps to one.

    A small network is faster on one thread than on several that wait for each other. Under the fused kernels,
    which spread over two cores by themselves, torch keeps to one too.
    """
    if learner.kernels is not None:
        torch.set_num_threads(1)
        return min(threads, 2)
    parameters = sum(parameter.numel() for parameter in learner.policy.parameters())
    if asked == "auto" and (device.type != "cpu" or parameters < SMALL_NETWORK):
        threads = 1
    torch.set_num_threads(threads)
    return threads


def _with_features_dim(config: TrainerConfig) -> PolicyConfig:
    """The policy section; `hyperparams.features_dim`, the older place for it, may have been set since."""
    features_dim = config.hyperparams.features_dim
    return (
        config.policy
        if features_dim is None
        else config.policy.model_copy(update={"features_dim": features_dim})
    )


def _named_env(config: TrainerConfig, source: EnvSource) -> EnvConfig | None:
    """The env as a config can name it; None when it is an object or function that has no name."""
    if source.spec is not None:
        fields = {name: getattr(source.spec, name) for name in EnvConfig.model_fields}
        kwargs = source.support.plain_kwargs(fields["kwargs"])
        return EnvConfig(**{**fields, "kwargs": kwargs, "wrappers": list(fields["wrappers"])})
    registered = source.registered
    if registered is None:
        return None
    kwargs = {key: value for key, value in registered.kwargs.items() if key != "render_mode"}
    try:
        json.dumps(kwargs)
    except TypeError:
        return None  # arguments that a config cannot hold
    known = gym.spec(registered.id).max_episode_steps
    limit = registered.max_episode_steps
    return EnvConfig(id=registered.id, kwargs=kwargs, max_episode_steps=None if limit == known else limit)
