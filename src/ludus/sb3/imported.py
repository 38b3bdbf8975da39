"""Writes a model of Stable-Baselines3 as a run, to evaluate, to play, or to start another run from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ludus.config.loading import dump_yaml, sealed
from ludus.config.schema import EnvConfig, TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.user_code import close_env
from ludus.errors import UserError
from ludus.evaluation.load import new_learner
from ludus.runs.atomic import write_atomic
from ludus.runs.directory import RunDirectory, command_line, versions
from ludus.sb3.import_zip import ImportedModel, read_sb3_zip, read_statistics, statistics_beside
from ludus.training.trainer import save_policy
from ludus.types import Progress


@dataclass(frozen=True)
class ImportedRun:
    """The new run, the algorithm and steps of the model, and the file of its statistics."""

    run: RunDirectory
    algorithm: str
    steps: int
    statistics: Path | None


def import_zip(
    file: Path,
    env: EnvSpec,
    *,
    algorithm: str | None,
    statistics: Path | None,
    name: str,
    save_dir: str,
) -> ImportedRun:
    """Write the run of the zip `file`, with normalisation statistics from a file next to it or the one given."""
    model = read_sb3_zip(file, algorithm)
    found = statistics or statistics_beside(file)
    tensors = {} if found is None else read_statistics(found, env)
    run = write_imported(model, env, tensors, name=name, save_dir=save_dir)
    return ImportedRun(run, model.algorithm, model.steps, found)


def write_imported(
    model: ImportedModel,
    env: EnvSpec,
    statistics: dict[str, torch.Tensor],
    *,
    name: str,
    save_dir: str,
) -> RunDirectory:
    """Write a run of `model` on `env`, with one checkpoint that holds the policy and its `statistics`.

    Raises UserError if the networks do not fit the env's spaces.
    """
    config = TrainerConfig(
        name=name,
        algorithm=model.algorithm,
        env=EnvConfig(id=env.id),
        n_envs=1,
        hyperparams=model.hyperparams,
        policy=model.policy,
        normalize_obs=bool(statistics),
        save_dir=save_dir,
    )
    single = env()
    try:
        policy = new_learner(config, single.observation_space, single.action_space).policy
    finally:
        close_env(single)
    try:
        policy.load_state_dict(model.weights | statistics)
    except RuntimeError as error:
        raise UserError(
            f"the model does not fit {env.id}: {str(error).splitlines()[-1].strip()}",
            where=f"command line: --env {env.id}",
            fix="give the env it was trained on",
        ) from None
    run = RunDirectory.create(save_dir, env.id, model.algorithm, name)
    write_atomic(run.config_path, sealed(dump_yaml(config)))
    run.update_info(status="exported", steps=model.steps, command=command_line(), versions=versions())
    save_policy(run, policy, Progress(steps=model.steps))
    return run
