"""`ludus balatro`: score hands, replay recorded games, list what the engine implements; `ludus bench balatro`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Commands, Json, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import EXIT_FAULT
from ludus.games.balatro.bridge.commands import CONNECT_EXAMPLES, SERVE_EXAMPLES, connect, serve
from ludus.games.balatro.replay_commands import SHOW_EXAMPLES, VERIFY_EXAMPLES, show, verify

if TYPE_CHECKING:
    from ludus.games.balatro.replay import ReplayAgreement

balatro_app = typer.Typer(
    cls=Commands,
    help="Balatro: score hands, replay recordings, list what the engine covers.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples("ludus balatro coverage"),
    rich_markup_mode=None,
)

_MARKS = ("enhancement", "edition", "seal")

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE.jsonl…", help="Recordings, one JSON object per line.")
]


@balatro_app.callback()
def _balatro() -> None:
    """Balatro: score hands, replay recordings, list what the engine covers."""


@balatro_app.command(
    "score", epilog=examples("ludus balatro score hands.jsonl", "ludus balatro score hands.jsonl --explain 3")
)
def score(
    cases: Annotated[Path, typer.Argument(metavar="CASES.jsonl", help="Hands with their expected scores.")],
    explain: Annotated[
        int | None, typer.Option(metavar="LINE", min=1, help="Show how the hand of this line is scored.")
    ] = None,
    json: Json = False,
) -> None:
    """Score every hand of a file and list those with another score than expected. Exit code 1 if there are any."""
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


@balatro_app.command("replay", epilog=examples("ludus balatro replay games.jsonl"))
def replay(files: Files, json: Json = False) -> None:
    """Replay recorded games with the recorded draws and shops. Exit code 1 if the engine shows a different result."""
    from ludus.games.balatro.replay import ReplayAgreement, replay_file

    output = Output(json)
    total = ReplayAgreement()
    for path in files:
        one = replay_file(path)
        output.print(f"{path}: {one.agree} of {one.cases}")
        total.cases += one.cases
        total.disagree += one.disagree
    _report(total, "recorded games and actions", output)


balatro_app.command("verify", epilog=VERIFY_EXAMPLES)(verify)
balatro_app.command("show", epilog=SHOW_EXAMPLES)(show)

Deck = Annotated[str, typer.Option(metavar="NAME", help="Deck, such as red or erratic.")]
Stake = Annotated[int, typer.Option(metavar="N", min=1, max=8, help="Stake from 1 (White) to 8 (Gold).")]


@balatro_app.command("seed", epilog=examples("ludus balatro seed 7I4M53DL --antes 2"))
def seed(
    text: Annotated[str, typer.Argument(metavar="SEED", help="1 to 8 characters, as the game shows it.")],
    deck: Deck = "red",
    stake: Stake = 1,
    antes: Annotated[int, typer.Option(metavar="N", min=1, max=38, help="Antes to show.")] = 8,
    rerolls: Annotated[
        int, typer.Option(metavar="N", min=0, max=50, help="Rerolls per shop: they change later shops.")
    ] = 0,
    json: Json = False,
) -> None:
    """Show what a seed of the real game holds if nothing is bought: bosses, vouchers, tags, shops and packs."""
    from ludus.games.balatro.facts import name_of_key
    from ludus.games.balatro.seed_search import explore
    from ludus.games.balatro.seeds import seed_text
    from ludus.kernel_cache import announce_compiling

    output = Output(json)
    announce_compiling()
    if seed_text(text) != text:
        output.print(f"the game reads {text} as {seed_text(text)}")
    rows = explore(text, _deck_number(deck), stake, antes, rerolls)
    for row in rows["antes"]:
        tags = ", ".join(map(name_of_key, row["tags"]))
        output.print(f"Ante {row['ante']}:")
        output.print(f"  boss: {name_of_key(row['boss'])}")
        output.print(f"  voucher: {name_of_key(row['voucher'])}")
        output.print(f"  tags: {tags}")
        for number, shop in enumerate(row["shops"], 1):
            for k, shelf in enumerate(shop["shelves"]):
                where = f"shop {number}" if k == 0 else f"reroll {k}"
                output.print(f"  {where}: {', '.join(map(_item, shelf))}")
            for pack in shop["packs"]:
                output.print(f"    {name_of_key(pack['pack'])}: {', '.join(map(_item, pack['cards']))}")
    output.result(rows)


@balatro_app.command("find", epilog=examples("ludus balatro find Blueprint@1.1 --count 3"))
def find(
    conditions: Annotated[
        list[str], typer.Argument(metavar="NAME[@ANTE[.SHOP]]…", help="What the seed must hold.")
    ],
    deck: Deck = "red",
    stake: Stake = 1,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="Seeds to find.")] = 1,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Seeds to try at most.")] = 1_000_000,
    processes: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes; all cores.")] = None,
    json: Json = False,
) -> None:
    """Search random seeds for what their shops, packs, tags, vouchers and bosses show, on all cores."""
    import os

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ludus.games.balatro.seed_search import Condition, find_seeds
    from ludus.runs.signals import StopSignals

    output = Output(json)
    speed = {"tried": 0, "seconds": 0.0}
    wanted = [Condition.parse(text) for text in conditions]
    found = []
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with (
        StopSignals() as signals,
        Progress(*columns, console=output.console, transient=True) as bar,
    ):
        task = bar.add_task("", total=limit, speed="starting; kernels may be compiled for a minute")

        def report(tried: int, seconds: float) -> None:
            speed.update(tried=tried, seconds=seconds)
            bar.update(task, completed=tried, speed=f"{tried / max(seconds, 1e-9):,.0f} seeds/s")

        for one in find_seeds(
            wanted,
            _deck_number(deck),
            stake,
            count=count,
            limit=limit,
            processes=processes or os.cpu_count() or 1,
            report=report,
            stopped=lambda: signals.received is not None,
        ):
            found.append(one)
            output.print(one)
    per_second = speed["tried"] / max(speed["seconds"], 1e-9)
    output.print(f"{len(found)} found, {speed['tried']:,} seeds tried, {per_second:,.0f} per second")
    output.result({"seeds": found, "tried": speed["tried"], "seeds_per_second": per_second})
    if len(found) < count:
        raise typer.Exit(signals.exit_code or EXIT_FAULT)


@balatro_app.command("check-seeds", epilog=examples("ludus balatro check-seeds vectors.jsonl --json"))
def check_seeds(
    cases: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Seeds with what the game shows.")],
    json: Json = False,
) -> None:
    """Compare the engine with recorded seeds: numbers, blinds, deck orders, shops, packs, effects.

    Exit code 1 if a field differs.
    """
    from ludus.games.balatro.seed_check import check_file

    output = Output(json)
    check = check_file(cases)
    for row in check.differences:
        output.print(
            f"{row['seed']}: {row['kind']}, {row['where']}: {row['got']}, recorded {row['expected']}"
        )
    summary = check.summary()
    for kind, counts in summary["by_kind"].items():
        output.print(f"{kind}: {counts['agree']} agree, {counts['disagree']} differ")
    output.print(f"{summary['agree']} of {summary['cases']} fields agree")
    output.result({**summary, "differences": check.differences})
    if check.differences:
        raise typer.Exit(EXIT_FAULT)


def _deck_number(name: str) -> int:
    from ludus.errors import UserError
    from ludus.games.balatro import facts

    for text in (name, f"{name} Deck"):
        number = facts.number_of(facts.DECK_NAMES, text)
        if number is not None:
            return number
    raise UserError(
        f"unknown deck {name!r}", where="--deck", fix=f"one of: {', '.join(facts.DECK_NAMES.values())}"
    )


def _item(row: dict[str, Any]) -> str:
    from ludus.games.balatro.facts import name_of_key

    marks = [str(row[mark]).partition("_")[2] or f"{row[mark]} seal" for mark in _MARKS if mark in row]
    marks += [mark for mark in ("eternal", "perishable", "rental") if row.get(mark)]
    name = name_of_key(str(row["key"]))
    return f"{name} ({', '.join(marks)})" if marks else name


@balatro_app.command("coverage", epilog=examples("ludus balatro coverage"))
def coverage(json: Json = False) -> None:
    """List which content of the game the engine implements, and what it leaves out."""
    from ludus.games.balatro.coverage import coverage as counted

    output = Output(json, listing=True)
    rows = counted()
    for kind, row in rows.items():
        output.print(f"{kind}: {row['implemented']} of {row['total']}")
        for name in row["missing"]:
            output.print(f"  missing: {name}")
    output.result({"coverage": rows})


balatro_app.command("connect", epilog=CONNECT_EXAMPLES)(connect)
balatro_app.command("serve", epilog=SERVE_EXAMPLES)(serve)


BENCH_EXAMPLES = examples(
    "ludus bench balatro",
    "ludus bench balatro --games 1024 --steps 200000",
)


def bench(
    games: Annotated[int, typer.Option(metavar="N", min=1, help="Games stepped together.")] = 256,
    max_hand: Annotated[
        int, typer.Option(metavar="N", min=5, max=20, help="Positions of the hand that actions reach.")
    ] = 12,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Steps to time.")] = 1_000_000,
    json: Json = False,
) -> None:
    """Step Balatro in antes 3 to 8 with five jokers, writing observations and masks: steps per second on one core.

    The column "best part" is the fastest twentieth of the steps. The difference shows the noise of other processes.
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
