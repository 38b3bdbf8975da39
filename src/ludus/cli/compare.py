"""`ludus compare`: several configs or algorithms over several seeds, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Json, Quiet, naming_options
from ludus.cli.output import Output
from ludus.errors import EXIT_FAULT, UserError
from ludus.tracking.logs import works_without_output

if TYPE_CHECKING:
    from ludus.config.loading import LoadedConfig
    from ludus.experiments.comparison.plan import Comparison
    from ludus.experiments.experiment import ExperimentConfig

EXAMPLES = """\b
Examples:
  ludus compare --env CartPole-v1 --algos ppo,a2c,dqn --seeds 5 --steps 50_000
  ludus compare a.yaml b.yaml --seeds 3
  ludus compare cartpole-ppo cartpole-dqn total_timesteps=50_000
  ludus compare --resume comparisons/CartPole-v1_1f2e3d4c

The same command again continues where it was stopped, and repeats nothing that is finished.
"""


@works_without_output
def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG|PRESET]… [KEY=VALUE]…",
            help="Configs to compare, and keys to set in all of them.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="ID", help="For --algos; may be given several times.")
    ] = None,
    algos: Annotated[
        str | None, typer.Option("--algos", metavar="A,B", help="Algorithms; engine:NAME for another engine.")
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="N|A,B", help="Number of seeds, or a list of seeds.")
    ] = "3",
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N|TIME", help="Env steps of each run, or a duration.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Parallel runs; default: number of cores."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Default: a folder below comparisons/.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="DIR", help="Resume the comparison in this folder.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare algorithms or configs over several seeds."""
    from ludus.config.own_modules import trust_config
    from ludus.experiments.comparison.plan import Comparison, default_directory, plan_experiments

    output = Output(json, quiet=quiet)
    trust_config(*(sources or []))
    if resume is not None:
        if sources or algos or env or out:
            raise UserError(
                "--resume cannot be combined with other arguments: the folder has the settings",
                fix="leave the other arguments out",
            )
        comparison = Comparison.open(resume)
    else:
        with naming_options():
            configs = _configs(sources or [], env or [], algos, seeds, steps)
        experiments = plan_experiments(configs)
        path = Path(out) if out is not None else default_directory(experiments)
        path.mkdir(parents=True, exist_ok=True)
        comparison = Comparison(path, experiments)
        comparison.save()
    _run(comparison, output, jobs)


def _run(comparison: Comparison, output: Output, jobs: int | None) -> None:
    from rich.text import Text

    from ludus.experiments.comparison.live import ComparisonDisplay
    from ludus.experiments.comparison.page import write_page
    from ludus.experiments.comparison.results import write_results
    from ludus.experiments.comparison.running import run_comparison
    from ludus.experiments.comparison.tables import budget_note, comparison_table

    display = ComparisonDisplay(output.console, quiet=output.verbosity == "quiet")
    code = run_comparison(comparison, display, jobs)
    results = comparison.results()
    found, costs = write_results(comparison.path, results)
    page = write_page(comparison.path, found, costs)
    runs = [run for result in results for run in result.runs]
    failed = [run for run in runs if run.status == "failed"]
    ended = sum(run.ended for run in runs)
    if ended:
        output.print(Text())
        output.print(comparison_table(results, output.console.width))
        note = budget_note(results)
        if note is not None:
            output.print(note)
        output.print(Text())
    rows = [("page", str(page)), ("data", f"{comparison.path}/results.json, results.csv, costs.json")]
    if ended < len(runs):
        rows.append(("resume", f"ludus compare --resume {_quoted(comparison.path)}"))
    output.pairs(rows)
    status = "interrupted" if code else "failed" if failed else "finished"
    summary: dict[str, Any] = {
        "comparison": str(comparison.path),
        "status": status,
        "ended": ended,
        "runs": len(runs),
        "page": str(page),
        "experiments": [result.summary() for result in results],
        "probability_of_improvement": found["probability_of_improvement"],
    }
    output.result(summary, short=str(page))
    if code or failed:
        raise typer.Exit(code or EXIT_FAULT)


def _configs(
    sources: list[str], envs: list[str], algos: str | None, seeds: str, steps: str | None
) -> list[ExperimentConfig]:
    """Return the experiments that the command line names."""
    from ludus.config.loading import load_config

    files = [word for word in sources if "=" not in word or Path(word).is_file()]
    overrides = [word for word in sources if word not in files]
    flags: dict[str, Any] = {} if steps is None else {"total_timesteps": steps}
    chosen = _seeds(seeds)
    tasks: list[str | None] = [*envs] or [None]
    configs = []
    for source in files:
        for env in tasks:
            loaded = load_config(source, overrides, flags | ({} if env is None else {"env.id": env}))
            configs.append(_experiment(loaded, chosen, name=loaded.config.name or Path(source).stem))
    names = [name for name in (algos or "").split(",") if name]
    if names and not envs and not any(word.startswith("env") for word in overrides):
        raise UserError("--algos needs an env", fix="add --env CartPole-v1 (`ludus envs` lists them)")
    for env in tasks:
        for name in names:
            engine, _, algorithm = name.rpartition(":")
            choice = {"algorithm": algorithm, **({"engine": engine} if engine else {})}
            choice |= {} if env is None else {"env.id": env}
            loaded = load_config(None, overrides, {**flags, **choice})
            configs.append(_experiment(loaded, chosen, name=loaded.config.name))
    if not configs:
        raise UserError(
            "no configs to compare",
            fix="name configs, or: ludus compare --env CartPole-v1 --algos ppo,a2c,dqn --seeds 3",
        )
    return configs


def _experiment(loaded: LoadedConfig, seeds: int | list[int], name: str | None) -> ExperimentConfig:
    from ludus.config.loading import plain_config
    from ludus.experiments.experiment import (
        CURVE_POINTS,
        ExperimentConfig,
        says_when_to_evaluate,
        spread_evaluations,
    )

    config = ExperimentConfig.model_validate(plain_config(loaded.config) | {"seeds": seeds, "name": name})
    return config if says_when_to_evaluate(loaded) else spread_evaluations(config, CURVE_POINTS)


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers) or numbers == [0]:
        raise UserError(
            f"'{text}' is not a valid list of seeds",
            where=f"command line: --seeds {text}",
            fix="as in --seeds 5, or 1,2,3",
        )
    return numbers[0] if "," not in text else numbers


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
