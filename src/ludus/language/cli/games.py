"""`ludus games`: the games a language run has played, as a list or one turn by turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Json, Root, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.runs.directory import RunDirectory


EXAMPLES = examples(
    "ludus language games latest",
    "ludus language games latest --match 12 --prompts",
)


def games(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run name, or latest.")] = "latest",
    match: Annotated[
        int | None, typer.Option("--match", metavar="N", help="Show this game, turn by turn.")
    ] = None,
    evaluation: Annotated[
        bool, typer.Option("--eval", help="Games of evaluations, not of training.")
    ] = False,
    update: Annotated[
        int | None, typer.Option("--update", metavar="N", help="Only games of this update.")
    ] = None,
    opponent: Annotated[
        str | None, typer.Option("--opponent", metavar="NAME", help="Only games with this player.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, help="Maximum number of games, newest first.")
    ] = 20,
    prompts: Annotated[bool, typer.Option("--prompts", help="With the whole prompt of every turn.")] = False,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Browse the games of a language run."""
    from ludus.runs.directory import find_run

    output = Output(json, listing=True)
    found = find_run(run, root)
    kind = "eval" if evaluation else "train"

    def wanted(row: dict[str, Any]) -> bool:
        return (
            (update is None or row["update"] == update)
            and (opponent is None or opponent in row["players"])
            and (match is None or row["match"] == match)
        )

    count, shown = _read(found, kind, wanted, 1 if match is not None else last)
    if match is not None:
        _show(_the_match(shown, match, found, evaluation), output, prompts)
        return
    table = plain_table(
        "match",
        "update",
        "game",
        "players",
        "result",
        "turns",
        "reason",
        right=("match", "update", "turns"),
        wrap=("players", "reason"),
    )
    for row in shown:
        table.add_row(
            str(row["match"]),
            str(row["update"]),
            row["game"],
            " | ".join(row["players"]),
            " ".join(_number(reward, "g") for reward in row["rewards"]),
            str(row["length"]),
            row["reason"] + (" (cut off)" if row["cut_off"] else ""),
        )
    output.print(table)
    output.print(f"{len(shown)} of {count} games. One of them turn by turn: ludus games {run} --match N")
    output.result({"run": str(found.path), "games": shown})


def _read(
    run: RunDirectory, kind: str, wanted: Callable[[dict[str, Any]], bool], most: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of matching games, and the last of them: a run may have more than fit in memory."""
    from ludus.language.game_files import read_games

    written, count = 0, 0
    kept: deque[dict[str, Any]] = deque(maxlen=most)
    for update, row in read_games(run, kind):
        written += 1
        row["update"] = update
        if wanted(row):
            count += 1
            kept.append(row)
    if not written:
        raise UserError(
            f"this run has written no {kind} games",
            where=str(run.path),
            fix="games are written by language runs, after each update: ludus train tictactoe-tiny",
        )
    return count, list(kept)


def _the_match(
    found: list[dict[str, Any]], number: int, run: RunDirectory, evaluation: bool
) -> dict[str, Any]:
    if found:
        return found[-1]
    raise UserError(
        f"there is no match {number} among them",
        where=str(run.path),
        fix=f"`ludus games {run.name}{' --eval' * evaluation}` lists them",
    )


def _show(row: dict[str, Any], output: Output, prompts: bool) -> None:
    from rich.text import Text

    output.pairs(
        [
            ("match", f"{row['match']} of {row['game']}, update {row['update']}, seed {row['seed']}"),
            *((f"seat {seat}", name) for seat, name in enumerate(row["players"])),
        ]
    )
    turns = {turn["index"]: turn for turn in row["turns"]}
    for index, (seat, action) in enumerate(row["moves"]):
        turn = turns.get(index)
        output.print(
            Text.assemble("\n", (f"turn {index}", "bold"), (f"  seat {seat}, {row['players'][seat]}", "cyan"))
        )
        if turn is None:
            output.print(Text(f"  plays  {action}"))
            continue
        if prompts:
            output.print(Text(_indented(turn["observation"]), style="dim"))
        output.print(Text(f"  says   {_indented(turn['text']).strip()}"))
        marks = [word for word in ("invalid", "truncated") if turn[word]]
        marks += [] if turn["well_formed"] else ["no action found"]
        entropy = _number(turn["entropy"], ".2f")
        tokens = f"{len(turn['prompt'])} + {len(turn['completion'])} tokens, entropy {entropy}"
        output.print(Text(f"  plays  {action}" + (f"  ({', '.join(marks)})" if marks else "")))
        parts = ", ".join(f"{name} {_number(value, '+.3f')}" for name, value in turn["reward_parts"].items())
        output.print(Text(f"  {tokens}; {parts or 'no reward yet'}", style="dim"))
    result = ", ".join(f"seat {seat} {_number(reward, '+g')}" for seat, reward in enumerate(row["rewards"]))
    output.print(Text.assemble("\n", ("result  ", "bold"), f"{result}: {row['reason']}"))
    output.result(row)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def _number(value: Any, form: str) -> str:
    """Return `value` in this format; a question mark if it is not a number."""
    from ludus.tracking.following import is_number

    return format(value, form) if is_number(value) else "?"
