"""`ludus export`: a policy in a form that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.commands import Json, Root
from ludus.cli.output import Output


def export(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="RUN, RUN@best, RUN@STEP, preset:NAME or latest.")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="sb3, onnx, torchscript; peft for a language run.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: named after the target.")
    ] = None,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Write a policy for other programs."""
    from ludus.evaluation.export import export_policy
    from ludus.evaluation.load import load

    output = Output(json)
    loaded = load(policy, root)
    exported = export_policy(loaded, to, out)
    assert loaded.checkpoint is not None  # bots are refused above
    files = [str(file) for file in exported.files]
    rows = [("policy", f"{loaded.name} at step {loaded.checkpoint.step:,}")]
    rows += [("wrote" if file is files[0] else "", file) for file in files]
    rows += [("note" if note is exported.notes[0] else "", note) for note in exported.notes]
    output.pairs(rows)
    output.result(
        {
            "policy": loaded.name,
            "target": to,
            "files": files,
            "notes": list(exported.notes),
            "differences": exported.differences,
        }
    )
