"""The group that commands are in, and the options that several commands share.

The module of a command is imported when it is run, not to list it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ludus.errors import UnknownName
from ludus.plugins import CommandEntry, load

Json = Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Every metric row, and what goes on inside.")]
Root = Annotated[str, typer.Option("--root", "-C", metavar="DIR", help="Where the runs are.")]
EnvId = Annotated[
    str | None, typer.Option("--env", metavar="ID", help="A Gymnasium id, or module:Id to import it first.")
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="The first episode's seed; the next ones follow.")
]
Stochastic = Annotated[
    bool, typer.Option("--stochastic", help="Sample actions as in training, instead of the likeliest.")
]
Episodes = Annotated[int, typer.Option("--episodes", "-n", metavar="N", min=1, help="How many to play.")]
Bandwidth = Annotated[
    str | None, typer.Option("--bandwidth", metavar="RATE", help='At most so fast, as in "5 MB/s".')
]


class Commands(TyperGroup):
    """Names the nearest command when one is unknown, and prints the help of a group that is given none."""

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
            self.commands[cmd_name] = _command(cmd_name, self._entries[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list from the entries alone."""
        own = [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
        rows = [
            *own,
            *((name, entry.help) for name, entry in self._entries.items() if name not in self.commands),
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _command(name: str, entry: CommandEntry) -> Any:
    """Import the command and return it as click runs it."""
    target = load(entry.target)
    if isinstance(target, typer.Typer):
        command = typer.main.get_command(target)
        command.name = name
        return command
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, epilog=None if entry.epilog is None else load(entry.epilog))(target)
    return typer.main.get_command(app)
