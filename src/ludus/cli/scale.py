"""`ludus scale`: more or fewer samplers and learners for a run that is training."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Json, Root
from ludus.cli.output import Output
from ludus.errors import UserError

EXAMPLES = """\b
Examples:
  ludus scale latest --actors 3 --learners 1
"""


def scale(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    actors: Annotated[
        int | None, typer.Option("--actors", metavar="N", min=1, help="Samplers (num_actors).")
    ] = None,
    learners: Annotated[
        int | None, typer.Option("--learners", metavar="N", min=1, help="Learners (num_learners).")
    ] = None,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Change how many samplers and learners a self-play run on Ray has, from its next update on."""
    from ludus.config.loading import load_config
    from ludus.runs.directory import find_run
    from ludus.runs.rescaling import ask_for

    output = Output(json)
    found = find_run(run, root)
    config = load_config(found.config_path).config
    if config.scale is None or config.language is None:
        raise UserError(
            "only a self-play run with a scale: section has samplers and learners on Ray",
            where=str(found.path),
            fix="start one with scale: {num_actors: 3}; see docs/how-to/scale.md",
        )
    given = {"num_actors": actors, "num_learners": learners}
    asked = {name: number for name, number in given.items() if number is not None}
    if not asked:
        raise UserError("nothing to change was given", where="ludus scale", fix="--actors N, --learners N")
    if "num_actors" in asked and config.scale.num_actors == 0:
        raise UserError(
            "this run samples in its first learner: it has no samplers whose number could change",
            where=str(found.config_path),
            fix="start it with scale.num_actors of 1 or more",
        )
    wanted = ask_for(found.path, asked)
    changes = ", ".join(f"{name}: {number}" for name, number in wanted.items())
    output.print(f"{found.name}: {changes}, from its next update on")
    output.result({"run": str(found.path), **wanted}, short=changes)
