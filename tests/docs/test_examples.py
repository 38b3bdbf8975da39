"""The code that tutorials and how-to guides show runs as it is there; what cannot be run says why."""

from __future__ import annotations

import ast
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from ludus.cli.app import app

sys.path.insert(0, str(Path(__file__).parent))
from pages import ROOT, Block, blocks, check_other, program, save_files

PAGES = sorted(path for part in ("tutorials", "how-to") for path in (ROOT / "docs" / part).glob("*.md"))
WITH_CODE = [page for page in PAGES if any(b.runs and b.language in {"python", "yaml"} for b in blocks(page))]
WITH_COMMANDS = [
    page
    for page in PAGES
    if any(
        runs and words[0] == "ludus"
        for b in blocks(page)
        if b.language == "bash"
        for words, runs in b.commands()
    )
]
SLOW = {"experiments"}  # trains six times
_ROOT_COMMAND: Any = typer.main.get_command(app)


def _name(page: Path) -> str:
    return page.stem


def _parse(words: list[str]) -> None:
    command: Any = _ROOT_COMMAND
    context = command.make_context("ludus", list(words))
    rest = [*context._protected_args, *context.args]
    while rest and hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, list(rest), parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]


def _run(page: Path, *arguments: str, folder: Path, seconds: int) -> None:
    save_files(page, folder)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "DISPLAY": "",
        "WAYLAND_DISPLAY": "",
        "COLUMNS": "100",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_of_the_page_parse_and_what_is_not_run_has_a_reason(page: Path) -> None:
    for block in blocks(page):
        assert not block.skipped or block.reason, f"{page}:{block.line}: no reason"
        if block.language == "bash":
            _check(block)
        if block.language == "python":
            _check_imports(block)


def _check(block: Block) -> None:
    for words, runs in block.commands():
        if words[0] == "ludus":
            if block.runs or "gridwalk" not in words[1]:  # the command of the plugin that is written there
                _parse(words[1:])
        elif runs:
            wrong = check_other(words)
            assert not wrong, f"line {block.line}: {shlex.join(words)}: {wrong}"


def _check_imports(block: Block) -> None:
    """Also of what is not run: the names that it imports from Ludus exist."""
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ludus":
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name), f"line {block.line}: {node.module} has no {name.name}"


@pytest.mark.parametrize("page", [page for page in WITH_CODE if page.stem not in SLOW], ids=_name)
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(program(page), "utf-8")
    _run(page, "page.py", folder=tmp_path, seconds=600)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in WITH_CODE if page.stem in SLOW], ids=_name)
def test_the_code_of_a_page_that_trains_a_lot_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(program(page), "utf-8")
    _run(page, "page.py", folder=tmp_path, seconds=600)


@pytest.mark.long
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=_name)
def test_the_commands_of_the_page_run(page: Path, tmp_path: Path) -> None:
    _run(page, str(Path(__file__).with_name("pages.py")), str(page), folder=tmp_path, seconds=900)
