"""Plugins are found by scanning the bundled packages, and by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludus import plugins as plugins_module
from ludus.envs.episode_reports import EpisodeReports
from ludus.errors import UserError
from ludus.evaluation.evaluate import EvaluationResult
from ludus.plugins import CommandEntry, Plugin, load, plugins
from ludus.types import EpisodeRecord

SRC = Path(__file__).parents[2] / "src"
HIDE_INSTALLATION = """
import importlib.metadata as metadata
_found = metadata.distributions
metadata.distributions = lambda **given: (d for d in _found(**given) if d.name != "ludus-rl")
"""
"""Return what a process prints if the distribution is not installed: no metadata and no entry points of Ludus."""


def test_bundled_plugins_are_found_by_scanning() -> None:
    names = [plugin.name for plugin in plugins()]
    assert {"balatro", "board", "diambra", "unity", "language", "sb3"} <= set(names)


def test_a_reference_names_an_object_or_a_module() -> None:
    assert load("json:dumps") is json.dumps
    assert load("json") is json


def _python(script: str, where: Path) -> str:
    """Run `script` in a Python that has the dependencies of Ludus, and Ludus only as a source tree."""
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", HIDE_INSTALLATION + script]
    done = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_source_tree_that_is_not_installed_has_every_plugin(tmp_path: Path) -> None:
    script = """
import gymnasium as gym
from ludus.plugins import plugins
assert {"balatro", "board", "diambra", "language", "sb3", "unity"} <= {plugin.name for plugin in plugins()}
from ludus import make_env
for env_id in ("ludus/Balatro-v0", "Text/TicTacToe-v0"):
    env = make_env(env_id)
    env.reset(seed=0)
    env.close()
from ludus.cli.app import main
assert main(["balatro", "coverage", "--json"]) == 0
assert main(["train", "cartpole-ppo", "total_timesteps=2048", "n_envs=2", "hyperparams.n_steps=128", "--quiet"]) == 0
"""
    _python(script, tmp_path)
    assert next(tmp_path.glob("runs/CartPole-v1/PPO/*/run.json")).is_file()


_TRAIN = """
import sys
from ludus import TrainerConfig, create_trainer
config = TrainerConfig(algorithm="PPO", n_envs=2, total_timesteps=512, hyperparams={"n_steps": 128})
create_trainer("CartPole-v1", config).train()
"""
_TRAIN_BY_COMMAND = """
import sys
from ludus.cli.app import main
flags = ["--algo", "ppo", "--env", "CartPole-v1", "--steps", "512", "--quiet"]
assert main(["train", *flags, "n_envs=2", "hyperparams.n_steps=128"]) == 0
"""


@pytest.mark.parametrize("script", [_TRAIN, _TRAIN_BY_COMMAND], ids=["create_trainer", "ludus train"])
def test_training_cartpole_imports_few_modules(script: str, tmp_path: Path) -> None:
    count = 'print(*sorted(name for name in sys.modules if name.partition(".")[0] == "ludus"), sep="\\n")'
    no_compiler = 'assert "torch._dynamo" not in sys.modules\n'  # half of the time in which a run starts
    printed = _python(script + no_compiler + count, tmp_path)
    modules = [line for line in printed.splitlines() if line.startswith("ludus")]
    assert len(modules) <= 120, modules


def test_help_imports_no_command(tmp_path: Path) -> None:
    script = """
import sys
from ludus.cli.app import main
assert main(["--help"]) == 0
assert not {"torch", "gymnasium", "numba", "pydantic"} & set(sys.modules)
assert not {"ludus.cli.train", "ludus.games.balatro.cli", "ludus.language.cli"} & set(sys.modules)
"""
    assert "train" in _python(script, tmp_path)


def _with_plugins(monkeypatch: pytest.MonkeyPatch, *added: Plugin) -> None:
    found = (*plugins_module.plugins(), *added)
    monkeypatch.setattr(plugins_module, "plugins", lambda: found)


def test_the_first_plugin_wins_and_patterns_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Plugin("first", signals={"x/Foo-*": "json:dumps"}, bots={"walker": "json:dumps"})
    second = Plugin("second", signals={"*": "json:loads"}, bots={"walker": "json:loads"})
    _with_plugins(monkeypatch, first, second)
    assert plugins_module.match_env("signals", "x/Foo-v0") is json.dumps
    assert plugins_module.match_env("signals", "x/Bar-v0") is json.loads
    assert plugins_module.find("bots", "walker") is json.dumps


def test_a_plugin_cannot_replace_a_core_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from ludus.cli.app import CORE, _entries

    _with_plugins(monkeypatch, Plugin("greedy", commands={"runs": CommandEntry("json:dumps", "mine")}))
    assert _entries()["runs"] == CORE["runs"]


def test_a_reference_to_nothing_is_named() -> None:
    with pytest.raises(UserError, match="the module 'json' has no 'dump_it'"):
        load("json:dump_it")


def test_a_report_does_not_replace_what_ludus_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reports(EpisodeReports):
        kind = "liar"

        def add_report(self, report: Mapping[str, Any], reward: float) -> None: ...

        def get_summary(self) -> dict[str, Any]:
            return {}

        def metrics(self) -> dict[str, float]:
            return {"mean_reward": 999.0, "own": 1.0}

    monkeypatch.setattr("ludus.envs.episode_reports.find", lambda field, kind: Reports)
    result = EvaluationResult((EpisodeRecord(-1.0, 10, None, {"kind": "liar"}),))
    assert result.metrics()["eval/mean_reward"] == -1.0 and result.metrics()["eval/own"] == 1.0


def test_reports_of_several_kinds_are_summarised_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reports(EpisodeReports):
        def __init__(self) -> None:
            self.rewards: list[float] = []

        def add_report(self, report: Mapping[str, Any], reward: float) -> None:
            self.rewards.append(report["value"])

        def get_summary(self) -> dict[str, Any]:
            return {"values": self.rewards}

        def metrics(self) -> dict[str, float]:
            return {f"{self.kind}_last": self.rewards[-1]}

    kinds = {kind: type(kind, (Reports,), {"kind": kind}) for kind in ("chess", "go")}
    monkeypatch.setattr("ludus.envs.episode_reports.find", lambda field, kind: kinds.get(kind))
    reports = [
        {"kind": "chess", "value": 1},
        {"kind": "go", "value": 2},
        {"kind": "nobody's"},
        {"kind": "chess", "value": 3},
    ]
    result = EvaluationResult(tuple(EpisodeRecord(0.0, 1, None, report) for report in reports))
    assert [found.get_summary() for found in result.reports()] == [{"values": [1, 3]}, {"values": [2]}]
    assert result.metrics()["eval/chess_last"] == 3 and result.metrics()["eval/go_last"] == 2
    assert result.summary()["chess"] == {"values": [1, 3]} and result.summary()["go"] == {"values": [2]}
