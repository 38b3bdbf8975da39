"""`ludus pull`: bring a model from Weights & Biases to this machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.options import Json, Quiet
from ludus.cli.output import Output


def pull(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="wandb:ENTITY/PROJECT/ARTIFACT[:VERSION], or …/PROJECT/runs/ID/FILE."
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Where to put it; default: models/<name>.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download a model; nothing in it is opened."""
    from ludus.tracking.wandb_models import Reference, download

    output = Output(json, quiet=quiet)
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
    """What to type to use it: a run of Ludus is played as it is, a zip of Stable-Baselines3 is imported."""
    runs = [path.parent for path in files if path.name == "run.json"]
    if runs:
        return f"ludus play {shlex.quote(str(runs[0]))}"
    zips = [path for path in files if path.suffix == ".zip"]
    if zips:
        return (
            f"ludus import {shlex.quote(str(zips[0]))} --trust   (a zip can hold code: only if you trust it)"
        )
    return ""
