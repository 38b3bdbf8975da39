"""Plugins are found by scanning the bundled packages, and by entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ludus.plugins import load, plugins

SRC = Path(__file__).parents[1] / "src"
HIDE_INSTALLATION = """
import importlib.metadata as metadata
_found = metadata.distributions
metadata.distributions = lambda **given: (d for d in _found(**given) if d.name != "ludus-rl")
"""
"""What a process sees where the distribution is not installed: no metadata and no entry points of Ludus."""


def test_bundled_plugins_are_found_by_scanning() -> None:
    names = [plugin.name for plugin in plugins()]
    assert {"balatro", "board", "diambra", "unity", "language", "sb3"} <= set(names)


def test_a_reference_names_an_object_or_a_module() -> None:
    import json

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
    modules = [line for line in _python(script + count, tmp_path).splitlines() if line.startswith("ludus")]
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
