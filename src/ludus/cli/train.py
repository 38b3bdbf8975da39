"""`ludus train`: from a config, a preset or a few options to a trained run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, Quiet, Verbose, naming_options
from ludus.cli.output import Output
from ludus.errors import UserError
from ludus.tracking.logs import works_without_output

if TYPE_CHECKING:
    from ludus.config.loading import LoadedConfig
    from ludus.config.schema import TrainerConfig
    from ludus.training.matching import RunToContinue

_log = logging.getLogger("ludus.cli")
EXAMPLES = """\b
Examples:
  ludus train quickstart
  ludus train my.yaml seed=1 hyperparams.learning_rate=1e-3
  ludus train --algo ppo --env CartPole-v1 --n-envs 8 --steps 100_000
  ludus train my.yaml --resume          continue its newest run, or start one
"""


@works_without_output
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
    n_envs: Annotated[
        int | None, typer.Option("--n-envs", metavar="N", help="Number of parallel envs.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N|TIME", help='Env steps in all, or "30 min".')
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Random seed of the run.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="D", help="auto, cpu, cuda, cuda:1, mps.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="The run's name.")] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="Engine: native or sb3.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--scale", metavar="ADDRESS", help="On Ray: auto, HOST:6379 or ray://HOST:10001."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue this config's newest run, or start one.")
    ] = False,
    file: Annotated[
        str | None, typer.Option("--config", metavar="CONFIG|PRESET", help="The same as CONFIG.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train an agent."""
    from ludus.config.loading import load_config
    from ludus.config.own_modules import trust_config
    from ludus.runs.limits import require_memory_to_train

    output = Output(json, quiet=quiet, verbose=verbose)
    require_memory_to_train()
    source, assignments = split_source(config, overrides)
    source = _only_one(source, file)
    trust_config(source)
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
    with naming_options():
        loaded = load_config(
            source, assignments, {key: value for key, value in flags.items() if value is not None}
        )
    if loaded.imported is not None:
        from ludus.cli.foreign import print_import, without_missing_wandb

        print_import(loaded.imported, source, output)
        loaded = without_missing_wandb(loaded, output)
    if loaded.config.env is None and loaded.config.language is None:
        raise UserError(
            "no env is given",
            where=source or "",
            fix="add env=CartPole-v1 (`ludus envs` lists them), or take a preset: ludus train quickstart",
        )
    if resume or loaded.config.resume == "auto":
        loaded.config.resume = None  # decided here, with what is printed
        _continue_or_start(loaded, output)
    else:
        _start_run(loaded, output)


def _only_one(source: str | None, file: str | None) -> str | None:
    if source is not None and file is not None:
        raise UserError(
            "two configs are given", where=f"command line: {source}, --config {file}", fix="keep one"
        )
    return source or file


def _continue_or_start(loaded: LoadedConfig, output: Output) -> None:
    match = _run_to_continue(loaded, output)
    if match is None:
        _start_run(loaded, output)
        return
    from ludus.cli.resume import continue_run
    from ludus.config.own_modules import distrust_run

    distrust_run(*_names_in(loaded.config))  # the run says itself that it is of this config
    scale = loaded.config.scale
    continue_run(
        match.run,
        output,
        ray=None if scale is None else scale.ray,
        finished_is_fine=True,
        asked=None if match.same_config or match.differences else loaded.config,
    )


def _names_in(config: TrainerConfig) -> Iterator[str]:
    """Return what the config names outside the run: code, programs, addresses, URLs and files."""
    from ludus.training.factory import requests_of

    if config.env is not None:
        yield config.env.id
        for wrapper in config.env.wrappers:
            yield from [wrapper] if isinstance(wrapper, str) else wrapper
    yield config.policy.features_extractor
    yield from (request.value for request in requests_of(config))


def split_source(config: str | None, overrides: list[str] | None) -> tuple[str | None, list[str]]:
    """The config's source, and the assignments; a first word like `seed=1` is one of these."""
    words = ([] if config is None else [config]) + list(overrides or [])
    if words and ("=" not in words[0] or Path(words[0]).is_file()):
        return words[0], words[1:]
    return None, words


def _run_to_continue(loaded: LoadedConfig, output: Output) -> RunToContinue | None:
    """The run of this config to continue; None when a new one must be started."""
    from ludus.runs.checkpoints import CheckpointManager
    from ludus.training.matching import find_match, learns_the_same
    from ludus.training.resume import readable_checkpoints, repair_all_runs

    config = loaded.config
    for run, error in repair_all_runs(config.run_dir or config.save_dir):
        if learns_the_same(run, config):
            raise error
        _log.warning("skipped the damaged run %s: %s; %s", run.path, error.what, error.fix)
    match = find_match(config)
    if match is None:
        output.print("no run of this config yet: starting one")
        return None
    if match.differences and not _chosen_despite_differences(match, output):
        return None
    with readable_checkpoints(match.run):
        found = CheckpointManager(match.run.checkpoints_dir).newest_intact()
    if found is None:
        output.print(f"{match.run.path} ended before its first checkpoint: starting again")
        return None
    return match


def _chosen_despite_differences(match: RunToContinue, output: Output) -> bool:
    """Ask the user on a terminal; return True to continue the run with its own settings, False to start a new one."""
    output.print(f"the newest run of this env and algorithm, {match.run.path}, has other settings:")
    for difference in match.differences:
        output.print(f"  {difference}")
    if output.interactive and typer.confirm("Continue that run with its own settings?", default=False):
        return True
    output.print(f"starting a new run; to continue that one as it is: ludus resume {match.run.path}")
    return False


def _start_run(loaded: LoadedConfig, output: Output) -> None:
    from ludus.cli.training import train_and_report
    from ludus.training.factory import create_trainer
    from ludus.training.trainer import RunTrainer

    with loaded.locating_errors():
        options: dict[str, Any] = {"display": output.display()}
        trainer = create_trainer(None, loaded.config, **options)
        if isinstance(trainer, RunTrainer):
            trainer.preset = loaded.preset
        train_and_report(trainer, output)
