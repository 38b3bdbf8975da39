"""Callbacks that a config names are the user's own code: run where the user trains, never for a run from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.errors import ConfigError
from ludus.runs.directory import RunDirectory
from ludus.training.callbacks import load_callbacks

CODE = """
import pathlib
from ludus import BaseCallback

class StopAt(BaseCallback):
    def __init__(self, steps=64):
        super().__init__()
        self.stop_at = steps

    def _on_step(self):
        pathlib.Path("called").touch()
        return self.num_timesteps < self.stop_at
"""
CONFIG = """
algorithm: A2C
env: CartPole-v1
n_envs: 2
total_timesteps: 400
evaluation: null
tracking: null
run_dir: run
hyperparams: {n_steps: 8, policy_net_arch: [8], value_net_arch: [8]}
callbacks: [{"watching:StopAt": {steps: 100}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "watching.py").write_text(CODE)
    (work / "mine.yaml").write_text(CONFIG)
    return work


def test_a_config_names_callbacks_and_a_resumed_run_has_them_again(folder: Path) -> None:
    assert main(["train", "mine.yaml", "--quiet"]) == 0
    run = RunDirectory.open(folder / "run")
    assert run.info()["status"] == "stopped" and run.info()["reason"] == "a callback asked for it"
    assert run.info()["steps"] == 96
    (folder / "called").unlink()
    assert main(["resume", "run", "--quiet"]) == 0
    assert (folder / "called").exists() and run.info()["status"] == "stopped"


def test_a_run_from_elsewhere_does_not_call_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "mine.yaml", "--quiet"]) == 0
    (folder / "called").unlink()
    shutil.rmtree(folder.parent / "state")  # as on another machine
    capsys.readouterr()
    assert main(["resume", "run", "--quiet"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and "watching" in said[0] and "--allow watching" in said[2]
    assert not (folder / "called").exists()
    assert main(["eval", "run", "--episodes", "1"]) == 0  # nothing of it is needed to play
    assert not (folder / "called").exists()


@pytest.mark.parametrize(
    ("named", "what"),
    [
        ("watching", "does not name a callback"),
        ("nowhere_at_all:Callback", "module 'nowhere_at_all' of callback"),
        ("pathlib:Path", "not a callback class"),
    ],
)
def test_what_is_no_callback_class_is_refused(named: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as raised:
        load_callbacks([named])
    assert raised.value.where == "callbacks.0"
