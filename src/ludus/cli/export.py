"""`ludus export`: a policy in a form that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.commands import Json, Root, examples
from ludus.cli.output import Output

EXAMPLES = examples(
    "ludus export latest --to onnx",
    "ludus export latest@best --to sb3 --out model.zip",
)


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
    from ludus.runs.checkpoints import CheckpointManager

    output = Output(json)
    loaded = load(policy, root)
    exported = export_policy(loaded, to, out)
    assert loaded.checkpoint is not None  # bots are refused above
    files = [str(file) for file in exported.files]
    step = loaded.checkpoint.step
    name = loaded.name if loaded.run is None else loaded.run.name
    rows = [("policy", f"{name} at step {step:,}")]
    if loaded.run is not None and "@" not in policy:
        latest = CheckpointManager(loaded.run.checkpoints_dir).latest()
        if latest is not None and latest.step != step:
            rows.append(("", f"its best checkpoint; the newest, of step {latest.step:,}, is {policy}@latest"))
    rows += [("wrote" if file is files[0] else "", file) for file in files]
    rows += [("note" if note is exported.notes[0] else "", note) for note in exported.notes]
    output.pairs(rows)
    output.result(
        {
            "policy": loaded.name,
            "checkpoint": loaded.checkpoint.name,
            "target": to,
            "files": files,
            "notes": list(exported.notes),
            "differences": exported.differences,
        }
    )
