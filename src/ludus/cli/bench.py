"""`ludus bench`: measure speed, learning and scaling compared with other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Json, LazyCommands, examples
from ludus.cli.output import Output, plain_table
from ludus.plugins import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ludus.experiments.learn import Score
    from ludus.experiments.panels import PanelChart
    from ludus.experiments.workloads import Workload


class _BenchCommands(LazyCommands):
    entries = staticmethod(lambda: commands("bench"))


bench_app = typer.Typer(
    cls=_BenchCommands,
    help="Measure speed and learning compared with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples("ludus bench speed ppo-cartpole --peers sb3"),
    rich_markup_mode=None,
)

Workloads = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORKLOAD]…", help="Name of a workload, such as ppo-cartpole; default: all."),
]
Peers = Annotated[str, typer.Option(metavar="A,B", help="Libraries to compare with: sb3, sbx.")]
Algos = Annotated[str, typer.Option(metavar="A,B", help="Only workloads of these algorithms.")]
Envs = Annotated[str, typer.Option(metavar="A,B", help="Only workloads on these envs.")]
Repeats = Annotated[
    int, typer.Option(metavar="N", min=1, help="Runs of each workload; the median is reported.")
]
Steps = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Env steps; default: those of each workload.")
]


@bench_app.callback()
def _bench() -> None:
    """Measure speed and learning compared with other libraries."""


@bench_app.command("speed", epilog=examples("ludus bench speed ppo-cartpole --peers sb3"))
def speed(
    workloads: Workloads = None,
    peers: Peers = "",
    algos: Algos = "",
    envs: Envs = "",
    repeats: Repeats = 3,
    steps: Steps = None,
    json: Json = False,
) -> None:
    """Run the same work on Ludus and on its peers, in turn, and print steps per second."""
    from ludus.experiments.libraries import own_library, peer_libraries
    from ludus.experiments.speed import measure
    from ludus.experiments.workloads import SPEED, choose_workloads

    output = Output(json)
    chosen = choose_workloads(SPEED, workloads or [], words(algos), words(envs))
    libraries = [own_library(), *peer_libraries(words(peers))]
    numbers = ("steps/s", "ratio", "threads", "compiled")
    table = plain_table("workload", "library", *numbers, right=numbers)
    results: list[dict[str, Any]] = []
    for workload in _budget(chosen, steps):
        measured = measure(workload, libraries, repeats, output.print)
        own = measured[0].median
        for one in measured:
            ratio = "" if one.library == "ludus" else f"{own / one.median:.1f}x"
            table.add_row(
                workload.name,
                f"{one.library} {one.version}",
                f"{one.median:,.0f}",
                ratio,
                str(one.threads),
                f"{one.compile_seconds:.1f} s",
            )
            results.append({**one.summary(), "ratio": round(own / one.median, 2)})
        for library in libraries:
            if not library.has(workload):
                table.add_row(workload.name, library.name, "-", "-", "-", "-")
    output.print(table)
    output.result({"speed": results})


@bench_app.command("learn", epilog=examples("ludus bench learn ppo-cartpole --peers sb3 --seeds 3"))
def learn(
    workloads: Workloads = None,
    peers: Peers = "",
    algos: Algos = "",
    envs: Envs = "",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Number of seeds, from seed 1 on.")] = 5,
    episodes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Deterministic episodes of each final policy.")
    ] = 100,
    steps: Steps = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where results and plots go; finished trainings there are kept."),
    ] = Path("runs/bench-learn"),
    json: Json = False,
) -> None:
    """Train the same budget on Ludus, its torch learners and its peers: reward against steps and time.

    It can be stopped and started again, and several of it may work at the same DIR.
    """
    from ludus.experiments.learn import charts, run_trials, score
    from ludus.experiments.libraries import own_library, peer_libraries
    from ludus.experiments.workloads import LEARN, choose_workloads

    output = Output(json)
    chosen = _budget(choose_workloads(LEARN, workloads or [], words(algos), words(envs)), steps)
    libraries = [own_library(), own_library(kernels=False), *peer_libraries(words(peers))]
    trials, elsewhere = run_trials(chosen, libraries, range(1, seeds + 1), episodes, out, output.print)
    scores = score(trials)
    for workload in chosen:
        output.print(f"\n{workload.name}: {workload.algorithm} on {workload.env}, {workload.steps:,} steps")
        output.print(_score_table([one for one in scores if one.workload == workload.name]))
    if elsewhere:
        output.print(f"{len(elsewhere)} more are being trained by another process: run this again later")
    summary = {"learn": [one.summary() for one in scores], "elsewhere": elsewhere}
    files = _write(out, "learn", summary, "The same budget and hyperparameters", charts(trials), 2)
    output.print(f"written: {', '.join(files)}")
    output.result(summary | {"files": files})


@bench_app.command("envs", epilog=examples("ludus bench envs --n-envs 8,64,512"))
def envs(
    n_envs: Annotated[str, typer.Option(metavar="A,B", help="Numbers of envs.")] = "8,64,512,4096",
    repeats: Repeats = 3,
    steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Minimum of env steps; at least four updates.")
    ] = 262_144,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results and plots go.")] = Path(
        "runs/bench-envs"
    ),
    json: Json = False,
) -> None:
    """Train PPO on more and more envs: steps per second and memory at each number."""
    from ludus.experiments.libraries import own_library
    from ludus.experiments.scaling import ENVS, charts, scaled_workload, scaling_row
    from ludus.experiments.speed import measure

    output = Output(json)
    counts = _numbers(n_envs, "--n-envs")
    numbers = ("envs", "samples/update", "steps/s", "MiB", "KiB per env")
    table = plain_table("env", "vector", *numbers, right=numbers)
    rows = []
    for env in ENVS:
        for count in counts:
            workload = scaled_workload(env, count, steps)
            (measured,) = measure(workload, [own_library()], repeats, output.print)
            row = scaling_row(workload, measured)
            rows.append(row)
            table.add_row(
                env,
                row["vector"],
                f"{count:,}",
                f"{row['samples_per_update']:,}",
                f"{row['fps']:,.0f}",
                f"{row['memory_mib']:,.0f}",
                f"{row['kib_per_env']:,.1f}",
            )
    output.print(table)
    files = _write(out, "envs", {"envs": rows}, "Cost by number of envs", charts(rows), 2)
    output.print(f"written: {', '.join(files)}")
    output.result({"envs": rows, "files": files})


def _score_table(scores: Sequence[Score]) -> Table:
    """Return the scores as a table. `ludus is`: its interquartile mean relative to the other's interval."""
    numbers = ("seeds", "IQM", "95%", "quartiles", "seconds")
    table = plain_table("library", *numbers, "ludus is", right=numbers)
    for one in scores:
        table.add_row(
            one.library,
            str(len(one.rewards)),
            f"{one.mean.value:.1f}",
            f"{one.mean.low:.1f}…{one.mean.high:.1f}",
            f"{one.quartiles[0]:.1f}…{one.quartiles[1]:.1f}",
            f"{one.seconds:,.1f}",
            one.ludus_is,
        )
    return table


