"""What the latest games of a run came to: `games.json`, as Balatro runs write it, as tables of a report."""

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
    """How far the games came, by ante, poker hand and joker. Empty where the run tells nothing of it."""
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
        [escape(name), f"{_number(told.get('share')):.1%}"]
        for name, told in _table(games, "hands").items()
        if isinstance(told, Mapping)
    ]
    jokers = [
        [escape(name), f"{_number(told.get('episodes')):,.0f}", f"{_number(told.get('mean_ante')):.2f}"]
        for name, told in _table(games, "jokers").items()
        if isinstance(told, Mapping)
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
    ):  # none, or half of one: the curves tell the story without it
        return {}
    return found if isinstance(found, dict) and found.get("kind", "balatro") == "balatro" else {}


def _table(games: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = games.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
