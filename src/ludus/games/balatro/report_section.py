"""Report section on the latest games of a Balatro run, from its `games.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from ludus.plain_files import read_plain
from ludus.reports.page import rows_to_table, section
from ludus.runs.directory import RunDirectory

_MOST_JOKERS = 20
_LARGEST = 16 << 20


def game_section(run: RunDirectory) -> str:
    """Return tables of the games by ante, poker hand and joker. Empty if the run has no such data."""
    games = _read(run)
    episodes = _number(games.get("episodes"))
    if not episodes:
        return ""
    mean, won = _number(games.get("mean_ante")), _number(games.get("win_rate"))
    note = f"The last {episodes:,.0f} games of training: ante {mean:.2f} on average, {won:.1%} won."
    cleared = [
        [escape(ante), f"{_number(share):.1%}"]
        for ante, share in _table(games, "success_rate_by_ante").items()
    ]
    hands = [
        [escape(name), f"{_number(row.get('share')):.1%}"]
        for name, row in _table(games, "hands").items()
        if isinstance(row, Mapping)
    ]
    jokers = [
        [escape(name), f"{_number(row.get('episodes')):,.0f}", f"{_number(row.get('mean_ante')):.2f}"]
        for name, row in _table(games, "jokers").items()
        if isinstance(row, Mapping)
    ]
    tables = [
        rows_to_table(["ante", "cleared"], cleared),
        rows_to_table(["poker hand", "of all played"], hands, ("poker hand",)),
        rows_to_table(
            ["joker held at the end", "games", "mean ante"], jokers[:_MOST_JOKERS], ("joker held at the end",)
        ),
    ]
    return section("Games of Balatro", note, f'<div class="grid">{"".join(tables)}</div>')


def _read(run: RunDirectory) -> dict[str, Any]:
    try:
        found = json.loads(read_plain(run.games_path, _LARGEST))
    except (
        OSError,
        ValueError,
        RecursionError,
    ):  # missing or incomplete: the report has the curves without it
        return {}
    others = found.get("others") if isinstance(found, dict) else None
    for summary in (found, *(others if isinstance(others, list) else ())):
        if isinstance(summary, dict) and summary.get("kind", "balatro") == "balatro":
            return summary
    return {}


def _table(games: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = games.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
