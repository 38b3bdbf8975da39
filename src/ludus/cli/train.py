"""`ludus train`: from a config, a preset or a few options to a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, Quiet, Verbose
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.config.loading import LoadedConfig
    from ludus.runs.directory import RunDirectory

EXAMPLES = """\b
Examples:
  ludus train quickstart
  ludus train my.yaml seed=1 hyperparams.learning_rate=1e-3
  ludus train --algo ppo --env CartPole-v1 --n-envs 8 --steps 100_000
  ludus train my.yaml --resume          continue its newest run, or start one
"""


def train(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG|PRESET", help="A YAML file, or a preset's name.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Config keys to set, dotted where nested."),
    ] = None,
    algo: Annotated[str | None, typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN, SAC, …")] = None,
    env: EnvId = None,
    n_envs: Annotated[int | None, typer.Option("--n-envs", metavar="N", help="Envs side by side.")] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N|TIME", help='Env steps in all, or "30 min".')
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Where all randomness comes from.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="D", help="auto, cpu, cuda, cuda:1, mps.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="The run's name.")] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="Whose algorithms: native or sb3.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--scale", metavar="ADDRESS", help="On Ray: auto, HOST:6379 or ray://HOST:10001."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue this config's newest run, or start one.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train an agent."""
    from ludus.config.loading import load_config
    from ludus.runs.limits import require_memory_to_train

    output = Output(json, quiet=quiet, verbose=verbose)
    require_memory_to_train()
    source, assignments = split_source(config, overrides)
    flags = {
        "algorithm": algo,
        "env.id": env,
        "n_envs": n_envs,
        "total_timesteps": steps,
        "seed": seed,
        "device": device,
        "name": name,
        "engine": engine,
        "scale.ray": ray,
    }
    loaded = load_config(
        source, assignments, {key: value for key, value in flags.items() if value is not None}
    )
    if loaded.imported is not None:
        from ludus.cli.foreign import tell_import, without_missing_wandb

        tell_import(loaded.imported, source, output)
        loaded = without_missing_wandb(loaded, output)
    if loaded.config.env is None and loaded.config.language is None:
        raise UserError(
            "no env is given",
            where=source or "",
            fix="add env=CartPole-v1 (`ludus envs` lists them), or take a preset: ludus train quickstart",
        )
    run = _newest_run(loaded, output) if resume or loaded.config.resume == "auto" else None
    if run is not None:
        from ludus.cli.resume import continue_run

        scale = loaded.config.scale
        continue_run(run, output, ray=None if scale is None else scale.ray, finished_is_fine=True)
    else:
        _start_run(loaded, output)


def split_source(config: str | None, overrides: list[str] | None) -> tuple[str | None, list[str]]:
    """The config's source, and the assignments; a first word like `seed=1` is one of these."""
    words = ([] if config is None else [config]) + list(overrides or [])
    if words and ("=" not in words[0] or Path(words[0]).is_file()):
        return words[0], words[1:]
    return None, words


def _newest_run(loaded: LoadedConfig, output: Output) -> RunDirectory | None:
    """The run of this config to go on with; None when a new one must be started."""
    from ludus.config.loading import config_hash
    from ludus.runs.checkpoints import CheckpointManager
    from ludus.runs.directory import find_config_runs
    from ludus.training.resume import repair_all_runs

    config = loaded.config
    repair_all_runs(config.run_dir or config.save_dir)
    run = find_config_runs(config.run_dir or config.save_dir, config_hash(config))
    if run is None:
        output.print("no run of this config yet: starting one")
    elif CheckpointManager(run.checkpoints_dir).newest_intact() is None:
        output.print(f"{run.path} ended before its first checkpoint: starting anew")
        return None
    return run


def _start_run(loaded: LoadedConfig, output: Output) -> None:
    from ludus.cli.training import train_and_tell
    from ludus.training.factory import create_trainer
    from ludus.training.trainer import RunTrainer

    with loaded.locating_errors():
        options: dict[str, Any] = {"display": output.display()}
        trainer = create_trainer(None, loaded.config, **options)
        if isinstance(trainer, RunTrainer):
            trainer.preset = loaded.preset
        train_and_tell(trainer, output)
