"""`ludus`: the commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

import ludus
from ludus.cli.commands import LazyCommands
from ludus.cli.failures import report
from ludus.errors import EXIT_OK
from ludus.plugins import CommandEntry, commands


def _core(name: str, help: str, target: str | None = None, examples: str | None = None) -> CommandEntry:
    module, _, function = (target or name).partition(":")
    epilog = None if examples is None else f"ludus.cli.{module}:{examples}"
    return CommandEntry(f"ludus.cli.{module}:{function or name}", help, epilog)


CORE: dict[str, CommandEntry] = {
    "train": _core("train", "Train an agent.", examples="EXAMPLES"),
    "resume": _core("resume", "Continue a run where it was saved last."),
    "eval": _core("eval", "Evaluate a policy.", "eval:evaluate"),
    "play": _core("play", "Watch a policy play, record it as a video, or play yourself."),
    "video": _core(
        "video",
        "Record policies, with an overlay of observations, values and actions.",
        examples="VIDEO_EXAMPLES",
    ),
    "analyze": _core(
        "analyze",
        "Plot an env's signals, the actions and the values of a policy.",
        examples="ANALYZE_EXAMPLES",
    ),
    "match": _core("match", "Play two policies against each other.", examples="MATCH_EXAMPLES"),
    "league": _core("league", "Print the league of a run."),
    "export": _core("export", "Write a policy for other programs."),
    "import": _core("import", "Turn a model of another library into a run.", "import_:import_model"),
    "compare": _core(
        "compare", "Compare algorithms or configs over several seeds.", examples="COMPARE_EXAMPLES"
    ),
    "sweep": _core("sweep", "Search for good hyperparameters.", examples="SWEEP_EXAMPLES"),
    "scale": _core(
        "scale", "Change the number of samplers and learners of a run.", examples="SCALE_EXAMPLES"
    ),
    "cluster": _core(
        "cluster", "Ray on several machines: start a node, list the nodes.", "cluster:cluster_app"
    ),
    "watch": _core("watch", "Watch a run as it trains."),
    "report": _core(
        "report", "Write a page about a run, or one that compares several.", examples="REPORT_EXAMPLES"
    ),
    "runs": _core("runs", "List, remove and tag runs; pin checkpoints.", "runs:runs_app"),
    "ui": _core("ui", "Open the dashboard: live curves, comparison, videos.", examples="UI_EXAMPLES"),
    "bench": _core("bench", "Measure speed and learning, compared with other libraries.", "bench:bench_app"),
    "presets": _core("presets", "List the presets."),
    "envs": _core("envs", "List the environments."),
    "validate": _core("validate", "Check an environment and list its problems."),
    "config": _core("config", "Print the resolved config, and where each value comes from."),
    "convert": _core("convert", "Print a foreign config as Ludus YAML.", examples="EXAMPLES"),
    "mirror": _core("mirror", "Copy a run to a mirror.", examples="MIRROR_EXAMPLES"),
    "pull": _core("pull", "Download a mirrored run or a model.", examples="PULL_EXAMPLES"),
    "sync": _core("sync", "Upload a run to a tracking service.", "sync:sync_app"),
    "init": _core("init", "Write a commented starter config."),
    "doctor": _core("doctor", "List what is installed and what is missing."),
}


def _entries() -> Mapping[str, CommandEntry]:
    return CORE | {name: entry for name, entry in commands().items() if name not in CORE}


class _LudusCommands(LazyCommands):
    entries = staticmethod(_entries)


app = typer.Typer(
    cls=_LudusCommands,
    help="Train agents that play: one YAML file, one command, one loop.",
    epilog="Start with: ludus train quickstart",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
)


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
