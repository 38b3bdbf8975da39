"""`ludus sweep`: search for hyperparameters."""

from __future__ import annotations

import hashlib
import json as json_text
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, Quiet, naming_options
from ludus.cli.output import Output
from ludus.errors import EXIT_FAULT, UserError
from ludus.tracking.logs import works_without_output

if TYPE_CHECKING:
    from ludus.config.schema import TrainerConfig
    from ludus.experiments.sweep.study import Sweep

EXAMPLES = """\b
Examples:
  ludus sweep cartpole-ppo --trials 50
  ludus sweep my.yaml --space space.yaml --trials 100 --jobs 4
  ludus sweep --algo a2c --env CartPole-v1 --steps 50_000

The search space is --space FILE, the config's `sweep` section, or the algorithm's own. The same command again
continues where it was stopped; in a second terminal, it runs trials in parallel.
"""


@works_without_output
def sweep(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG|PRESET", help="A YAML file, or a preset's name.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Config keys to set in every trial.")
    ] = None,
    algo: Annotated[str | None, typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN, SAC, …")] = None,
    env: EnvId = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N|TIME", help="Env steps of each trial, or a duration.")
    ] = None,
    trials: Annotated[
        int,
        typer.Option("--trials", metavar="N", min=1, help="Total number of trials, including earlier ones."),
    ] = 50,
    space: Annotated[
        str | None, typer.Option("--space", metavar="FILE", help="A YAML file with the search space.")
    ] = None,
    pruning: Annotated[
        bool, typer.Option("--pruning/--no-pruning", help="Stop trials that perform worse than the others.")
    ] = True,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Parallel trials; default: number of cores."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Default: a folder below sweeps/.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for good hyperparameters."""
    from ludus.cli.train import split_source
    from ludus.config.loading import load_config
    from ludus.config.own_modules import trust_config
    from ludus.experiments.experiment import says_when_to_evaluate, spread_evaluations
    from ludus.experiments.sweep.running import check_evaluations
    from ludus.experiments.sweep.study import Sweep, choose_space, require_optuna

    output = Output(json, quiet=quiet)
    require_optuna()
    source, assignments = split_source(config, overrides)
    trust_config(source)
    flags = {"algorithm": algo, "env.id": env, "total_timesteps": steps}
    with naming_options():
        loaded = load_config(
            source, assignments, {key: value for key, value in flags.items() if value is not None}
        )
    if loaded.config.env is None:
        raise UserError("no env is given", where=source or "", fix="add --env CartPole-v1, or take a preset")
    check_evaluations(loaded.config.evaluation.every)
    base = loaded.config if says_when_to_evaluate(loaded) else spread_evaluations(loaded.config, 10)
    with loaded.locating_errors():
        written, _ = choose_space(base, None if space is None else Path(space))
        path = Path(out) if out is not None else _default_directory(base, written)
        search = Sweep.create(path, base, written, pruning)
    _run(search, output, trials, jobs)


def _run(search: Sweep, output: Output, trials: int, jobs: int | None) -> None:
    from rich.text import Text

    from ludus.experiments.sweep.live import SweepDisplay, in_words
    from ludus.experiments.sweep.page import importances, write_sweep_page
    from ludus.experiments.sweep.running import run_sweep

    code = run_sweep(search, trials, SweepDisplay(output.console, output.verbosity == "quiet"), jobs)
    page = write_sweep_page(search)
    best, done = search.best(), search.trials("COMPLETE", "PRUNED", "FAIL")
    best_file = search.write_best()
    rows = []
    if best is not None and best.value is not None:
        from ludus.tracking.progress import number

        rows.append(("best", f"trial {best.number}: {number(best.value)}"))
        rows.append(("", in_words(search.settings_of(best))))
        rows.append(("next", f"ludus train {shlex.quote(str(best_file))}"))
    rows.append(("page", str(page)))
    output.print(Text())
    output.pairs(rows)
    weights = importances(search)
    output.result(
        {
            "sweep": str(search.path),
            "status": "interrupted" if code else "finished" if best is not None else "failed",
            "trials": len(done),
            "pruned": len(search.trials("PRUNED")),
            "failed": len(search.trials("FAIL")),
            "best": None if best is None else {"trial": best.number, "reward": best.value},
            "settings": None if best is None else search.settings_of(best),
            "config": None if best_file is None else str(best_file),
            "importance": weights,
            "page": str(page),
        },
        short=str(best_file or page),
    )
    if code or best is None:
        raise typer.Exit(code or EXIT_FAULT)


def _default_directory(config: TrainerConfig, space: dict[str, Any]) -> Path:
    """Return the folder of this config and search space: always the same one."""
    from ludus.config.loading import config_hash

    text = config_hash(config) + json_text.dumps(space, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    assert config.env is not None
    env = config.env.id.replace("/", "-").replace(":", "-")
    return Path("sweeps") / f"{env}_{config.algorithm_entry().name}_{digest}"
