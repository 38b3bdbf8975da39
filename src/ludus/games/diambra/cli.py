"""`ludus diambra`: stand-in engines that need no ROMs, and fights between two policies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from ludus.cli.commands import Commands, Json, Root
from ludus.cli.output import Output
from ludus.errors import MissingExtra, UserError

diambra_app = typer.Typer(
    cls=Commands,
    help="DIAMBRA: stand-in engines without ROMs, fights between two policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_START_SECONDS = 60.0
_END_SECONDS = 5.0

Game = Annotated[
    str | None, typer.Option("--game", metavar="ID", help="The one game it plays; default: any asked for.")
]
StepMs = Annotated[
    float, typer.Option("--step-ms", metavar="MS", min=0.0, help="How long a step takes at least.")
]


@diambra_app.callback()
def _diambra() -> None:
    """DIAMBRA: stand-in engines without ROMs, fights between two policies."""


@diambra_app.command("engine")
def engine(
    game: Game = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any free one.")
    ] = 50051,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Where to listen.")] = "127.0.0.1",
    step_ms: StepMs = 0.0,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="End when its input does.")] = False,
) -> None:
    """Serve one stand-in engine until Ctrl-C.

    It speaks DIAMBRA's protocol and plays a small fighting game in place of the real one: for tests, development
    and trying Ludus without ROMs. Every frame says STAND-IN.
    """
    _require_client()
    from ludus.games.diambra.games import find_game
    from ludus.games.diambra.polling import poll_where_called

    poll_where_called()
    from ludus.games.diambra.standin.server import EngineStandIn, Serving

    if game is not None:
        find_game(game)
    standin = EngineStandIn(game, step_ms)
    try:
        serving = Serving(standin, host, port)
    except OSError as error:
        raise UserError(
            f"no engine can listen at {host}:{port}",
            where=f"command line: --host {host} --port {port}",
            fix="another --port (somebody else may use this one), or 0 for any free one",
        ) from error
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: standin.shutdown.set())
    if until_eof:
        threading.Thread(target=_after_input, args=(standin.shutdown,), daemon=True).start()
    print(f"stand-in engine at {serving.address}, plays {game or 'any game'} (Ctrl-C ends it)", flush=True)
    standin.shutdown.wait()
    serving.close(grace=0.5)


@diambra_app.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run with the engines.")],
    scale: Annotated[int, typer.Option("--scale", "-s", metavar="N", min=1, help="How many engines.")] = 1,
    game: Game = None,
    step_ms: StepMs = 0.0,
) -> None:
    """Run a command with stand-in engines.

    As `diambra run` does with real ones: DIAMBRA_ENVS tells the command where they are, and they end with it.
    """
    _require_client()
    arguments = [
        "--port",
        "0",
        "--until-eof",
        "--step-ms",
        str(step_ms),
        *([] if game is None else ["--game", game]),
    ]
    started: list[subprocess.Popen[str]] = []
    try:
        for _ in range(scale):
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "ludus", "diambra", "engine", *arguments],
                    stdin=subprocess.PIPE,  # closed however this process ends, and the engine with it
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,  # Ctrl-C is for the command: the engines must outlive its last words
                )
            )
        environment = os.environ | {"DIAMBRA_ENVS": " ".join(map(_address, started))}
        bin_folder = str(Path(sys.executable).parent)  # `ludus` is the one that runs now
        environment["PATH"] = os.pathsep.join([bin_folder, environment.get("PATH", "")])
        code = _run_to_end(command, environment)
    finally:
        _end(started)
    if code:
        raise typer.Exit(code)


@diambra_app.command("duel")
def duel(
    left: Annotated[str, typer.Argument(metavar="POLICY", help="RUN, RUN@best, …; or a bot.")],
    right: Annotated[str, typer.Argument(metavar="OPPONENT", help="Another; bots: random, still, brawler.")],
    fights: Annotated[int, typer.Option("--fights", "-n", metavar="N", min=1, help="How many.")] = 10,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0)] = 0,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Seat two policies at one game.

    At least one is a run: its settings are the game's. Every start is fought from both seats.
    """
    _require_client()
    from ludus.games.diambra.duels import fight_duels
    from ludus.league.match import wilson

    output = Output(json)
    result = fight_duels(left, right, fights=fights, seed=seed, root=root)
    tally = result.tally
    low, high = wilson(tally.wins, fights)
    output.pairs(
        [
            (left, f"won {tally.wins} of {fights} ({low:.0%} to {high:.0%} with 95 % confidence)"),
            (right, f"won {tally.losses} of {fights}"),
            ("reward", f"{result.mean_reward:.2f} for {left}, on average"),
        ]
    )
    output.result(result.summary())


def _require_client() -> None:
    import importlib.util

    if importlib.util.find_spec("diambra") is None:
        raise MissingExtra("`ludus diambra`", "diambra", own_environment=True)


def _after_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _address(started: subprocess.Popen[str]) -> str:
    """Where an engine that was started listens. Raises UserError when it did not come up."""
    assert started.stdout is not None
    line = started.stdout.readline()
    if not line.startswith("stand-in engine at "):
        raise UserError("a stand-in engine did not start", where="ludus diambra run", fix="see above")
    return line.removeprefix("stand-in engine at ").partition(",")[0]


def _run_to_end(command: list[str], environment: dict[str, str]) -> int:
    running: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: Any) -> None:
        if running is None:
            early.append(number)
        else:
            running.send_signal(number)

    # a terminal's Ctrl-C reaches the command too, which saves first; what is sent to us alone is passed on. What is
    # ignored (nohup) stays so, for the command inherits it
    handlers: dict[int, Any] = {
        signal.SIGINT: lambda *_: None,
        signal.SIGTERM: pass_on,
        signal.SIGHUP: pass_on,
    }
    heeded = {number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN}
    previous = {number: signal.signal(number, handlers[number]) for number in heeded}
    try:
        running = _start(command, environment)
        for number in early:
            running.send_signal(number)
        code = running.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=environment)
    except OSError as error:
        raise UserError(
            f"cannot run '{command[0]}': {error.strerror}",
            where="command line",
            fix="give a command, as in: ludus diambra run -s 8 ludus train my.yaml",
        ) from error


def _end(started: list[subprocess.Popen[str]]) -> None:
    for one in started:
        one.terminate()
    for one in started:
        try:
            one.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
