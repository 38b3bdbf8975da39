"""`create_trainer`: the one door to every trainer, native or registered by a third party."""

from __future__ import annotations

from typing import Any

from ludus.config.loading import LoadedConfig, load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, MissingExtra, UserError
from ludus.runs.directory import RunDirectory
from ludus.training.base import RLTrainer
from ludus.training.native import NativeTrainer
from ludus.training.resume import repair_run_files
from ludus.training.trainer import RunTrainer


def create_trainer(env: Any = None, config: TrainerConfig | None = None, **options: Any) -> RLTrainer:
    """A trainer for `config`'s algorithm.

    `env` is an id, a function returning a new env (replicated `n_envs` times), or an env instance (used as the
    one env it is); None takes `config.env`. `options` go to the trainer (`display`).
    """
    config = TrainerConfig() if config is None else config
    if config.language is not None:
        return _language_trainer(env, config, **options)
    if env is None and config.env is None:
        raise ConfigError(
            "no env is given", key="env", fix="set env in the config, or pass one to create_trainer"
        )
    entry = config.algorithm_entry()
    if entry.trainer is not None:
        trainer: RLTrainer = entry.trainer(env if env is not None else config.env.id, config)  # type: ignore[union-attr]
        return trainer
    if config.engine == "sb3":
        _refuse_scale(config)
        from ludus.sb3.trainer import SB3Trainer

        return SB3Trainer(env, config, **options)
    if config.scale is not None:
        from ludus.training.scaled import ScaledTrainer

        return ScaledTrainer(env, config, **options)
    return NativeTrainer(env, config, **options)


def _refuse_scale(config: TrainerConfig) -> None:
    if config.scale is not None:
        raise ConfigError(
            "scale: needs Ludus's own algorithms; those of Stable-Baselines3 play on one machine",
            key="scale",
            fix="leave scale out, or engine: sb3",
        )


def _language_trainer(env: Any, config: TrainerConfig, **options: Any) -> RLTrainer:
    try:
        from ludus.language.trainer import LanguageTrainer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "ludus":
            raise
        raise MissingExtra("training a language model", "text") from error
    return LanguageTrainer(env, config, **options)


def open_trainer(run: RunDirectory, **options: Any) -> RunTrainer:
    """The trainer of an existing run, from its `config.yaml`, ready to `resume`; see `repair_run_files`."""
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
