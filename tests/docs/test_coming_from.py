"""docs/reference/coming-from.md names files and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

from ludus.cli.app import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "coming-from.md").read_text("utf-8")


def test_every_file_named_there_exists() -> None:
    named = set(re.findall(r"`((?:src|tests|configs|benchmarks)/[\w./-]+)`", PAGE))
    assert named and [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_command_named_there_exists() -> None:
    commands = set(re.findall(r"`ludus ([a-z]+)", PAGE))
    assert commands and [name for name in sorted(commands) if main([name, "--help"]) != 0] == []
