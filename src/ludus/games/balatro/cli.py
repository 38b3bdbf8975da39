"""`ludus balatro`: score hands, replay recorded games, say what of the game is in the engine; `ludus bench balatro`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Commands, Json
from ludus.cli.output import Output, plain_table
from ludus.errors import EXIT_FAULT

if TYPE_CHECKING:
    from ludus.games.balatro.replay import ReplayAgreement

balatro_app = typer.Typer(
    cls=Commands,
    help="Balatro: score hands, replay recordings, list what the engine covers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE.jsonl…", help="Recordings, a JSON object a line.")]


@balatro_app.callback()
def _balatro() -> None:
    """Balatro: score hands, replay recordings, list what the engine covers."""


@balatro_app.command("score")
def score(
    cases: Annotated[
        Path, typer.Argument(metavar="CASES.jsonl", help="Hands with the score they should have.")
    ],
    explain: Annotated[
        int | None, typer.Option(metavar="LINE", min=1, help="Show how the hand of this line is scored.")
    ] = None,
    json: Json = False,
) -> None:
    """Score every hand of a file, and list those whose score is another one. Exit code 1 when there are any."""
    from ludus.games.balatro.cases import explain_case, score_file

    output = Output(json)
    if explain is not None:
        answer = explain_case(cases, explain)
        output.print(str(answer))
        output.result(
            {"hand": answer.hand, "chips": answer.chips, "mult": answer.mult, "score": answer.score}
        )
        return
    _report(score_file(cases), "hands", output)


@balatro_app.command("replay")
def replay(files: Files, json: Json = False) -> None:
    """Replay recorded games with their own draws and shops. Exit code 1 where the engine shows something else."""
    from ludus.games.balatro.replay import ReplayAgreement, replay_file

    output = Output(json)
    total = ReplayAgreement()
    for path in files:
        one = replay_file(path)
        output.print(f"{path}: {one.agree} of {one.cases}")
        total.cases += one.cases
        total.disagree += one.disagree
    _report(total, "recorded games and actions", output)


@balatro_app.command("coverage")
def coverage(json: Json = False) -> None:
    """List how much of the game is in the engine, and what is left out of every pool."""
    from ludus.games.balatro.coverage import coverage as counted

    output = Output(json, listing=True)
    rows = counted()
    for kind, row in rows.items():
        output.print(f"{kind}: {row['implemented']} of {row['total']}")
        for name in row["missing"]:
            output.print(f"  missing: {name}")
    output.result({"coverage": rows})


def bench(
    games: Annotated[int, typer.Option(metavar="N", min=1, help="Games stepped together.")] = 256,
    max_hand: Annotated[
        int, typer.Option(metavar="N", min=5, max=20, help="Positions of the hand that actions reach.")
    ] = 12,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Steps to time.")] = 1_000_000,
    json: Json = False,
) -> None:
    """Step Balatro in antes 3 to 8 with five jokers held, with observation and mask: steps per second on one core.

    The best part is the fastest twentieth of them, and shows how even they were: others may use the processor too.
    """
    from ludus.games.balatro.speed import engine_speed, single_speed, vector_env_speed

    output = Output(json)
    numbers = ("games", "steps/s", "best part")
    table = plain_table("through", *numbers, right=numbers)
    rows = [
        {"through": "engine: one compiled call"} | engine_speed(games, max_hand, steps),
        {"through": "vector env, with reports"} | vector_env_speed(games, max_hand, steps),
        {"through": "one game by Gymnasium"} | single_speed(max_hand, max(1, steps // 50)),
    ]
    for row in rows:
        speeds = (f"{row[key]:,.0f}" for key in ("steps_per_second", "best_steps_per_second"))
        table.add_row(row["through"], str(row["games"]), *speeds)
    output.print(table)
    output.result({"balatro": rows})


def _report(agreement: ReplayAgreement, noun: str, output: Output) -> None:
    for entry in agreement.disagree:
        output.print(_line(entry))
    output.print(f"{agreement.agree} of {agreement.cases} {noun} agree")
    output.result(agreement.as_dict())
    if agreement.disagree:
        raise typer.Exit(EXIT_FAULT)


def _line(entry: dict[str, Any]) -> str:
    where = f"line {entry['line']}" + (f", {entry['name']}" if entry.get("name") else "")
    step = f", step {entry['step'] + 1}" if "step" in entry else ""
    return f"{where}{step}: {entry['field']} is {entry['own']}, recorded {entry['recorded']}"
