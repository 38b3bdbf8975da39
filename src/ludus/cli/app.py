"""`ludus`: the commands under one roof, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import ludus
from ludus.cli.analyze import ANALYZE_EXAMPLES, analyze
from ludus.cli.bench import bench_app
from ludus.cli.cluster import cluster_app
from ludus.cli.commands import Commands
from ludus.cli.compare import COMPARE_EXAMPLES, compare
from ludus.cli.config import config
from ludus.cli.convert import EXAMPLES as FOREIGN_FORMATS
from ludus.cli.convert import convert
from ludus.cli.doctor import doctor
from ludus.cli.envs import envs
from ludus.cli.eval import evaluate
from ludus.cli.export import export
from ludus.cli.failures import report
from ludus.cli.import_ import import_model
from ludus.cli.init import init
from ludus.cli.league import league
from ludus.cli.match import MATCH_EXAMPLES, match
from ludus.cli.mirror import MIRROR_EXAMPLES, mirror
from ludus.cli.play import play
from ludus.cli.presets import presets
from ludus.cli.pull import PULL_EXAMPLES, pull
from ludus.cli.report import REPORT_EXAMPLES
from ludus.cli.report import report as write_report
from ludus.cli.resume import resume
from ludus.cli.runs import runs_app
from ludus.cli.scale import SCALE_EXAMPLES, scale
from ludus.cli.sweep import SWEEP_EXAMPLES, sweep
from ludus.cli.sync import sync_app
from ludus.cli.train import EXAMPLES, train
from ludus.cli.ui import UI_EXAMPLES, ui
from ludus.cli.validate import validate
from ludus.cli.video import VIDEO_EXAMPLES, video
from ludus.cli.watch import watch
from ludus.errors import EXIT_OK
from ludus.games.balatro.cli import balatro_app
from ludus.games.diambra.cli import diambra_app
from ludus.games.unity.cli import unity_app
from ludus.language.cli.exploitability import EXPLOITABILITY_EXAMPLES, exploitability
from ludus.language.cli.games import games
from ludus.language.cli.models import models_app
from ludus.language.cli.warmup import warmup

app = typer.Typer(
    cls=Commands,
    help="Train agents that play: one YAML file, one command, one loop.",
    epilog="Start with: ludus train quickstart",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
)
app.command("train", epilog=EXAMPLES)(train)
app.command("resume")(resume)
app.command("eval")(evaluate)
app.command("play")(play)
app.command("video", epilog=VIDEO_EXAMPLES)(video)
app.command("analyze", epilog=ANALYZE_EXAMPLES)(analyze)
app.command("match", epilog=MATCH_EXAMPLES)(match)
app.command("league")(league)
app.command("exploitability", epilog=EXPLOITABILITY_EXAMPLES)(exploitability)
app.command("games")(games)
app.command("warmup")(warmup)
app.command("export")(export)
app.command("import")(import_model)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare)
app.command("sweep", epilog=SWEEP_EXAMPLES)(sweep)
app.command("scale", epilog=SCALE_EXAMPLES)(scale)
app.add_typer(cluster_app, name="cluster")
app.command("watch")(watch)
app.command("report", epilog=REPORT_EXAMPLES)(write_report)
app.add_typer(runs_app, name="runs")
app.command("ui", epilog=UI_EXAMPLES)(ui)
app.add_typer(bench_app, name="bench")
app.add_typer(balatro_app, name="balatro")
app.add_typer(diambra_app, name="diambra")
app.add_typer(unity_app, name="unity")
app.add_typer(models_app, name="models")
app.command("presets")(presets)
app.command("envs")(envs)
app.command("validate")(validate)
app.command("config")(config)
app.command("convert", epilog=FOREIGN_FORMATS)(convert)
app.command("mirror", epilog=MIRROR_EXAMPLES)(mirror)
app.command("pull", epilog=PULL_EXAMPLES)(pull)
app.add_typer(sync_app, name="sync")
app.command("init")(init)
app.command("doctor")(doctor)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"ludus {ludus.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ludus ARGUMENTS…` (default: those of this process) and return the exit code. Raises nothing."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a stream that a test put there
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if os.getcwd() not in sys.path:
        sys.path.append(
            os.getcwd()
        )  # `module:Env` may stand beside the config; last, so that it hides nothing
    try:
        code = app(args=arguments, prog_name="ludus", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else EXIT_OK
    except SystemExit as error:  # typer's answer to a closed pipe
        return error.code if isinstance(error.code, int) else EXIT_OK
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_OK
    except BaseException as error:  # the end of the line: everything becomes a message and a code
        return report(error, arguments)


def _silence_stdout() -> None:
    """The reader (`| head`) has gone: let the interpreter's last flush go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
