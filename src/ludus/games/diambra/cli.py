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

from ludus.cli.commands import Commands, Json, Root, examples
from ludus.cli.output import Output
from ludus.errors import MissingExtra, UserError
from ludus.posix import SIGHUP

diambra_app = typer.Typer(
    cls=Commands,
    help="DIAMBRA: stand-in engines without ROMs, fights between two policies.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples("ludus diambra run -s 2 ludus train diambra-standin"),
    rich_markup_mode=None,
)
_START_SECONDS = 60.0
_END_SECONDS = 5.0

Game = Annotated[
    str | None, typer.Option("--game", metavar="ID", help="The only game it plays; default: any game.")
]
StepMs = Annotated[
    float, typer.Option("--step-ms", metavar="MS", min=0.0, help="Minimum duration of a step.")
]


@diambra_app.callback()
def _diambra() -> None:
    """DIAMBRA: stand-in engines without ROMs, fights between two policies."""


@diambra_app.command("engine", epilog=examples("ludus diambra engine --game sfiii3n"))
def engine(
    game: Game = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: a free port.")
    ] = 50051,
    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Address to listen on.")] = "127.0.0.1",
    step_ms: StepMs = 0.0,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Exit when standard input is closed.")
    ] = False,
) -> None:
    """Serve one stand-in engine until Ctrl-C.

    It implements DIAMBRA's protocol with a small fighting game instead of the real one: for tests, development and
    trying Ludus without ROMs. Every frame shows the text STAND-IN.
    """
    _require_client()
    from ludus.games.diambra.games import find_game
    from ludus.games.diambra.polling import poll_in_calling_thread

    poll_in_calling_thread()
    from ludus.games.diambra.standin.server import EngineStandIn, Serving

    if game is not None:
        find_game(game)
    standin = EngineStandIn(game, step_ms)
    try:
        serving = Serving(standin, host, port)
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port}",
            where=f"command line: --host {host} --port {port}",
            fix="use another --port (this one may be in use), or 0 for a free port",
        ) from error
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: standin.shutdown.set())
    if until_eof:
        threading.Thread(target=_set_at_eof, args=(standin.shutdown,), daemon=True).start()
    print(f"stand-in engine at {serving.address}, plays {game or 'any game'} (Ctrl-C stops it)", flush=True)
    standin.shutdown.wait()
    serving.close(grace=0.5)


@diambra_app.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples("ludus diambra run -s 2 ludus train diambra-standin"),
)
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND…", help="Command to run with the engines.")
    ],
    scale: Annotated[int, typer.Option("--scale", "-s", metavar="N", min=1, help="Number of engines.")] = 1,
    game: Game = None,
    step_ms: StepMs = 0.0,
) -> None:
    """Run a command with stand-in engines.

    Like `diambra run` with real engines: DIAMBRA_ENVS has their addresses, and they stop with the command.
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
                    [sys.executable, "-P", "-m", "ludus", "diambra", "engine", *arguments],
                    stdin=subprocess.PIPE,  # closed when this process ends for any reason; the engine then exits
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,  # Ctrl-C goes to the command only: it still needs the engines while it stops
                )
            )
        environment = os.environ | {"DIAMBRA_ENVS": " ".join(map(_address, started))}
        bin_folder = str(Path(sys.executable).parent)  # so that `ludus` is this installation
        environment["PATH"] = os.pathsep.join([bin_folder, environment.get("PATH", "")])
        code = _run_to_end(command, environment)
    finally:
        _end(started)
    if code:
        raise typer.Exit(code)


@diambra_app.command("duel", epilog=examples("ludus diambra duel latest brawler --fights 20"))
def duel(
    left: Annotated[str, typer.Argument(metavar="POLICY", help="RUN, RUN@best, …; or a bot.")],
    right: Annotated[
        str, typer.Argument(metavar="OPPONENT", help="Another run or bot (random, still, brawler).")
    ],
    fights: Annotated[int, typer.Option("--fights", "-n", metavar="N", min=1, help="Number of fights.")] = 10,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0)] = 0,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Let two policies fight each other.

    At least one is a run, and its settings are used. Every start is played from both seats.
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


def _set_at_eof(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _address(started: subprocess.Popen[str]) -> str:
    """Return the address of a started engine. UserError if it did not start."""
    assert started.stdout is not None
    line = started.stdout.readline()
    if not line.startswith("stand-in engine at "):
        raise UserError(
            "a stand-in engine did not start", where="ludus diambra run", fix="see its output above"
        )
    return line.removeprefix("stand-in engine at ").partition(",")[0]


def _run_to_end(command: list[str], environment: dict[str, str]) -> int:
    running: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: Any) -> None:
        if running is None:
            early.append(number)
        else:
            running.send_signal(number)

    # Ctrl-C in a terminal reaches the command too, which saves first. Signals to this process alone are forwarded.
    # Ignored signals (nohup) stay ignored, because the command inherits that
    handlers: dict[int, Any] = {
        signal.SIGINT: lambda *_: None,
        signal.SIGTERM: forward,
        SIGHUP: forward,
    }
    handled = {number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN}
    previous = {number: signal.signal(number, handlers[number]) for number in handled}
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
