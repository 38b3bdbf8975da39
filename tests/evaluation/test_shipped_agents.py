"""Agents that come with Ludus: found by name, play as measured, never written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.evaluation.agents import agent_names, find_agent
from ludus.evaluation.load import find_checkpoint, load


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_every_agent_is_complete_and_small() -> None:
    assert agent_names() == ["balatro-ppo"]
    for name in agent_names():
        run, checkpoint = find_checkpoint(name)
        checkpoint.verify()
        assert sum(path.stat().st_size for path in run.path.rglob("*")) < 12 << 20


def test_agent_is_not_a_run_of_the_user(tmp_path: Path) -> None:
    assert load("balatro-ppo", tmp_path).run is None


@pytest.mark.parametrize("name", ["../agents/balatro-ppo", "balatro-ppo/", ".", ""])
def test_path_is_not_an_agent(name: str) -> None:
    assert find_agent(name) is None


def test_balatro_agent_reaches_its_measured_ante(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = find_agent("balatro-ppo")
    assert agent is not None
    before = files(agent.path)
    assert main(["eval", "balatro-ppo", "--episodes", "40", "--seed", "2000000", "--json"]) == 0
    found = capsys.readouterr().out
    assert '"mean_ante": ' in found
    assert float(found.split('"mean_ante": ')[1].split(",")[0]) > 6.5  # 7.49 over 1,000 runs
    assert files(agent.path) == before
    assert list(tmp_path.iterdir()) == []
