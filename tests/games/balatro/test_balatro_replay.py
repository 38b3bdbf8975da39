"""Replay of recorded games: with the recorded draws and shops, the engine shows the same states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import state as st
from ludus.games.balatro.replay import replay_file, replay_scenario, scenario_table

DATA = Path(__file__).parents[2] / "data" / "balatro"


def test_all_scenarios_agree_except_one_known_difference() -> None:
    agreement = replay_file(DATA / "scenarios.jsonl")
    assert agreement.cases == 196
    # The Ox names one hand when the round begins; docs/how-to/balatro.md argues it.
    assert [entry["name"] for entry in agreement.disagree] == ["boss-The Ox-1"]


@pytest.mark.parametrize("trace", sorted((DATA / "traces").glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_game_matches_after_every_action(trace: Path) -> None:
    agreement = replay_file(trace)
    assert agreement.cases > 5
    assert agreement.disagree == []


def test_changed_recording_is_reported_with_its_line(tmp_path: Path) -> None:
    lines = (DATA / "traces" / "reroll.jsonl").read_text().splitlines()
    row = json.loads(lines[2])
    row["after"]["chips"] = 701
    path = tmp_path / "wrong.jsonl"
    path.write_text("\n".join([*lines[:2], json.dumps(row), *lines[3:]]))
    entry = replay_file(path).disagree[0]
    assert (entry["line"], entry["field"], entry["recorded"], entry["own"]) == (3, "chips", 701, 700.0)


def test_invalid_recording_raises_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"action": "dance"}\n')
    with pytest.raises(UserError, match="before 'start_run'"):
        replay_file(path)
    path.write_text("{")
    with pytest.raises(UserError, match="invalid JSON"):
        replay_file(path)


START = {
    "ante": 8,
    "blind": "bl_small",
    "target": 1e9,
    "hands_left": 9,
    "discards_left": 5,
    "dollars": 10,
    "hand": ["S_K", "H_K", "D_Q", "S_J", "D_8", "D_7", "C_5", "D_4"],
}


def recorded(jokers: list[str]) -> dict[str, Any]:
    """Return a scenario played by the engine's own generator, in the format of a recording."""
    start = {**START, "jokers": [{"name": name} for name in jokers]}
    table = scenario_table(start)
    steps = []
    for action, cards in (("play", [0, 1]), ("discard", [0, 2]), ("play", [0, 1, 2]), ("play", [3])):
        table.do((act.play_action if action == "play" else act.discard_action)(cards))
        after = {
            "hand": table.hand(),
            "chips": float(table.f[st.CHIPS]),
            "dollars": int(table.s[st.MONEY]),
            "hand_levels": table.levels(),
        }
        steps.append({"action": action, "cards": cards, "after": after})
    return {"name": "own", "start": start, "steps": steps}


@pytest.mark.parametrize(
    "jokers",
    [
        ["Misprint", "Space Joker"],
        ["Business Card", "Reserved Parking", "Bloodstone"],
        ["Mail-In Rebate", "To Do List"],
        ["The Idol", "Castle"],
        ["Ancient Joker", "8 Ball"],
    ],
)
def test_missing_random_outcomes_are_inferred(jokers: list[str]) -> None:
    scenario = recorded(jokers)
    assert replay_scenario(scenario) is None
    last = scenario["steps"][-1]["after"]
    last["chips"] += 1  # which no outcome explains
    difference = replay_scenario(scenario)
    assert difference is not None
    assert (difference["step"], difference["field"]) == (3, "chips")
