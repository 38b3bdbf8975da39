"""Resolve a config: replace every `auto` and missing value. `config.yaml` of a run contains each choice.

A trainer calls `check_config` before it builds envs, `resolve_config` once the spaces are known, and `resolve_threads`
once the learner is built. `warn_unused_keys` names the keys that were set and that the run does not use.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from threadpoolctl import threadpool_limits

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.schema import EnvConfig, PolicyConfig, TrainerConfig
from ludus.errors import ConfigError
from ludus.policies.extractors import auto_extractor
from ludus.policies.observations import is_image_space
from ludus.training.env_source import EnvSource

_log = logging.getLogger("ludus.training")
SMALL_NETWORK = 1_000_000
_WIDTH_FOLLOWS = ("FlattenExtractor", "CombinedExtractor")
_LANGUAGE_SECTIONS = ("games", "league", "rewards", "guard", "warmup")
_SCALE_FOR_LANGUAGE = ("num_actors", "cpus_per_actor", "gpus_per_actor")
WORTH_A_GPU = 20_000_000  # PPO with two 64x64 networks from batches of 2,048 on; SAC with 256x256


class ResolvedConfig(TrainerConfig):
    """A config with a value for every choice. It cannot be changed."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, config: TrainerConfig, **choices: Any) -> ResolvedConfig:
        """Return `config` with `choices`, which are values that need no validation."""
        given = {name: getattr(config, name) for name in TrainerConfig.model_fields}
        return cls.model_construct(config.model_fields_set | choices.keys(), **(given | choices))


def check_config(config: TrainerConfig, source: EnvSource) -> TrainerConfig:
    """Return `config` with env, number of envs and every hyperparameter filled in. Raises ConfigError."""
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
        config = _on_training_envs_alone(
            config, "an engine of its own, and all engines are used for training"
        )
    elif not source.makes_single:
        _log.warning("no evaluations while training: no single env can be made from this vector env")
        config = _on_training_envs_alone(config, "an env of its own, which this vector env cannot make")
    typed = config.typed_hyperparams().resolved(config.n_envs)
    hyperparams = HyperparameterConfig(**typed.model_dump())
    return config.model_copy(
        update={"hyperparams": hyperparams, "normalize_reward": config.normalizes_reward()}
    )


def resolve_config(config: TrainerConfig, backend: str, observation_space: gym.Space[Any]) -> ResolvedConfig:
    """Choose device and precision for envs with this observation space, which `backend` steps."""
    device = choose_device(config, observation_space) if config.device == "auto" else config.device
    precision = choose_precision(config.precision, torch.device(device), observation_space)
    return ResolvedConfig.of(config, vector=backend, device=str(torch.device(device)), precision=precision)


def _on_training_envs_alone(config: TrainerConfig, needs: str) -> TrainerConfig:
    """Return `config` without evaluations. ConfigError if the user asked for evaluations or videos."""
    for name, command in (("evaluation", "ludus eval RUN"), ("video", "ludus play RUN --video")):
        asked = name in config.model_fields_set and getattr(config, name).every is not None
        if asked:
            raise ConfigError(
                f"{name} while training needs {needs}",
                key=f"{name}.every",
                fix=f"set {name}: null, and afterwards: {command}",
            )
    return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": None})})


def check_device(asked: str) -> str:
    """Return `asked`. ConfigError when it is not a device, or not available."""
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
    """Return what `device: auto` means: a GPU, if there is one, except for plain networks too small to keep it busy.

    The measure is the multiplications of one gradient step: parameters of two networks times samples.
    """
    if not torch.cuda.is_available():
        return "cpu"
    plain = isinstance(observation_space, gym.spaces.Box) and not is_image_space(observation_space)
    if not (plain and config.kernels and config.engine == "native"):
        return "cuda"
    h: Any = config.typed_hyperparams()
    batch = h.samples_per_step(config.n_envs)
    inputs = int(np.prod(observation_space.shape or ()))
    work = 0
    for widths in (h.policy_net_arch, h.value_net_arch):
        layers = [inputs, *widths]
        work += sum(a * b for a, b in itertools.pairwise(layers)) * batch
    return "cuda" if work >= WORTH_A_GPU else "cpu"


