"""`ludus league`: all players of a language run, with their ratings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Json, Root, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.league.league import Standing
    from ludus.runs.checkpoints import Checkpoint
    from ludus.runs.directory import RunDirectory

_NUMBERS = ("rating", "±", "games", "won", "drawn", "lost", "met")
_TOKENS = ("tokens in", "tokens out", "cost")
_MAX_ROWS = 500
_LOOK = {"learner": "bold", "bot": "cyan", "policy": "green", "model": "green", "remote": "magenta"}


EXAMPLES = examples(
    "ludus league latest",
)


def league(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, latest, or RUN@STEP.")],
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Print the league of a language run."""
    output = Output(json, listing=True)
    found, checkpoint, rows = _read(run, root)
    from rich.text import Text

    remote = any(row.requests for row in rows)
    numbers = (*_NUMBERS, *_TOKENS) if remote else _NUMBERS
    columns = ("  player", "kind", *numbers)
    table = plain_table(*columns, right=numbers, wrap=columns[:1])
    for row in rows[:_MAX_ROWS]:
        cells = [*_cells(row), *(_token_cells(row) if remote else ())]
        table.add_row(Text(f"  {row.name}", _LOOK.get(row.kind, "")), *cells)
    output.print(f"{found.name} at step {checkpoint.step:,}")
    output.print(table)
    if len(rows) > _MAX_ROWS:
        output.print(f"  and {len(rows) - _MAX_ROWS:,} more, which --json lists")
    output.print("  rating: OpenSkill's mean, ± its standard deviation; a new player has 25 ± 8.3")
    output.print("  met: share of the learner's opponents in training, itself included")
    if remote:
        output.print("  tokens: as the remote model counts them; cost: by price_in and price_out of its name")
    output.result(
        {
            "run": str(found.path),
            "checkpoint": checkpoint.name,
            "step": checkpoint.step,
            "members": [asdict(row) for row in rows],
        }
    )


def _read(ref: str, root: str) -> tuple[RunDirectory, Checkpoint, list[Standing]]:
    from ludus.config.language import LeagueConfig
    from ludus.evaluation.load import find_league
    from ludus.league.league import League

    found, checkpoint = find_league(ref, root)
    state = checkpoint.state().get("league")
    if state is None:
        raise UserError(
            "this checkpoint has no league: only checkpoints of language runs can have one",
            where=str(checkpoint.path),
            fix=f"`ludus eval {ref.partition('@')[0]}` evaluates a run on an env",
        )
    made = League(LeagueConfig())
    with checkpoint.understood():
        made.load_state_dict(state)
        return found, checkpoint, made.table()


def _cells(row: Standing) -> list[str]:
    return [
        row.kind,
        f"{row.mu:.1f}",
        f"{row.sigma:.1f}",
        f"{row.games:,}",
        f"{row.wins:,}",
        f"{row.draws:,}",
        f"{row.losses:,}",
        f"{row.frequency:.0%}" if row.frequency else "",
    ]


def _token_cells(row: Standing) -> list[str]:
    if not row.requests:
        return ["", "", ""]
    cost = "" if row.cost is None else f"{row.cost:.4g}"
    return [f"{row.prompt_tokens:,}", f"{row.completion_tokens:,}", cost]
