"""Every command of the tree: the help fits the screen, and each has examples that parse."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from command_line import Command

from ludus import plugins as plugins_module
from ludus.cli.app import CORE, app
from ludus.plugins import CommandEntry, Plugin, plugins

ROOT: Any = typer.main.get_command(app)
_EXAMPLE = re.compile(r"(?:^|\s)(ludus .*?)(?:\s{2,}.*)?$", re.MULTILINE)


def _tree(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        return
    context = command.context_class(command, info_name=path[-1] if path else "ludus")
    for name in command.list_commands(context):
        member = command.get_command(context, name)
        yield (*path, name), member
        yield from _tree(member, (*path, name))


TREE = dict(_tree(ROOT, ()))


def _parses(words: list[str]) -> tuple[str, ...]:
    """Parse `ludus WORDS…` without running it, and return the command's path. Raises what click raises."""
    command, context, path = ROOT, ROOT.make_context("ludus", list(words)), ()
    rest = [*context._protected_args, *context.args]
    while rest and hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
        path = (*path, name)
        context = command.make_context(name, list(rest), parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]
    return path


def test_the_help_fits_one_screen_of_80_by_40(ludus: Command) -> None:
    lines = ludus("--help").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    panels = [line.split()[0] for line in lines if re.match(r"[A-Z]\w+ +\w", line)]
    assert panels == ["Train", "Inspect", "Compare", "Share", "Games", "More"]


def test_commands_of_plugins_are_listed_by_the_plugins_name_and_keep_their_spelling(ludus: Command) -> None:
    shown = ludus("--help").out
    for plugin in plugins():
        for name in plugin.commands:
            assert (name,) in TREE
            assert name == plugin.name or (plugin.name, name) in TREE
            assert (f" {name} " in shown) == (name == plugin.name)


def test_a_plugin_of_a_third_party_gets_a_group_of_its_name(
    ludus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = CommandEntry("json:dumps", "Say hello.")
    added = Plugin("guests", commands={"hello": hello, "train": hello}, summary="Guests say hello.")
    monkeypatch.setattr("ludus.cli.app.plugins", lambda: (*plugins_module.plugins(), added))
    entries = type(ROOT).entries()
    assert entries["guests"].members == {"hello": hello, "train": hello}
    assert entries["hello"].hidden and entries["train"] is CORE["train"]


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_the_help_of_a_command_has_examples_that_parse(path: tuple[str, ...], ludus: Command) -> None:
    outcome = ludus(*path, "--help")
    assert outcome.code == 0, outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    shown = outcome.out.partition("Example")[2]
    found = _EXAMPLE.findall(shown)
    assert found, f"`ludus {' '.join(path)} --help` shows no example"
    own = False
    for line in found:
        words = shlex.split(line.strip())[1:]
        parsed = _parses([word for word in words if word != "--help"]) if "--help" not in words else words
        own = own or tuple(parsed[: len(path)]) == path or parsed[-1] == path[-1]
    assert own, f"no example of `ludus {' '.join(path)}` runs it"
