"""The group that commands stand in: in the order of their registration, the nearest named when one is unknown."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from ludus.errors import UnknownName


class Commands(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """As typer's; the help of a group that shows it when no command is given, which typer calls an error."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer's; UnknownName for a command that is not there."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownName(
                "command",
                args[0],
                self.list_commands(ctx),
                where=f"command line: {ctx.command_path} {args[0]}",
                fix=f"see `{ctx.command_path} --help`",
            )
        return super().resolve_command(ctx, args)
