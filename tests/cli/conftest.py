"""`ludus …` in this process, in a folder of its own; and one tiny trained run that the tests may copy."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
from command_line import TINY, Command, Outcome

from ludus.cli.app import main
from ludus.envs.registration import register_envs

register_envs()  # now, or they would be gone with the first test that imports them


@pytest.fixture
def ludus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """`ludus("train", "my.yaml")` in `tmp_path`, on a screen of 80 columns, without a display."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        monkeypatch.setenv(name, "")  # so that what the command itself sets does not outlive the test
        monkeypatch.delenv(name)

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    registered = dict(gym.registry)
    yield run
    # what a test's own env module left behind must not meet another test, for which the module is gone
    gym.registry.clear()
    gym.registry.update(registered)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    logger = logging.getLogger("ludus")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)


@pytest.fixture(scope="session")
def trained_in_process_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder with one finished run below `runs/`, trained by a real `python -m ludus train … --json`."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    arguments = ["train", "--algo", "ppo", "--env", "CartPole-v1", "--steps", "512", "--name", "tiny"]
    done = subprocess.run(
        [sys.executable, "-m", "ludus", *arguments, "--json", "checkpoint.every=256", *TINY],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    return folder, Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(trained_in_process_of_its_own: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """A copy of that run in the test's own folder; the path as users see it, relative."""
    folder, outcome = trained_in_process_of_its_own
    assert outcome.code == 0, outcome.err
    shutil.copytree(folder / "runs", tmp_path / "runs")
    return Path(outcome.json["run"])
