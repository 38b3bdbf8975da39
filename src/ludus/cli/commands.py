"""The group that commands are in, and the options that several commands share.

The module of a command is imported when it is run, not to list it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ludus.config.own_modules import consent_to
from ludus.errors import ConfigError, UnknownName
from ludus.plugins import CommandEntry, load

Json = Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every metric row and debug messages.")]
Root = Annotated[str, typer.Option("--root", "-C", metavar="DIR", help="Folder of the runs.")]


def typed_env(env: str | None) -> str | None:
    """Take an env id from the command line: to type its module is to consent to it."""
    consent_to(*(env or "").split(":")[:-1])
    return env


EnvId = Annotated[
    str | None,
    typer.Option(
        "--env", metavar="ID", help="A Gymnasium id, or module:Id to import it first.", callback=typed_env
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="The first episode's seed; the next ones follow.")
]
SeedOrText = Annotated[
    str,
    typer.Option(
        "--seed",
        metavar="N|TEXT",
        help="The first episode's seed; the next ones follow. A text, for games with such seeds, is one seed.",
    ),
]
Stochastic = Annotated[
    bool, typer.Option("--stochastic", help="Sample actions as in training, instead of the likeliest.")
]
Episodes = Annotated[
    int, typer.Option("--episodes", "-n", metavar="N", min=1, help="Number of episodes to play.")
]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        "--max-steps",
        metavar="N",
        min=1,
        help="Cut an episode after N steps; default: the run's evaluation.max_steps, else 27,000 on an env "
        "without a time limit.",
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option("--bandwidth", metavar="RATE", help='Limit of the transfer rate, as in "5 MB/s".'),
]


_OPTIONS = {
    "algorithm": "--algo",
    "env.id": "--env",
    "n_envs": "--n-envs",
    "total_timesteps": "--steps",
    "seed": "--seed",
    "device": "--device",
    "name": "--name",
    "engine": "--engine",
    "scale.ray": "--scale",
}


@contextmanager
def naming_options() -> Iterator[None]:
    """Name the option in a ConfigError about the key that it set: the user typed the option."""
    try:
        yield
    except ConfigError as error:
        option = _OPTIONS.get(error.key)
        if option is None or error.where != "command line":
            raise
        raise ConfigError(
            error.what.replace(error.key, option, 1),
            where=f"command line: {option}",
            fix=error.fix.replace(error.key, option, 1),
        ) from error


class Commands(TyperGroup):
    """Group that suggests the nearest command for an unknown one, and prints its help without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print(ctx.get_help())  # which typer would call an error
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Raise UnknownName for a command that does not exist."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownName(
                "command",
                args[0],
                self.list_commands(ctx),
                where=f"command line: {ctx.command_path} {args[0]}",
                fix=f"see `{ctx.command_path} --help`",
            )
        return super().resolve_command(ctx, args)


class LazyCommands(Commands):
    """Commands by `CommandEntry`, besides those that the group has itself."""

    entries: Callable[[], Mapping[str, CommandEntry]]

    @cached_property
    def _entries(self) -> Mapping[str, CommandEntry]:
        return type(self).entries()

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self._entries]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in self._entries:
            entry = self._entries[cmd_name]
            self.commands[cmd_name] = command = _command(cmd_name, entry)
            if entry.consents:
                options = ctx.find_root().command.params  # `--allow` is an option of `ludus` itself
                for allow in (option for option in options if option.name == "allow"):
                    _show_consent(command, allow)
        return super().get_command(ctx, cmd_name)

    def panels(self) -> dict[str, list[tuple[str, str]]]:
        """Return the rows of the help by panel. It reads the entries alone, and imports no command."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if name not in self._entries:
                panels.setdefault("Commands", []).append((name, command.get_short_help_str(100)))
        for name, entry in self._entries.items():
            if not entry.hidden:
                panels.setdefault(entry.panel, []).append((name, entry.help))
        return panels

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, rows in self.panels().items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def examples(*lines: str) -> str:
    """Return the epilog of a command: its examples, one a line."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def _group(name: str, entry: CommandEntry) -> typer.Typer:
    class Members(LazyCommands):
        entries = staticmethod(lambda: entry.members)

    app = typer.Typer(
        cls=Members,
        help=entry.help,
        epilog=examples(*(f"ludus {name} {member} --help" for member in entry.members)),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    app.callback()(lambda: None)
    return app


def _show_consent(command: Any, option: Any) -> None:
    """List the option of the whole program in the help of `command`, or of each command in the group."""
    if isinstance(command, TyperGroup):
        for inner in command.commands.values():
            _show_consent(inner, option)
        return
    shown = copy.copy(option)
    shown.expose_value = False  # the program itself has taken it by then
    command.params.append(shown)


def _command(name: str, entry: CommandEntry) -> Any:
    """Import the command and return it as click runs it."""
    target = _group(name, entry) if entry.members else load(entry.target)
    if isinstance(target, typer.Typer):
        command = typer.main.get_command(target)
        command.name = name
        return command
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, epilog=None if entry.epilog is None else load(entry.epilog))(target)
    return typer.main.get_command(app)
