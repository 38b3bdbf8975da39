"""`ludus bench`: how fast it is, beside its peers."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Commands
from ludus.cli.options import Json
from ludus.cli.output import Output, plain_table

bench_app = typer.Typer(
    cls=Commands, help="Measure speed beside other libraries.", no_args_is_help=True, rich_markup_mode=None
)


@bench_app.callback()
def _bench() -> None:
    """Measure speed beside other libraries."""


@bench_app.command("speed")
def speed(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]…", help="Such as ppo-cartpole; default: all.")
    ] = None,
    peers: Annotated[str, typer.Option(metavar="A,B", help="Libraries to compare with: sb3.")] = "",
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each; the median counts.")] = 3,
    json: Json = False,
) -> None:
    """Run the same work on Ludus and on its peers, in turn, and print steps per second."""
    from ludus.experiments.speed import choose_workloads, measure

    output = Output(json)
    names = [name for name in peers.split(",") if name]
    table = plain_table(
        "workload", "library", "steps/s", "ratio", "threads", right=("steps/s", "ratio", "threads")
    )
    results = []
    for workload in choose_workloads(workloads or []):
        measured = measure(workload, names, repeats, output.print)
        own = measured[0].median
        for one in measured:
            ratio = "" if one.library == "ludus" else f"{own / one.median:.1f}x"
            table.add_row(
                workload.name, f"{one.library} {one.version}", f"{one.median:,.0f}", ratio, str(one.threads)
            )
            results.append({**one.summary(), "ratio": round(own / one.median, 2)})
    output.print(table)
    output.result({"speed": results})
