"""`ludus pull`: bring a run back from its mirror, or a model from Weights & Biases, to this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.commands import Bandwidth, Json, Quiet, Root, examples
from ludus.cli.output import Output
from ludus.errors import UserError

EXAMPLES = examples(
    "ludus pull s3://bucket/runs/CartPole-v1/PPO/mine",
    "ludus pull gdrive://runs",
    "ludus pull wandb:ENTITY/PROJECT/ARTIFACT:v3",
)


def pull(
    source: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="A mirrored run: s3://…, gs://…, gdrive://…, file:///…; "
            "or wandb:ENTITY/PROJECT/ARTIFACT[:VERSION], …/PROJECT/runs/ID/FILE.",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Destination; default: the run's folder below --root, or models/<name> for W&B.",
        ),
    ] = None,
    bandwidth: Bandwidth = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bring back a mirrored run, or download a model. Every file of a run is checked by its hash."""
    output = Output(json, quiet=quiet)
    if source.startswith("wandb:") or "://" not in source:
        if bandwidth is not None:
            raise UserError("--bandwidth is for mirrored runs", where="command line", fix="leave it out")
        _pull_model(source, to, output)
    else:
        _pull_run(source, to, bandwidth, root, output)


def _pull_run(url: str, to: Path | None, bandwidth: str | None, root: str, output: Output) -> None:
    from ludus.cli.mirror import checked, checked_rate, remember_typed, size_text
    from ludus.config.sections import bytes_per_second
    from ludus.runs.mirror.pull import pull_run
    from ludus.runs.mirror.remote import Pace
    from ludus.runs.mirror.state import MirrorState

    rate = checked_rate(bandwidth)
    pulled = pull_run(
        checked(url),
        root,
        to,
        pace=Pace(None if rate is None else bytes_per_second(rate)),
        note=lambda path: output.print(f"  {path}"),
        may_ask=sys.stdin.isatty(),
    )
    place = str(pulled.run.path)
    state = MirrorState.load(pulled.run.path)
    if state is not None:
        remember_typed(pulled.run, state.at)
    kind = "whole" if pulled.whole else "not whole: the rest was on its way when this was written"
    output.pairs(
        [
            ("run", place),
            ("files", f"{pulled.files}, {size_text(pulled.bytes)}, every hash right"),
            ("as of", f"{pulled.written[:19].replace('T', ' ')} UTC, {kind}"),
            ("resume", f"ludus resume {shlex.quote(place)}"),
        ]
    )
    output.result(
        {
            "run": place,
            "files": pulled.files,
            "bytes": pulled.bytes,
            "whole": pulled.whole,
            "written": pulled.written,
        },
        short=place,
    )


def _pull_model(model: str, to: Path | None, output: Output) -> None:
    """A model of W&B; nothing in it is opened."""
    from ludus.tracking.wandb_models import Reference, download

    reference = Reference.parse(model)
    folder = to if to is not None else Path("models") / reference.folder
    files = download(reference, folder)
    rows = [("files" if not index else "", str(path)) for index, path in enumerate(files)]
    following = _next(folder, files)
    if following:
        rows.append(("next", following))
    output.pairs(rows)
    output.result(
        {"folder": str(folder), "files": [str(path) for path in files], "next": following}, short=str(folder)
    )


def _next(folder: Path, files: list[Path]) -> str:
    """Return the command that uses the download: `play` for a run, `import` for a Stable-Baselines3 zip."""
    runs = [path.parent for path in files if path.name == "run.json"]
    if runs:
        return f"ludus play {shlex.quote(str(runs[0]))}"
    zips = [path for path in files if path.suffix == ".zip"]
    if zips:
        return (
            f"ludus import {shlex.quote(str(zips[0]))} --trust   (a zip can hold code: only if you trust it)"
        )
    return ""
