"""`create_trainer`: create the trainer of a config, native or registered by a third party."""

from __future__ import annotations

from typing import Any

from ludus.config.loading import LoadedConfig, load_config
from ludus.config.registry import LANGUAGE, NATIVE
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, MissingExtra, UserError
from ludus.plugins import load, plugins
from ludus.runs.directory import RunDirectory
from ludus.training.base import RLTrainer
from ludus.training.native import NativeTrainer
from ludus.training.resume import repair_run_files
from ludus.training.trainer import RunTrainer


def create_trainer(env: Any = None, config: TrainerConfig | None = None, **options: Any) -> RLTrainer:
    """Return a trainer for `config`'s algorithm.

    `env` is an id, a function returning a new env (replicated `n_envs` times), or an env instance (used as the
    one env it is); None takes `config.env`. `options` go to the trainer (`display`).
    """
    config = TrainerConfig() if config is None else config
    if config.language is not None:
        return _engine_trainer(LANGUAGE)(env, config, **options)
    if env is None and config.env is None:
        raise ConfigError(
            "no env is given", key="env", fix="set env in the config, or pass one to create_trainer"
        )
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


def open_trainer(run: RunDirectory, **options: Any) -> RunTrainer:
    """Return the trainer of an existing run, from its `config.yaml`, ready to `resume`; see `repair_run_files`."""
    repair_run_files(run)
    loaded: LoadedConfig = load_config(run.config_path)
    if loaded.config.env is None and loaded.config.language is None:
        raise UserError(
            "this run trained on an env object, which a config cannot name",
            where=str(run.path),
            fix="in Python: create_trainer(env, config).resume(run), with the same env",
        )
    trainer = create_trainer(None, loaded.config, **options)
    if not isinstance(trainer, RunTrainer):
        raise UserError(
            f"the algorithm '{loaded.config.algorithm}' brings its own trainer, which does not resume",
            where=str(run.path),
        )
    return trainer
