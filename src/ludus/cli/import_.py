"""`ludus import`: a model of another library as a run of Ludus."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.commands import Json, examples, typed_env
from ludus.cli.output import Output
from ludus.errors import UserError

EXAMPLES = examples(
    "ludus import model.zip --env CartPole-v1",
)


def import_model(
    file: Annotated[Path, typer.Argument(metavar="MODEL.ZIP", help="Zip file written by model.save().")],
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="ID",
            help="The env it was trained on; the zip does not contain it.",
            callback=typed_env,
        ),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Load the file: you trust its origin.")] = False,
    algo: Annotated[
        str | None,
        typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN or SAC, if Ludus cannot detect it."),
    ] = None,
    vecnormalize: Annotated[
        Path | None,
        typer.Option(
            "--vecnormalize",
            metavar="FILE",
            help="Statistics of VecNormalize. A .pkl file can run code when it is loaded. "
            "Default: those that `ludus export` saved next to the zip.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="The run's name.")] = None,
    root: Annotated[str, typer.Option("--root", "-C", metavar="DIR", help="Folder of the runs.")] = "runs",
    json: Json = False,
) -> None:
    """Turn a model of Stable-Baselines3 into a run."""
    output = Output(json)
    if not file.is_file():
        raise UserError(f"there is no file '{file}'", where=str(file.absolute()), fix="check the path")
    command = shlex.join(["ludus", "import", str(file), "--env", env or "ID", "--trust"])
    if not trust:
        raise UserError(
            f"'{file.name}' may contain pickle data, which can run code when it is loaded",
            where=str(file.absolute()),
            fix=f"if you know where it comes from: {command} (it reads the weights and plain settings only)",
        )
    if env is None:
        raise UserError(
            "the env of the model is unknown: a zip does not contain it", fix=f"name it: {command}"
        )

    from ludus.cli.player import open_spec
    from ludus.envs.make import EnvSpec
    from ludus.plugins import load, references

    spec = open_spec(EnvSpec(env), env)
    importers = references("model_importers")
    import_file = load(importers.get(file.suffix.lower()) or next(iter(importers.values())))
    imported = import_file(
        file, spec, algorithm=algo, statistics=vecnormalize, name=name or file.stem, save_dir=root
    )
    where, found = shlex.quote(str(imported.run.path)), imported.statistics
    normalised = "none: its observations were not normalised, or --vecnormalize says where they are"
    output.pairs(
        [
            ("model", f"{imported.algorithm}, {imported.steps:,} steps"),
            ("statistics", normalised if found is None else str(found)),
            ("run", str(imported.run.path)),
            ("next", f"ludus eval {where}"),
        ]
    )
    output.result(
        {
            "run": str(imported.run.path),
            "algorithm": imported.algorithm,
            "steps": imported.steps,
            "statistics": None if found is None else str(found),
        },
        short=str(imported.run.path),
    )