def words(listed: str) -> list[str]:
    """Split a list at its commas."""
    return [word.strip() for word in listed.split(",") if word.strip()]


def _numbers(listed: str, option: str) -> list[int]:
    from ludus.errors import UserError

    found = words(listed)
    if not found or not all(word.isdecimal() and int(word) > 0 for word in found):
        raise UserError(
            f"'{listed}' is not a list of positive numbers", where=option, fix="write it as 8,64,512"
        )
    return [int(word) for word in found]


def _budget(workloads: Sequence[Workload], steps: int | None) -> list[Workload]:
    from dataclasses import replace

    return [workload if steps is None else replace(workload, steps=steps) for workload in workloads]


def _write(
    out: Path, name: str, summary: dict[str, Any], heading: str, panels: list[PanelChart], columns: int
) -> list[str]:
    """Write NAME.json, NAME.html and NAME.svg under `out`; return their paths."""
    from ludus.experiments.panels import write_page, write_svg
    from ludus.runs.atomic import write_atomic
    from ludus.runs.strict_json import dumps

    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / f"{name}.json", dumps(summary, indent=2) + "\n")
    if panels:
        write_page(out / f"{name}.html", heading, panels, columns)
        write_svg(out / f"{name}.svg", heading, panels, columns)
    return [str(path) for path in sorted(out.glob(f"{name}.*"))]
