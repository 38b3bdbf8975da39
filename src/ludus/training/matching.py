"""Find the run that `--resume` continues: the newest that learns what the config says, with any budget."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.config.loading import FREE_KEYS, config_hash, learning_hash, load_config, plain_config
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory, find_config_runs, list_runs
from ludus.training.resume import readable_checkpoints, repair_run_files

_log = logging.getLogger("ludus.training")

_NOT_SET = "not set"
_WITHIN_A_RUN = ("checkpoint", "evaluation", "early_stopping", "video", "tracking", "mirror")
"""Of the free keys, sections that take effect when a run is continued with others."""


@dataclass(frozen=True)
class Difference:
    """A key that has one value in a run and another in the config asked for."""

    key: str
    there: Any
    here: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.there} there, {self.here} here"


@dataclass(frozen=True)
class RunToContinue:
    """A run of the same env and algorithm. `differences`: keys that change what is learnt; none: it can continue.

    `same_config`: nothing at all was changed.
    """

    run: RunDirectory
    differences: tuple[Difference, ...] = ()
    same_config: bool = False


def find_match(config: TrainerConfig, env_id: str | None = None) -> RunToContinue | None:
    """The run of exactly this config; else one that learns the same; else the newest of its env and algorithm.

    `env_id`: only runs on this env, for configs that do not name it because the env is an object.
    """
    root = Path(config.run_dir or config.save_dir)
    same = find_config_runs(root, config_hash(config))
    if same is not None and env_id in (None, same.info().get("env_id")):
        return RunToContinue(same, same_config=True)
    asked, algorithm = learning_hash(config), config.algorithm_entry().name
    runs = [run for run in list_runs(root) if run.info().get("algorithm") == algorithm]
    runs = [run for run in runs if env_id in (None, run.info().get("env_id"))]
    for run in runs:
        if run.info().get("learning_hash") == asked:
            return RunToContinue(run.held_together())
    other: RunToContinue | None = None
    for run in runs:
        differences = _differences(run, config)
        if differences == ():
            return RunToContinue(run.held_together())
        if differences and other is None:
            other = RunToContinue(run.held_together(), differences)
    return other


def newest_resumable(config: TrainerConfig, env_id: str) -> RunDirectory | None:
    """Return the run on this env that `resume: auto` continues; None, with the reason in the log, to start one."""
    match = find_match(config, env_id)
    if match is None:
        _log.info("resume: auto found no run of this config in %s: starting one", config.save_dir)
        return None
    if match.differences:
        _log.warning(
            "resume: auto starts a new run: %s has other settings (%s)",
            match.run.path,
            "; ".join(map(str, match.differences)),
        )
        return None
    repair_run_files(match.run)
    with readable_checkpoints(match.run):
        found = CheckpointManager(match.run.checkpoints_dir).newest_intact()
    if found is None:
        _log.warning("resume: auto starts a new run: %s ended before its first checkpoint", match.run.path)
        return None
    return match.run


def learns_the_same(run: RunDirectory, config: TrainerConfig) -> bool:
    """Return True if `config.yaml` of the run has the settings of `config`; its `run.json` is not read."""
    return _differences(run, config) == ()


def with_free_keys(saved: TrainerConfig, asked: TrainerConfig) -> TrainerConfig:
    """`saved` with the budget that is asked for, and what else was given that does not change what is learnt."""
    given = {name: getattr(asked, name) for name in _WITHIN_A_RUN if name in asked.model_fields_set}
    return saved.model_copy(update={**given, "total_timesteps": asked.total_timesteps})


def _differences(run: RunDirectory, asked: TrainerConfig) -> tuple[Difference, ...] | None:
    """The keys that change what is learnt and differ; None for a run of another env, model or engine."""
    try:
        saved = load_config(run.config_path).config
        there = dict(_learning_keys(saved))
    except (UserError, OSError):
        return None  # damaged, or of a version that cannot be read: nothing to continue
    here = dict(_learning_keys(asked))
    if any(there.get(key) != here.get(key) for key in ("env.id", "engine", "language.model")):
        return None
    pairs = [(key, there.get(key, _NOT_SET), here.get(key, _NOT_SET)) for key in {**there, **here}]
    # a run's own config has the choice that `auto` made
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2] and pair[2] != "auto")


def _learning_keys(config: TrainerConfig) -> Iterator[tuple[str, Any]]:
    data = {name: value for name, value in plain_config(config).items() if name not in FREE_KEYS}
    data["algorithm"] = config.algorithm_entry().name
    data["normalize_reward"] = config.normalizes_reward()
    data["hyperparams"] = config.typed_hyperparams().model_dump(mode="json")
    yield from _flat(data)


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
