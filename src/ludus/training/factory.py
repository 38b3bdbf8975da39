"""`create_trainer`: create the trainer of a config, native or registered by a third party."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ludus.config.loading import load_config
from ludus.config.own_modules import current_trust, trust_folders
from ludus.config.registry import LANGUAGE, NATIVE, find_algorithm
from ludus.config.requests import ConsentRequest, requests_to_train, require_all
from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.errors import ConfigError, MissingExtra, UserError
from ludus.plugins import load, plugins
from ludus.runs.directory import RunDirectory
from ludus.training.base import RLTrainer
from ludus.training.env_source import require_env
from ludus.training.native import NativeTrainer
from ludus.training.resume import repair_run_files
from ludus.training.trainer import RunTrainer


def create_trainer(
    env: Any = None, config: TrainerConfig | Mapping[str, Any] | str | None = None, **options: Any
) -> RLTrainer:
    """Return a trainer for `config`'s algorithm.

    `env` is an id; a function that returns a new env (called `n_envs` times); an env object (with copies of it if
    `n_envs` is set); or a vector env of Gymnasium or Stable-Baselines3. None uses `config.env`. `config` may also be a
    dict of its keys, or the name of an algorithm. `options` are passed to the trainer (`display`).
    """
    config = _as_config(config)
    if config.language is not None:
        return _engine_trainer(LANGUAGE)(env, config, **options)
    require_env(env, config)
    entry = config.algorithm_entry()
    if entry.trainer is not None:
        trainer: RLTrainer = entry.trainer(env if env is not None else config.env.id, config)  # type: ignore[union-attr]
        return trainer
    if config.engine != NATIVE:
        _refuse_scale(config)
        return _engine_trainer(config.engine)(env, config, **options)
    if config.scale is not None:
        from ludus.training.scaled import ScaledTrainer

        return ScaledTrainer(env, config, **options)
    return NativeTrainer(env, config, **options)


def _as_config(given: Any) -> TrainerConfig:
    """`given` as a config; UserError where it is not one."""
    if isinstance(given, TrainerConfig):
        return given
    if given is None:
        return TrainerConfig()
    if isinstance(given, str):
        return TrainerConfig(algorithm=find_algorithm(given).name)
    if isinstance(given, Mapping):
        return TrainerConfig.model_validate(dict(given))
    raise UserError(
        f"expected a TrainerConfig, got {type(given).__name__}",
        where="create_trainer(env, config)",
        fix='give TrainerConfig(algorithm="PPO", …), a dict of its keys, or the name of an algorithm',
    )


def _refuse_scale(config: TrainerConfig) -> None:
    if config.scale is not None:
        raise ConfigError(
            f"scale: needs Ludus's own algorithms; those of engine: {config.engine} play on one machine",
            key="scale",
            fix=f"leave scale out, or engine: {config.engine}",
        )


def _engine_trainer(engine: str) -> type[RLTrainer]:
    """Return the trainer class of a plugin's engine. MissingExtra where its packages are not installed."""
    plugin = next(plugin for plugin in plugins() if engine in plugin.engines)
    try:
        trainer: type[RLTrainer] = load(plugin.engines[engine])
    except ModuleNotFoundError as error:
        if plugin.extra is None or error.name is None or error.name.partition(".")[0] == "ludus":
            raise
        what = "training a language model" if engine == LANGUAGE else f"engine: {engine}"
        raise MissingExtra(what, plugin.extra) from error
    return trainer


def open_trainer(run: RunDirectory, *, ray: str | None = None, **options: Any) -> RunTrainer:
    """Return the trainer of an existing run, from its `config.yaml`, ready to `resume`; see `repair_run_files`.

    `ray` is where a run on Ray finds its cluster now. `options` go to the trainer. UserError where the run was not
    trained here and asks for consent.
    """
    repair_run_files(run)
    config = load_config(run.config_path).config
    if config.env is None and config.language is None:
        raise UserError(
            "this run trained on an env object, which a config cannot name",
            where=str(run.path),
            fix="in Python: create_trainer(env, config).resume(run), with the same env",
        )
    from ludus.config.trained_here import trust_in_run

    trust, current = trust_in_run(config), current_trust()
    if current.by_user:
        trust_folders([*trust.folders, *(current.folders or (os.curdir,))])
    elif trust.by_user:  # code of the user's own is where it was when the run was trained
        trust_folders(trust.folders)
    if ray is not None:
        config = on_cluster(config, ray)
    require_all(requests_of(config), str(run.config_path))
    trainer = create_trainer(None, config, **options)
    if not isinstance(trainer, RunTrainer):
        raise UserError(
            f"the algorithm '{config.algorithm}' brings its own trainer, which does not resume",
            where=str(run.path),
        )
    return trainer


def requests_of(config: TrainerConfig) -> Iterator[ConsentRequest]:
    """Return everything outside the run that training with `config` would use. Raises ConfigError."""
    if config.env is not None:
        yield from EnvSpec(**config.env.model_dump()).requests()
    yield from requests_to_train(config)


def on_cluster(config: TrainerConfig, ray: str) -> TrainerConfig:
    """Return `config` with another cluster than the run was started on."""
    scale = config.scale
    if scale is None:
        raise UserError(
            "this run has no collectors on Ray, and would not be the same with them",
            where="command line: --scale",
            fix="leave --scale out, or start a new run with it",
        )
    try:
        moved = type(scale)(**scale.model_dump() | {"ray": ray})
    except ValueError:
        raise UserError(
            f"'{ray}' is not an address of a Ray cluster",
            where="command line: --scale",
            fix="auto, local, HOST:6379 or ray://HOST:10001",
        ) from None
    return config.model_copy(update={"scale": moved})
