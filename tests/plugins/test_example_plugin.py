"""The example plugin of docs/tutorials/write-a-plugin.md: a separate package that trains with no change to the core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "example_plugin"
SRC = Path(__file__).parents[2] / "src"
ENV = "gridwalk/GridWalk-v0"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment variables of a process that has the package installed."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*install, str(EXAMPLE)], check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(SRC)]), "OMP_NUM_THREADS": "1"}


def run(installed: dict[str, str], where: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ludus", *arguments], env=installed, cwd=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_third_party_game_trains_with_its_own_parts(installed: dict[str, str], tmp_path: Path) -> None:
    flags = ["--algo", "ppo", "--env", ENV, "--steps", "20_000", "--json"]
    settings = ["n_envs=16", "hyperparams.n_steps=64", "hyperparams.learning_rate=1e-3", "seed=2"]
    trained = json.loads(run(installed, tmp_path, "train", *flags, *settings))
    config = (Path(tmp_path) / trained["run"] / "config.yaml").read_text()
    assert "vector: batched" in config
    lines = (tmp_path / trained["run"] / "metrics.jsonl").read_text().splitlines()
    reached = [row["gridwalk/reached"] for row in map(json.loads, lines) if "gridwalk/reached" in row]
    assert reached[0] < 0.6 and reached[-1] > 0.9
    evaluated = json.loads(run(installed, tmp_path, "eval", "latest", "--episodes", "20", "--json"))
    assert evaluated["gridwalk"]["reached"] == 1.0
    scripted = json.loads(run(installed, tmp_path, "eval", "straight", "--episodes", "20", "--json"))
    assert scripted["gridwalk"]["detour"] == 0.0
    page = tmp_path / "page.html"
    run(installed, tmp_path, "report", "latest", "--output", str(page))
    assert "steps beyond the shortest way" in page.read_text("utf-8")


def test_auto_takes_the_extractor_of_the_plugin(installed: dict[str, str], tmp_path: Path) -> None:
    script = f"""
from ludus import TrainerConfig, create_trainer
trainer = create_trainer("{ENV}", TrainerConfig(algorithm="PPO", n_envs=2, hyperparams={{"n_steps": 32}}))
print(type(trainer.create_model().features_extractor).__name__)
trainer.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=installed, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == "GridWalkExtractor", done.stderr


def test_command_and_env_of_the_plugin_are_listed(installed: dict[str, str], tmp_path: Path) -> None:
    assert "Print a grid of GridWalk." in run(installed, tmp_path, "--help")
    assert run(installed, tmp_path, "gridwalk", "--seed", "3").count("\n") == 6
    assert ENV in run(installed, tmp_path, "envs", "gridwalk")


def test_both_envs_follow_the_same_rules(installed: dict[str, str], tmp_path: Path) -> None:
    script = """
import numpy as np
from ludus_gridwalk.env import GridWalkEnv
from ludus_gridwalk.vector import GridWalkVectorEnv
one, many = GridWalkEnv(), GridWalkVectorEnv(3)
obs, _ = one.reset(seed=5)
many.reset(seed=[4, 5, 6])
many.walker[1], many.goal[1], many.shortest[1] = one.walker, one.goal, one.shortest
rng = np.random.default_rng(0)
for _ in range(30):
    action = int(rng.integers(4))
    _, reward, terminated, truncated, info = one.step(action)
    _, rewards, ends, cuts, infos = many.step([0, action, 1])
    assert (reward, terminated, truncated) == (rewards[1], ends[1], cuts[1])
    if terminated or truncated:
        assert infos["final_info"]["episode_report"][1] == info["episode_report"]
        break
else:
    raise AssertionError("no end")
"""
    done = subprocess.run([sys.executable, "-c", script], env=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