def choose_precision(asked: str, device: torch.device, observation_space: gym.Space[Any]) -> str:
    """Return what `precision: auto` means."""
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
    """Return how many threads a run may use that has `cores` to learn with."""
    return cores if asked == "auto" else int(asked)


def keep_to_one_thread() -> None:
    """Limit torch to one thread while a network is built: orthogonal weights depend on the number of threads.

    A process starts with as many threads as cores, and `resolve_threads` leaves torch with those of the last run. BLAS
    keeps to one: the kernels call it from several cores at once.
    """
    import_module("scipy.linalg.cython_blas")  # the kernels' own; only a loaded library can be limited
    threadpool_limits(limits=1, user_api="blas")
    torch.set_num_threads(1)


def resolve_threads(
    config: ResolvedConfig, available: int, *, small: bool, fused_kernels: bool = False
) -> ResolvedConfig:
    """Choose how many of the `available` threads are used, and set torch to it. BLAS keeps to one.

    A `small` network is faster on one thread than on several that wait for each other. Fused kernels use two cores by
    themselves, and torch one.
    """
    threads = 1 if small and config.threads == "auto" else available
    if fused_kernels:
        threads = min(available, 2)
    torch.set_num_threads(1 if fused_kernels else threads)
    return ResolvedConfig.of(config, threads=threads)


def _with_features_dim(config: TrainerConfig) -> PolicyConfig:
    """Return the policy section; `hyperparams.features_dim`, an alias, may have been set after validation."""
    features_dim = config.hyperparams.features_dim
    return (
        config.policy
        if features_dim is None
        else config.policy.model_copy(update={"features_dim": features_dim})
    )


def _named_env(config: TrainerConfig, source: EnvSource) -> EnvConfig | None:
    """Return the env as a config names it; None for an object or function without a name."""
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


def warn_unused_keys(config: TrainerConfig, reasons: Mapping[str, str]) -> None:
    """Log one line for each key of `reasons` that `config` sets to another value than its default."""
    for key, reason in (unused_under_condition(config) | dict(reasons)).items():
        if _is_set(config, key):
            _log.warning("%s has no effect: %s", key, reason)


def unused_under_condition(config: TrainerConfig) -> dict[str, str]:
    """Return the keys that another key of `config` switches off, each with the reason."""
    unused: dict[str, str] = {}
    if config.evaluation.every is None:
        off = "evaluation.every is null, so that nothing is evaluated while training"
        unused |= {"early_stopping.reward_threshold": off, "early_stopping.patience": off}
    if config.video.every is None:
        off = "video.every is null, so that no video is recorded while training"
        unused |= {"video.length": off, "video.overlay": off}
    if not config.tracking.tensorboard:
        unused["tracking.tensorboard_dir"] = "tracking.tensorboard is false"
    if config.scale is not None and config.scale.mode == "sync":
        unused["scale.max_staleness"] = "scale.mode is sync: every update waits for all collectors"
    return unused


def unused_by_env_run() -> dict[str, str]:
    """Return the keys that only language runs use."""
    unused = dict.fromkeys(_LANGUAGE_SECTIONS, "only runs with a language section use it")
    return unused | {
        f"scale.{name}": "only self-play of language models uses it" for name in _SCALE_FOR_LANGUAGE
    }


def unused_by_extractor(config: TrainerConfig, observation_space: gym.Space[Any]) -> dict[str, str]:
    """Return the keys of the policy that its feature extractor does not use.

    Warns of `feature_extractor_type`, another name of `policy.features_extractor`, where it names another game's.
    """
    asked, meant = config.policy.features_extractor, auto_extractor(observation_space)
    named = config.feature_extractor_type
    if asked == "auto" and named not in ("auto", meant):
        _log.warning(
            "feature_extractor_type: %s has no effect: %s reads these observations (%s)",
            named,
            meant,
            type(observation_space).__name__,
        )
    used = meant if asked == "auto" else asked
    if used in _WIDTH_FOLLOWS:
        return {"policy.features_dim": f"the width of {used} follows from the observation space"}
    return {}


def _is_set(config: TrainerConfig, key: str) -> bool:
    """Return True if `key` was given and differs from its default. A resumed run has every key written out."""
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, BaseModel) or part not in node.model_fields_set:
            return False
        default = type(node).model_fields.get(part)
        node, usual = (
            getattr(node, part),
            None if default is None else default.get_default(call_default_factory=True),
        )
    return bool(node != usual)
