"""`ludus`: the commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import contextlib
import itertools
import keyword
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

import ludus
from ludus.cli.commands import LazyCommands
from ludus.cli.failures import report
from ludus.config import own_modules
from ludus.errors import EXIT_OK
from ludus.plugins import CommandEntry, plugins
from ludus.tracking.logs import lossy_output

_ALLOW = "--allow"


_CONSENTS = {"train", "resume", "eval", "play", "video", "analyze", "match", "export", "mirror", "sync"}


def _core(name: str, panel: str, help: str, function: str | None = None) -> tuple[str, CommandEntry]:
    module = f"ludus.cli.{name}_" if keyword.iskeyword(name) else f"ludus.cli.{name}"
    group = (function or "").endswith("_app")  # it has its own epilog
    epilog = None if group else f"{module}:EXAMPLES"
    target = f"{module}:{function or name}"
    return name, CommandEntry(target, help, epilog, panel=panel, consents=name in _CONSENTS)


_GAMES, _MORE = "Games", "More"
_HELP_WIDTH = 80

CORE = dict(
    [
        _core("train", "Train", "Train an agent."),
        _core("resume", "Train", "Continue a run where it was saved last."),
        _core("presets", "Train", "List the presets."),
        _core("init", "Train", "Write a commented starter config."),
        _core("config", "Train", "Print the resolved config, and where each value comes from."),
        _core("runs", "Inspect", "List, remove and tag runs; pin checkpoints.", "runs_app"),
        _core("watch", "Inspect", "Watch a run as it trains."),
        _core("ui", "Inspect", "Open the dashboard: live curves, comparison, videos."),
        _core("eval", "Inspect", "Evaluate a policy.", "evaluate"),
        _core("play", "Inspect", "Watch a policy play, record it, or play yourself."),
        _core("video", "Inspect", "Record policies, with an overlay of values and actions."),
        _core("analyze", "Inspect", "Plot observations, actions and values of a policy."),
        _core("report", "Inspect", "Write a page about a run, or one that compares several."),
        _core("compare", "Compare", "Compare algorithms or configs over several seeds."),
        _core("sweep", "Compare", "Search for good hyperparameters."),
        _core("match", "Compare", "Play two policies against each other."),
        _core("export", "Share", "Write a policy for other programs."),
        _core("mirror", "Share", "Copy a run to a mirror."),
        _core("pull", "Share", "Download a mirrored run or a model."),
        _core("envs", _GAMES, "List the environments."),
        _core("validate", _GAMES, "Check an environment and list its problems."),
        _core("bench", _MORE, "Measure speed and learning, compared with other libraries.", "bench_app"),
        _core("cluster", _MORE, "Ray on several machines: start a node, list the nodes.", "cluster_app"),
        _core("convert", _MORE, "Print a foreign config as Ludus YAML."),
        _core("doctor", _MORE, "List what is installed and what is missing."),
        _core("import", _MORE, "Turn a model of another library into a run.", "import_model"),
        _core("league", _MORE, "Print the league of a run."),
        _core("scale", _MORE, "Change the number of samplers and learners of a run."),
        _core("sync", _MORE, "Upload a run to a tracking service.", "sync_app"),
    ]
)


def _entries() -> Mapping[str, CommandEntry]:
    """Return the core commands, then one command or group per plugin; other spellings of plugins' are hidden."""
    found = dict(CORE)
    for plugin in plugins():
        if plugin.commands and plugin.name not in plugin.commands:
            group = CommandEntry("", plugin.summary, members=plugin.commands, panel=_GAMES)
            found.setdefault(plugin.name, group)
        for name, entry in plugin.commands.items():
            hidden = plugin.name not in plugin.commands
            found.setdefault(name, replace(entry, panel=_GAMES, hidden=hidden))
    return found


class _LudusCommands(LazyCommands):
    entries = staticmethod(_entries)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write panels with their names on the left: it all fits one screen."""
        panels = self.panels()
        more = ", ".join(name for name, _ in panels.pop(_MORE))
        options = [row for option in self.get_params(ctx) if (row := option.get_help_record(ctx))]
        widest = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in (panels | {"Options": options}).items():
            formatter.write("\n")
            left = max(widest, *(len(name) for name, _ in rows))
            for number, (name, help) in enumerate(rows):
                start = f"{'' if number else panel:9}{name:{left}}  "
                formatter.write(_wrapped(start, help, " " * len(start)))
            if panel == _GAMES:
                formatter.write("\n" + _wrapped(f"{_MORE:9}", more, " " * 9))


def _wrapped(start: str, text: str, indent: str) -> str:
    return textwrap.fill(text, _HELP_WIDTH, initial_indent=start, subsequent_indent=indent) + "\n"


app = typer.Typer(
    cls=_LudusCommands,
    help="Train agents that play. Example: ludus train quickstart",
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
    allow: Annotated[
        list[str] | None,
        typer.Option(
            _ALLOW,
            metavar="NAME",
            help="Consent to a module, program, file or address that a run from elsewhere names.",
        ),
    ] = None,
) -> None:
    own_modules.consent_to(*allow or ())
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ludus ARGUMENTS…` (default: those of this process) and return the exit code. Raises nothing."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_descriptors()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a stream that a test put there
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        own_modules.ignore_settings_here()
        with own_modules.command():
            code = app(args=_consents_first(arguments), prog_name="ludus", standalone_mode=False)
        if sys.stdout is not None:  # it is where the process was started without one
            sys.stdout.flush()
        return code if isinstance(code, int) else EXIT_OK
    except SystemExit as error:  # typer's answer to a closed pipe
        return error.code if isinstance(error.code, int) else EXIT_OK
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_OK
    except BaseException as error:  # the end of the line: everything becomes a message and a code
        with lossy_output():
            return report(error, arguments)


def _open_missing_descriptors() -> None:
    """Open standard descriptors that the process was started without: the next file would get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number


def _consents_first(arguments: list[str]) -> list[str]:
    """Move `--allow NAME` before the command: users may type it anywhere."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    consents: list[str] = []
    others: list[str] = []
    words = iter(arguments[:end])
    for word in words:
        if word == _ALLOW:
            consents += [word, *itertools.islice(words, 1)]
        else:
            (consents if word.startswith(f"{_ALLOW}=") else others).append(word)
    return [*consents, *others, *arguments[end:]]


def _silence_stdout() -> None:
    """Discard further output: the reader of the pipe (`| head`) has closed it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
