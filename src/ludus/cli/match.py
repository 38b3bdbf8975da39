"""`ludus match`: any two policies at one game."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Json, Quiet, Root, Stochastic, examples, typed_env
from ludus.cli.failures import typed_as
from ludus.cli.output import Output, plain_table
from ludus.errors import UnknownName, UserError

if TYPE_CHECKING:
    from rich.table import Table

    from ludus.config.language import GameConfig
    from ludus.league.match import MatchResult, WinTally
    from ludus.league.players import TokenUse
    from ludus.league.records import MatchRecord

_ALONE = "policies of an env for one player are compared with `ludus eval`"
_NAMES = "RUN, RUN@best, RUN@STEP, a bot, openai:MODEL, or human."


EXAMPLES = examples(
    "ludus match minimax random --env TicTacToe-v0",
    "ludus match latest minimax --games 200",
    "ludus match human RUN@best --env KuhnPoker-v0",
)


def match(
    first: Annotated[str, typer.Argument(metavar="A", help=_NAMES)],
    second: Annotated[str, typer.Argument(metavar="B", help="The opponent. Results are those of A.")],
    env: Annotated[
        str | None,
        typer.Option(
            "--env", metavar="GAME", help="The game; default: that of the given run.", callback=typed_env
        ),
    ] = None,
    games: Annotated[
        int | None,
        typer.Option("--games", "-n", metavar="N", min=1, help="Games; default: 100, with a human 2."),
    ] = None,
    players: Annotated[
        int | None,
        typer.Option("--players", metavar="N", min=1, help="Seats; B fills all but one."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=0, help="Seed of the first game; the others follow."),
    ] = 0,
    stochastic: Stochastic = False,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every game.")] = False,
) -> None:
    """Play two policies against each other at a game."""
    import torch

    from ludus.envs.seats import make_game
    from ludus.evaluation.players import HUMAN, make_player
    from ludus.league.match import play_matches
    from ludus.runs.streams import Streams

    output = Output(json, quiet=quiet, verbose=verbose)
    game = _game(env, players, (first, second), root)
    human = HUMAN in (first, second)
    count = games or (2 if human else 100)
    streams = Streams(seed)
    torch.manual_seed(seed)  # what Stable-Baselines3 samples is drawn from here
    torch.set_num_threads(1)
    one, two = (
        make_player(
            ref,
            [game.spec()],
            streams=streams,
            stream=f"player {number}",
            root=root,
            deterministic=not stochastic,
            screen=sys.stderr if json else sys.stdout,
        )
        for number, ref in enumerate((first, second))
    )
    shown = output.console.is_terminal and not (quiet or human or verbose)
    with output.console.status("playing") if shown else nullcontext() as status:
        reporter = _GameReporter(output, count, status, verbose=verbose or human)
        result = play_matches(
            one,
            two,
            partial(make_game, game),
            count,
            seed,
            side_by_side=1 if human else 64,
            ended=reporter,
        )
    if len(result.skipped) == count:
        raise UserError(
            "no game could be played to its end",
            where=f"{result.first} against {result.second} at {result.game}",
            fix=f"fix this first: {result.skipped[0]}",
        )
    _report(output, result, count, (first, second), root, {"seed": seed, "deterministic": not stochastic})


def _report(
    output: Output,
    result: MatchResult,
    count: int,
    refs: tuple[str, str],
    root: str,
    settings: dict[str, Any],
) -> None:
    """Print the result of `count` games."""
    from ludus.evaluation.players import describe

    output.print(f"{result.first} against {result.second} at {result.game}")
    output.print(_table(result))
    meant = {ref: describe(ref, root) for ref in refs}
    output.pairs([*((ref, said) for ref, said in meant.items() if said != ref), *_further(result)])
    total = result.total
    output.result(
        {
            "first": result.first,
            "second": result.second,
            "meant": meant,
            "env": result.game,
            "games": count,
            **total.summary(),
            "by_seat": [seat.summary() for seat in result.by_seat],
            "cut_off": result.cut_off,
            "skipped": len(result.skipped),
            "mean_reward": list(result.mean_rewards),
            "invalid": list(result.invalid),
            "mean_length": result.mean_length,
            "token_use": [None if use is None else asdict(use) for use in result.token_use],
            **settings,
        },
        short=f"{total.wins} {total.draws} {total.losses}",
    )


def _game(env: str | None, players: int | None, refs: tuple[str, str], root: str) -> GameConfig:
    """Return the game that --env names, or the one that the first of the runs was trained on."""
    from ludus.config.language import GameConfig
    from ludus.envs.catalog import known_env_ids
    from ludus.envs.seats import SEAT_ENV, make_game
    from ludus.evaluation.players import game_of

    if env is None:
        own = (game_of(ref, root) for ref in refs)
        game = next((game for game in own if game is not None), None)
        if game is None:
            raise UserError(
                "no game is given, and neither player was trained on one",
                fix=f"give one with --env, such as TicTacToe-v0; {_ALONE}",
            )
    else:
        game = GameConfig(id=env.removeprefix(SEAT_ENV))
        try:
            with typed_as("--env", env):
                make_game(game)
        except UnknownName:
            if env not in known_env_ids():
                raise
            raise UserError(
                f"'{env}' has no seats: one policy plays it alone",
                where=f"command line: --env {env}",
                fix=f"choose a game with seats, such as TicTacToe-v0; {_ALONE}",
            ) from None
    if players is not None:
        game = game.model_copy(update={"players": players})
        make_game(game).reset(0)  # UserError when so many cannot play it
    return game


class _GameReporter:
    """Called with each game as it ends: counts them on the terminal, or prints each result."""

    def __init__(self, output: Output, count: int, status: Any, *, verbose: bool) -> None:
        self._output = output
        self._count = count
        self._status = status
        self._verbose = verbose
        self._ended = 0

    def __call__(self, record: MatchRecord | None) -> None:
        self._ended += 1
        if self._status is not None:
            self._status.update(f"playing: {self._ended:,} games")
        if self._verbose and record is not None:
            seats = ", ".join(
                f"player {seat} ({name}) {reward:+g}"
                for seat, (name, reward) in enumerate(zip(record.players, record.rewards, strict=True))
            )
            moves = " ".join(f"{seat}:{action}" for seat, action in record.moves)
            self._output.print(f"game {record.match}: {seats}; {record.reason or 'over'}\n  moves: {moves}\n")


def _table(result: MatchResult) -> Table:
    table = plain_table("", "games", "won", "drawn", "lost", right=("games",))
    width = len(f"{result.total.games:,}")
    table.add_row("  all", *_cells(result.total, width))
    if len(result.by_seat) > 1:
        for seat, tally in enumerate(result.by_seat):
            table.add_row(f"  player {seat}", *_cells(tally, width))
    return table


def _cells(tally: WinTally, width: int) -> list[str]:
    from ludus.league.match import wilson

    cells = [f"{tally.games:,}"]
    for count in (tally.wins, tally.draws, tally.losses):
        if tally.games:
            low, high = wilson(count, tally.games)
            cells.append(f"{count:>{width},} {count / tally.games:.0%} ({100 * low:.0f}–{100 * high:.0f})")
        else:
            cells.append("-".rjust(width))
    return cells


def _token_use(result: MatchResult) -> list[tuple[str, TokenUse]]:
    """Return what the remote models among the two used."""
    both = zip((result.first, result.second), result.token_use, strict=True)
    return [(name, use) for name, use in both if use is not None]


def _further(result: MatchResult) -> list[tuple[str, str]]:
    rows = [
        ("interval", "of 95 %, in per cent (Wilson)"),
        ("reward", f"{result.mean_rewards[0]:.3g} against {result.mean_rewards[1]:.3g}"),
        ("length", f"{result.mean_length:.1f} turns"),
    ]
    for name, count in zip((result.first, result.second), result.invalid, strict=True):
        if count:
            rows.append(("invalid", f"{count:,} games lost by an invalid move of {name}"))
    for name, use in _token_use(result):
        cost = "" if use.cost is None else f", cost {use.cost:.4g}"
        tokens = f"{use.prompt_tokens:,} in, {use.completion_tokens:,} out"
        rows.append(("tokens", f"{name}: {tokens} in {use.requests:,} requests{cost}"))
    if result.cut_off:
        rows.append(("cut off", f"{result.cut_off:,} games that did not end by themselves"))
    for reason, count in Counter(result.skipped).most_common(3):
        rows.append(("skipped", f"{count:,} games: {reason}"))
    return rows
