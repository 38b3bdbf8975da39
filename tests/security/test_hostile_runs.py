"""Runs that others sent, through every command that takes one: no code runs, nothing outside is read or written."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hostile_runs import ATTACKS, pickles
from watchtower import Watch

from ludus.config.schema import TrainerConfig
from ludus.training.factory import create_trainer

COMMANDS: dict[str, list[str]] = {
    "eval": ["eval", "received", "--episodes", "1"],
    "resume": ["resume", "received", "--steps", "96", "-q"],
    "report": ["report", "received", "--output", "page.html"],
    "analyze": ["analyze", "received", "--episodes", "1", "--output", "analysed"],
    "play": ["play", "received", "--episodes", "1", "--video", "clip.mp4"],
    "video": ["video", "received", "--length", "4", "--output", "clip.mp4"],
    "export": ["export", "received", "--to", "torchscript", "--out", "exported.pt"],
    "runs": ["runs", "list", "--root", "received"],
    "runs pin": ["runs", "pin", "received@latest"],
    "runs tag": ["runs", "tag", "received", "good"],
    "mirror": ["mirror", "received", "file://HERE/mirrored"],
    "match": ["match", "received", "random", "--env", "TicTacToe-v0", "--games", "1"],
    "compare": ["compare", "received/config.yaml", "--seeds", "1", "--steps", "64", "--out", "compared"],
    "config": ["config", "received/config.yaml"],
    "train": ["train", "received/config.yaml", "total_timesteps=32", "-q"],
    "train from it": ["train", "small.yaml", "pretrained_model=received", "-q"],
    "train --resume": ["train", "received/config.yaml", "--resume", "save_dir=received", "-q"],
}

OF_ITS_CONFIG = ("config", "compare", "train")
"""They read that file of a run alone."""

# for `make test`, one of each kind; `make faults` tries all of them with every command
SOME = [
    "weights: pickle, protocol 4",
    "weights: torch.save",
    "weights: a shape of 2^62 numbers",
    "pickles next to the weights",
    "Python next to the config",
    "state: of another kind",
    "manifest: a way up",
    "link: metrics",
    "link: checkpoints",
    "link: the log",
    "pipe: config",
    "config: a tag",
    "config: a network of 10^18 weights",
    "run.json: names with commands",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    config = TrainerConfig(
        algorithm="A2C",
        env="CartPole-v1",
        n_envs=1,
        kernels=False,
        total_timesteps=64,
        checkpoint={"every": 32},
        evaluation={"every": None},
        tracking={"tensorboard": False},
        hyperparams={"policy_net_arch": [4], "value_net_arch": [4]},
        save_dir=str(folder),
    )
    trainer = create_trainer(None, config)
    run = trainer.train().run
    trainer.close()
    return run


@pytest.fixture
def watch(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known, registered = set(sys.modules), dict(gym.registry)
    shutil.copytree(trained, tmp_path / "received")
    shutil.copy(trained / "config.yaml", "small.yaml")
    yield Watch(tmp_path)
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    gym.registry.clear()
    gym.registry.update(registered)


def attempt(attack: str, command: str, watch: Watch) -> int:
    ATTACKS[attack](Path("received").absolute(), watch.outside, watch.mark)
    # comparisons and training in processes of their own start those by themselves
    watch.may = ("subprocess.Popen",) if command in ("compare",) else ()
    code, said = watch.run(*(word.replace("HERE", str(watch.here)) for word in COMMANDS[command]))
    if command == "compare" and code == 1:
        code = 2  # it reports trainings that failed, and continues
    assert "\x1b" not in said and "\x07" not in said, "the terminal was steered"
    assert code in (0, 2), (code, said)
    return code


@pytest.mark.faults
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "match"])  # that needs a text game
def test_the_commands_work_on_a_run_that_does_no_harm(command: str, watch: Watch) -> None:
    watch.may = ("subprocess.Popen",)
    code, said = watch.run(*(word.replace("HERE", str(watch.here)) for word in COMMANDS[command]))
    assert code == 0, said


@pytest.mark.parametrize("attack", SOME)
def test_resuming_a_hostile_run_has_no_effect_outside_it(attack: str, watch: Watch) -> None:
    attempt(attack, "resume", watch)


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_on_a_hostile_run_has_an_effect_outside_it(
    command: str, watch: Watch, trained: Path, record_fault: Callable[..., None]
) -> None:
    failed = {}
    attacks = [name for name in ATTACKS if command not in OF_ITS_CONFIG or "config" in name]
    if command in (*OF_ITS_CONFIG, "train --resume"):
        attacks.remove("config: a starting policy elsewhere")  # to train with a config is to do what it says
    for attack in attacks:
        shutil.rmtree("received")
        shutil.copytree(trained, "received")
        try:
            attempt(attack, command, watch)
        except AssertionError as error:
            failed[attack] = str(error)[:1_500]
            watch.deeds.clear()
        for left in Path().iterdir():
            if left.name not in ("received", "outside", "small.yaml"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    record_fault("hostile run: code run, or files outside touched", len(attacks), len(attacks) - len(failed))
    assert failed == {}


@pytest.mark.faults
def test_dashboard_of_a_hostile_run_has_no_effect_outside_it(
    watch: Watch, trained: Path, record_fault: Callable[..., None]
) -> None:
    pytest.importorskip("uvicorn")
    from dashboard_site import serving

    root = watch.here / "root"
    for number, attack in enumerate(ATTACKS.values()):
        shutil.copytree(trained, root / f"run-{number}")
        attack(root / f"run-{number}", watch.outside, watch.mark)
    parts = [
        "",
        "/config",
        "/checkpoints",
        "/videos",
        "/logs",
        "/games",
        "/league",
        "/report",
        "/logs/train.log",
    ]
    said, answered = "", 0
    with watch.looking(), serving(root) as site:
        listed = json.loads(_fetch(site, "/api/runs")[1])
        for run in [one["id"] for one in listed["runs"]]:
            for part in parts:
                status, body = _fetch(site, f"/api/runs/{run}{part}")
                assert status in (200, 404), (status, part, body[:300])
                said += body.decode("utf-8", "replace")
                answered += 1
    watch.check(said)
    assert answered > 9 * 60
    record_fault("hostile run: code run, or files outside touched", len(ATTACKS), len(ATTACKS))


def _fetch(site: Any, path: str) -> tuple[int, bytes]:
    status, _, body = site.ask(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    return status, body


@pytest.mark.parametrize("kind", pickles(Path("unused")))
def test_the_payloads_would_work_if_they_were_loaded(kind: str, watch: Watch) -> None:
    import io
    import pickle

    import joblib
    import numpy as np
    import torch

    path = watch.here / "payload"
    path.write_bytes(pickles(watch.mark)[kind])
    if kind.startswith("pickle"):
        pickle.loads(path.read_bytes())  # noqa: S301
    elif kind.startswith("torch"):
        torch.load(path, weights_only=False)
    elif kind.startswith("numpy"):
        found = np.load(io.BytesIO(path.read_bytes()), allow_pickle=True)
        _ = found["a"] if hasattr(found, "files") else found
    elif kind == "joblib":
        joblib.load(path)
    else:
        return  # the zip holds one of the others
    assert watch.mark.exists()
