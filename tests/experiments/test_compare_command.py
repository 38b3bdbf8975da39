"""`ludus compare`: its output files, failures of runs, and error messages."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from comparisons import TINY, start, write_configs

from ludus.cli.app import main

Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Run `compare(*words)` in `tmp_path`; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["compare", *(str(word) for word in words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


LOCKED = """
import gymnasium

class Door(gymnasium.Wrapper):
    def step(self, action):
        raise KeyError("the door is locked")
"""
SETTINGS = [*TINY, "total_timesteps=1000"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A comparison of two experiments and one that fails: its folder, exit code and output."""
    folder = tmp_path_factory.mktemp("with spaces in it")
    write_configs(folder)
    (folder / "doors.py").write_text(LOCKED)
    (folder / "door.yaml").write_text("env: {id: CartPole-v1, wrappers: [doors:Door]}\nalgorithm: A2C\n")
    words = ["compare", "ppo.yaml", "door.yaml", "dqn.yaml", *SETTINGS, "--seeds", "2", "--out", "my results"]
    process = start(folder, *words)
    printed = process.communicate(timeout=300)[0]
    return folder, process.returncode, printed


def test_failed_experiment_is_reported_and_the_others_finish(outcome: tuple[Path, int, str]) -> None:
    folder, code, printed = outcome
    assert code == 1, printed
    assert printed.count("the door is locked") == 2
    assert re.search(r"ppo\s+2/2", printed)
    assert re.search(r"door\s+0/2", printed)
    assert "ludus compare --resume 'my results'" in printed
    log = (folder / "my results/logs/door_seed-43.log").read_text()
    assert 'raise KeyError("the door is locked")' in log


def test_comparison_writes_data_and_a_page_that_needs_no_network(outcome: tuple[Path, int, str]) -> None:
    folder = outcome[0] / "my results"
    found = json.loads((folder / "results.json").read_text())
    assert [one["name"] for one in found["experiments"]] == ["ppo", "door", "dqn"]
    ppo, door, _ = found["experiments"]
    assert [run["seed"] for run in ppo["runs"]] == [42, 43]
    assert ppo["curve"]["steps"] == [500, 1000]
    assert ppo["iqm"]["value"] == pytest.approx(sum(run["score"] for run in ppo["runs"]) / 2)
    assert ppo["config"]["hyperparams"]["n_steps"] == 50
    assert (door["iqm"], [run["status"] for run in door["runs"]]) == (None, ["failed", "failed"])
    assert {(row["better"], row["than"]) for row in found["probability_of_improvement"]} == {
        ("ppo", "dqn"),
        ("dqn", "ppo"),
    }
    assert not re.search(r"seconds|memory|fps", json.dumps(found)), (
        "what the clock says belongs into costs.json"
    )
    costs = json.loads((folder / "costs.json").read_text())
    assert all(
        run["core_seconds"] > 0 and run["peak_memory"] > 1e7 for run in costs["experiments"][0]["runs"]
    )
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["experiment"], row["seed"], row["status"]) for row in rows] == [
        ("ppo", "42", "finished"),
        ("ppo", "43", "finished"),
        ("door", "42", "failed"),
        ("door", "43", "failed"),
        ("dqn", "42", "finished"),
        ("dqn", "43", "finished"),
    ]
    page = (folder / "index.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    parts = (
        "Learning curves",
        "Probability of improvement",
        "How soon",
        "Costs",
        "Unfinished runs",
    )
    assert [part for part in parts if f"<h2>{part}</h2>" not in page] == []


@pytest.mark.long
def test_fixed_comparison_with_one_more_seed_trains_only_missing_runs(
    outcome: tuple[Path, int, str], compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = outcome[0]
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", [*sys.path, str(folder)])
    (folder / "doors.py").write_text(
        LOCKED.replace('raise KeyError("the door is locked")', "return super().step(action)")
    )
    words = ["ppo.yaml", "door.yaml", *SETTINGS, "--seeds", 3, "--out", "my results"]
    code, out, err = compare(*words, "--json")
    assert code == 0, err
    assert "2 of 6 runs are already finished, 4 left" in err
    summary = json.loads(out.splitlines()[-1])
    assert (summary["status"], summary["ended"], summary["runs"]) == ("finished", 6, 6)
    again = compare(*words)
    assert "6 of 6 runs are already finished, 0 left" in again[1]
    other = compare(*words, "hyperparams.gamma=0.9")
    assert other[0] == 2
    assert "another experiment called 'ppo'" in other[2]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "no configs to compare"),
        (["--algos", "ppo"], "--algos needs an env"),
        (["--env", "CartPole-v1", "--algos", "pppo"], "did you mean 'PPO'?"),
        (
            ["--env", "CartPole-v1", "--algos", "ppo", "--seeds", "many"],
            "'many' is not a valid list of seeds",
        ),
        (["--env", "CartPole-v1", "--algos", "ppo", "--seeds", "1,1"], "'1,1' is not a valid list of seeds"),
        (["--env", "CartPole-v1", "--algos", "ppo", "--seeds", "0"], "'0' is not a valid list of seeds"),
        (["--env", "CartPole-v1", "--algos", "ppo", "hyperparams.n_stepps=3"], "n_steps"),
        (["nothing.yaml"], "there is no config file 'nothing.yaml'"),
        (["--resume", "nowhere"], "no comparison found in 'nowhere'"),
        (["--resume", "nowhere", "--algos", "ppo"], "--resume cannot be combined with other arguments"),
    ],
)
def test_mistakes_are_answered_in_three_lines(
    words: list[str], what: str, compare: Compare, tmp_path: Path
) -> None:
    code, _, err = compare(*words)
    assert code == 2
    assert what in err
    assert len(err.splitlines()) == 3
    assert list(tmp_path.iterdir()) == []
