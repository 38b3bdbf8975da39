"""`scale.json` in a run's directory: how many samplers and learners it is to have from its next update on."""

from __future__ import annotations

import json
from pathlib import Path

from ludus.plain_files import read_plain
from ludus.runs.atomic import write_atomic

FILE = "scale.json"
_LARGEST = 1 << 20
NUMBERS = ("num_actors", "num_learners")


def wanted_numbers(run: Path) -> dict[str, int]:
    """What was asked for; nothing where nobody asked, or the file cannot be read."""
    try:
        found = json.loads(read_plain(run / FILE, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: found[name] for name in NUMBERS if isinstance(found.get(name), int) and found[name] > 0}


def ask_for(run: Path, numbers: dict[str, int]) -> dict[str, int]:
    """Ask a run for these numbers, beside those asked for before; returns all of them."""
    wanted = wanted_numbers(run) | numbers
    write_atomic(run / FILE, json.dumps(wanted) + "\n")
    return wanted
