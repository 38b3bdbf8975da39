"""`ludus import`: a model of Stable-Baselines3 as a run of Ludus."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ludus.cli.options import Json
from ludus.cli.output import Output
from ludus.errors import UserError


def import_model(
    file: Annotated[Path, typer.Argument(metavar="MODEL.ZIP", help="What model.save() wrote.")],
    env: Annotated[
        str | None, typer.Option("--env", metavar="ID", help="The env it was trained on; a zip does not say.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="You know where the file comes from, and that it is what it says.")
    ] = False,
    algo: Annotated[
        str | None,
        typer.Option("--algo", metavar="NAME", help="PPO, A2C, DQN or SAC, if it is not found out."),
    ] = None,
    vecnormalize: Annotated[
        Path | None,
        typer.Option(
            "--vecnormalize",
            metavar="FILE",
            help="Statistics of VecNormalize. A .pkl can run code as it is read. "
            "Default: those that `ludus export` left beside the zip.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="The run's name.")] = None,
    root: Annotated[str, typer.Option("--root", "-C", metavar="DIR", help="Where the run is put.")] = "runs",
    json: Json = False,
) -> None:
    """Turn a model of Stable-Baselines3 into a run."""
    output = Output(json)
    if not file.is_file():
        raise UserError(f"there is no file '{file}'", where=str(file.absolute()), fix="check the path")
    command = shlex.join(["ludus", "import", str(file), "--env", env or "ID", "--trust"])
    if not trust:
        raise UserError(
            f"'{file.name}' may hold pickle, with which a file can run any code when it is loaded",
            where=str(file.absolute()),
            fix=f"if you know where it comes from: {command} (it reads the weights and plain settings only)",
        )
    if env is None:
        raise UserError("a zip does not say which env it is for", fix=f"name it: {command}")

    from ludus.cli.player import open_spec
    from ludus.envs.make import EnvSpec
    from ludus.sb3.import_zip import read_sb3_zip, read_statistics, statistics_beside
    from ludus.training.imported import write_imported

    spec = open_spec(EnvSpec(env), env)
    model = read_sb3_zip(file, algo)
    found = vecnormalize or statistics_beside(file)
    statistics = {} if found is None else read_statistics(found, spec)
    run = write_imported(model, spec, statistics, name=name or file.stem, save_dir=root)
    where = shlex.quote(str(run.path))
    normalised = "none: its observations were not normalised, or --vecnormalize says where they are"
    output.pairs(
        [
            ("model", f"{model.algorithm}, {model.steps:,} steps"),
            ("statistics", normalised if found is None else str(found)),
            ("run", str(run.path)),
            ("next", f"ludus eval {where}"),
        ]
    )
    output.result(
        {
            "run": str(run.path),
            "algorithm": model.algorithm,
            "steps": model.steps,
            "statistics": None if found is None else str(found),
        },
        short=str(run.path),
    )
