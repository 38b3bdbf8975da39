"""`ludus watch`: a live dashboard of a run that trains in another process."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Json, Root, examples
from ludus.cli.output import Output
from ludus.errors import UserError

EXAMPLES = examples(
    "ludus watch",
    "ludus watch latest --once",
)


def watch(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A path, a run's name, or latest. Default: what is in training."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the dashboard once and exit.")] = False,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Watch a run as it trains; leaving does nothing to it."""
    from ludus.reports.terminal.screen import print_frame
    from ludus.reports.terminal.screen import watch as watch_live
    from ludus.reports.terminal.watched import Watched, choose_run
    from ludus.runs.directory import find_run
    from ludus.tracking.machine import step_back

    output = Output(json, listing=True)
    found = choose_run(root) if run is None else find_run(run, root)
    if found is None:
        raise UserError("there is no run yet", where=root, fix="start one with `ludus train`")
    watched = Watched(found)
    watched.refresh()
    if json:
        output.result(watched.snapshot())
        return
    if once or watched.is_over or not output.console.is_terminal:
        print_frame(watched, output.console)
        return
    step_back()
    ended = watch_live(watched, output.console)
    print_frame(watched, output.console)
    if not ended:
        output.print(f"left {watched.name}, which keeps training; ludus watch {watched.name} shows it again")
