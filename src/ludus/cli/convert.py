"""`ludus convert`: a config of another tool as Ludus YAML, with an account of every key that has no equivalent."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ludus.cli.commands import EnvId, Json
from ludus.cli.output import Output
from ludus.plugins import listed

EXAMPLES = """\b
Examples, by the shape of the file:
  rl-baselines3-zoo    ludus convert ppo.yml --env CartPole-v1
""" + "".join(f"  {importer.EXAMPLE}\n" for importer in listed("config_importers"))


def convert(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A config of another tool: YAML, JSON or Python.")
    ],
    env: EnvId = None,
    algo: Annotated[
        str | None, typer.Option("--algo", metavar="NAME", help="Needed if the file does not name it.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="Training loop: native or sb3.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a foreign config as Ludus YAML, and list each key that has no equivalent."""
    from ludus.cli.foreign import remark_as_dict, remarks_as_comments
    from ludus.config.loading import load_config
    from ludus.config.plain_yaml import write_yaml
    from ludus.errors import UserError, printable

    output = Output(json, listing=True)
    flags = {"env.id": env, "algorithm": algo, "engine": engine}
    loaded = load_config(file, flags={key: value for key, value in flags.items() if value is not None})
    imported = loaded.imported
    if imported is None:
        raise UserError(
            f"'{file}' has an unknown config format",
            where=file,
            fix=f"if it is a Ludus config, use it as it is: ludus config {file}",
        )
    lines = [f"# From {printable(file)}: {imported.kind}", write_yaml(imported.data).rstrip()]
    lines += remarks_as_comments(imported)
    output.print("\n".join(lines))
    if not json and imported.lost and not sys.stdout.isatty():
        print(f"{len(imported.lost)} without equivalent, listed at the end of the YAML", file=sys.stderr)
    output.result(
        {
            "format": imported.kind,
            "config": imported.data,
            "lost": [remark_as_dict(remark) for remark in imported.lost],
            "needless": [remark_as_dict(remark) for remark in imported.notes],
        }
    )
