"""`ludus report`: one HTML page about a run, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.commands import Json, Quiet, Root
from ludus.cli.output import Output
from ludus.errors import UserError

EXAMPLES = """\b
Examples:
  ludus report latest
  ludus report ppo-a ppo-b ppo-c --output seeds.html
"""


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Paths, run names, or latest.")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Default: report.html, in the run if there is one run."
        ),
    ] = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page about a run, or one that compares several."""
    from ludus.reports.report import write_report
    from ludus.runs.directory import find_run

    output = Output(json, quiet=quiet)
    found = list(dict.fromkeys(find_run(run, root) for run in runs))
    path = to or (found[0].report_path if len(found) == 1 else Path("report.html"))
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"a report is an HTML page, not '{path.name}'", fix=f"--output {path.stem}.html")
    if path.is_dir():
        raise UserError("that is a folder", where=str(path), fix=f"--output {path / 'report.html'}")
    wrong: list[str] = []
    written = write_report(found, path, wrong.append)
    size = written.stat().st_size
    output.pairs(
        [
            ("page", str(written)),
            ("size", f"{size / 1e6:.1f} MB, opens without a network"),
            *(("note", line) for line in wrong),
        ]
    )
    output.result(
        {"page": str(written), "bytes": size, "runs": [str(run.path) for run in found], "notes": wrong},
        short=str(written),
    )
