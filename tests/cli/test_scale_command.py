"""`ludus scale`: asks a run for other numbers, and says why where it cannot have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command

from ludus.config.loading import dump_yaml
from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory
from ludus.runs.rescaling import FILE, wanted_numbers


def run_of(folder: Path, **fields: object) -> RunDirectory:
    run = RunDirectory.create_at(folder / "run", "TicTacToe-v0", "PPO", "run")
    config = TrainerConfig(**{"language": {}, "games": {"train": ["TicTacToe-v0"]}, "scale": {}} | fields)  # type: ignore[arg-type]
    run.config_path.write_text(dump_yaml(config))
    return run


def test_new_settings_are_kept_next_to_the_earlier_ones(ludus: Command, tmp_path: Path) -> None:
    run = run_of(tmp_path)
    first = ludus("scale", str(run.path), "--actors", "3")
    assert first.code == 0 and "num_actors: 3" in first.out
    asked = ludus("scale", str(run.path), "--learners", "2", "--json")
    assert asked.json == {"run": str(run.path), "num_actors": 3, "num_learners": 2}
    assert wanted_numbers(run.path) == {"num_actors": 3, "num_learners": 2}


@pytest.mark.parametrize(
    ("fields", "words", "expected"),
    [
        ({"scale": None}, ("--actors", "3"), "scale: section"),
        ({}, (), "nothing to change"),
        ({"scale": {"num_actors": 0}}, ("--actors", "3"), "no samplers"),
    ],
    ids=["a run without Ray", "no number", "a run that samples itself"],
)
def test_impossible_requests_are_errors_of_three_lines(
    ludus: Command, tmp_path: Path, fields: dict[str, object], words: tuple[str, ...], expected: str
) -> None:
    run = run_of(tmp_path, **fields)
    refused = ludus("scale", str(run.path), *words)
    assert refused.code == 2 and expected in refused.err
    assert len(refused.error_lines) == 3
    assert not (run.path / FILE).exists()


def test_a_damaged_file_asks_for_nothing(tmp_path: Path) -> None:
    for text in ("", "[3]", '{"num_actors": "many", "num_learners": -1}'):
        (tmp_path / FILE).write_text(text)
        assert wanted_numbers(tmp_path) == {}
