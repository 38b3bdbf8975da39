"""`ludus balatro connect` and `ludus balatro serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Json, Quiet, Root, Stochastic, examples
from ludus.cli.output import Output
from ludus.errors import EXIT_FAULT, UserError
from ludus.games.balatro.bridge.protocol import DEFAULT_HOST, DEFAULT_PORT

if TYPE_CHECKING:
    from ludus.games.balatro.bridge.client import GameClient, GamesDiffer

CONNECT_EXAMPLES = examples(
    "ludus balatro connect --agent balatro-ppo",
    "ludus balatro connect --agent rules --seed 7I4M53DL",
    "ludus balatro connect --agent rules --games 3",
)
SERVE_EXAMPLES = examples("ludus balatro serve", "ludus balatro serve --port 12347")

Port = Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port of the game's server.")]
_ENV = "ludus/Balatro-v0"
_SHOWN_DIFFERENCES = 12


def connect(
    port: Port = DEFAULT_PORT,
    host: Annotated[str, typer.Option(metavar="NAME", help="Machine the game runs on.")] = DEFAULT_HOST,
    agent: Annotated[
        str, typer.Option(metavar="POLICY", help="RUN, RUN@best, preset:NAME, an agent, or a bot.")
    ] = "balatro-ppo",
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Seed as the game shows it, or an integer that counts up; default: random."
        ),
    ] = None,
    deck: Annotated[str, typer.Option(metavar="NAME", help="Deck, such as RED or ERRATIC.")] = "RED",
    stake: Annotated[str, typer.Option(metavar="NAME", help="Stake, from WHITE to GOLD.")] = "WHITE",
    games: Annotated[int, typer.Option(metavar="N", min=1, help="Runs to play.")] = 1,
    wait: Annotated[float, typer.Option(metavar="S", min=0, help="Seconds to wait for the game.")] = 60.0,
    timeout: Annotated[float, typer.Option(metavar="S", min=1, help="Seconds to wait for an answer.")] = 60.0,
    settle: Annotated[
        float, typer.Option(metavar="S", min=0, help="Seconds to wait for the expected state.")
    ] = 20.0,
    leave_run: Annotated[
        bool, typer.Option("--leave-run", help="Abandon the run in progress in the game.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where both states are kept if they differ; by default balatro-difference-SEED.json.",
        ),
    ] = None,
    stochastic: Stochastic = False,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play the real game through the mod balatrobot, checked step by step against the engine.

    The policy decides in a game of the engine with the same seed. After every action the game must show what the
    engine expects. At the first difference the command stops, keeps both states in a file, and ends with exit code 1.
    """
    import random

    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.envs.seeds import following_seed, number_of_seed, parse_seed
    from ludus.games.balatro.bridge.client import BridgePlayer, GameClient, GamesDiffer, Patience
    from ludus.games.balatro.bridge.protocol import GameConnection
    from ludus.games.balatro.bridge.twin import Twin
    from ludus.games.balatro.seeds import random_seed, seed_text

    output = Output(json, quiet=quiet)
    first = None if seed is None else parse_seed(seed, f"command line: --seed {seed}")
    generator = random.Random()
    texts = [
        random_seed(generator) if first is None else seed_text(following_seed(first, k)) for k in range(games)
    ]
    level: str | int = int(stake) if stake.isdecimal() else stake
    _check_run(deck, level)
    meant = resolve_policy(agent, root, None)
    env = _ENV if meant.policy == "random" else None
    player = seat(meant.policy, env, meant.root, number_of_seed(texts[0]))
    patience = Patience(start=wait, settle=settle)
    client = GameClient(GameConnection(host, port, timeout), patience)
    client.wait_for_game(output.print)
    output.print(f"connected to {client.title or 'the game'} at {client.connection.address}")
    twin = Twin(player.spec, deck, level, client.methods)
    bridge = BridgePlayer(client, twin, player.policy, deterministic=not stochastic)
    played = []
    try:
        for number, text in enumerate(texts, 1):
            game = bridge.play(text, leave_run=leave_run or number > 1)
            played.append(game.as_dict())
            output.print(
                f"game {number} of {games}, seed {text}: {game.ended} in ante {game.ante}, "
                f"round {game.round}, {len(game.requests)} requests, no difference"
            )
    except GamesDiffer as differ:
        run = {"seed": text, "deck": twin.deck, "stake": twin.stake, "agent": agent, "game": client.title}
        path = report or Path(f"balatro-difference-{text}.json")
        _report_difference(path, differ, client, run, output)
        output.result({"games": played, "difference": differ.what, "report": str(path)})
        raise typer.Exit(EXIT_FAULT) from None
    finally:
        twin.close()
    output.result({"games": played, "difference": None})


def _check_run(deck: str, stake: str | int) -> None:
    from ludus.games.balatro.settings import BalatroSettings

    try:
        BalatroSettings(deck, stake)
    except UserError as error:
        error.where = "command line: --deck, --stake"
        raise


def _report_difference(
    path: Path, differ: GamesDiffer, client: GameClient, run: dict[str, str], output: Output
) -> None:
    from ludus.games.balatro.bridge.client import write_report

    write_report(path, differ, client, run)
    output.print(f"stopped with seed {run['seed']} after {len(client.log)} requests: {differ.what}")
    for difference in differ.differences[:_SHOWN_DIFFERENCES]:
        output.print(f"  {difference}")
    output.print(f"both states are in {path}")


def serve(
    port: Port = DEFAULT_PORT,
    host: Annotated[str, typer.Option(metavar="NAME", help="Address to listen at.")] = DEFAULT_HOST,
) -> None:
    """Serve the protocol of the mod balatrobot with the engine instead of the game: a stand-in, not the game."""
    from ludus.games.balatro.bridge.server import StandInServer
    from ludus.kernel_cache import announce_compiling

    output = Output()
    announce_compiling()
    with StandInServer(host, port) as server:
        server.stand_in.warm_up()
        output.print(
            f"stand-in, not the game: listening at {host}:{server.server_address[1]}; Ctrl-C ends it"
        )
        server.serve_forever(poll_interval=0.1)
