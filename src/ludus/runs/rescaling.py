"""`scale.json` in a run's directory: the requested number of samplers and learners from the next update on."""

from __future__ import annotations

import json
from pathlib import Path

from ludus.plain_files import read_plain
from ludus.runs.atomic import write_atomic

FILE = "scale.json"
_LARGEST = 1 << 20
NUMBERS = ("num_actors", "num_learners")


def wanted_numbers(run: Path) -> dict[str, int]:
    """Return the requested numbers; empty if there is no request or the file cannot be read."""
    try:
        found = json.loads(read_plain(run / FILE, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: found[name] for name in NUMBERS if isinstance(found.get(name), int) and found[name] > 0}


def ask_for(run: Path, numbers: dict[str, int]) -> dict[str, int]:
    """Request these numbers from a run, in addition to earlier requests. Returns all of them."""
    wanted = wanted_numbers(run) | numbers
    write_atomic(run / FILE, json.dumps(wanted) + "\n")
    return wanted
