"""Killed at a random step and resumed, to the same bytes: every algorithm, with kernels and without, on every backend.

Beside what quick tests keep (tests/training/test_exact_resume.py goes back to a middle checkpoint, with wrappers,
masks, pictures and more; EnvPool's are in tests/extras). Here every run is really killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from killable_runs import HYPERPARAMS, learned, newest, write_config
from test_damaged_files import self_play_config

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]

SHORT = {
    "total_timesteps": 1536,
    "checkpoint": {"every": 512, "keep": 2},
    "evaluation": {"every": 768, "episodes": 1},
    "threads": 1,
}
BALATRO = {
    "env": {"id": "ludus/Balatro-v0", "kwargs": {"actions": "moves", "max_hand": 8, "max_steps": 200}},
    "n_envs": 4,
}
CURRICULUM = {"initial": 1, "increment": 1, "maximum": 8, "window": 2, "success_threshold": 0.1}
SB3 = ("PPO", "A2C", "DQN", "QR-DQN", "SAC", "TD3", "DDPG", "TQC", "CrossQ", "TRPO", "ARS", "RecurrentPPO")
SELF_PLAY: dict[str, dict[str, Any]] = {
    "REINFORCE": {},
    "A2C": {"games": {"across_updates": True}},
    "PPO": {"language": {"adapter": None}},
    "GRPO": {
        "games": {"branch": 3, "branch_at": "uncertain"},
        "league": {"opponents": "mirror", "train": []},
    },
}


def native(folder: Path, algorithm: str, **fields: Any) -> Path:
    return write_config(folder, algorithm, **(SHORT | fields))


def sb3(folder: Path, algorithm: str, **fields: Any) -> Path:
    from sb3_runs import HYPERPARAMS as TINY
    from sb3_runs import NO_VALUE_NET

    nets = {"policy_net_arch": [16]} | ({} if algorithm in NO_VALUE_NET else {"value_net_arch": [16]})
    pendulum = algorithm in ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
    data = SHORT | {
        "algorithm": algorithm,
        "engine": "sb3",
        "env": {"id": "Pendulum-v1", "max_episode_steps": 60} if pendulum else {"id": "CartPole-v1"},
        "n_envs": 2,
        "vector": "serial",
        "hyperparams": TINY[algorithm] | nets,
        "tracking": {"every": 64, "tensorboard": False},
        "total_timesteps": 384,
        "checkpoint": {"every": 128, "keep": 2},
        "evaluation": {"every": 128, "episodes": 1},
        **fields,
    }
    path = folder / "sb3.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def self_play(folder: Path, algorithm: str) -> Path:
    path = self_play_config(folder)
    data = yaml.safe_load(path.read_text()) | {"algorithm": algorithm, "total_timesteps": "4 updates"}
    for section, values in SELF_PLAY[algorithm].items():
        data[section] = data[section] | values
    path.write_text(yaml.safe_dump(data))
    return path


CASES: dict[str, Any] = {}
for _name in HYPERPARAMS:
    CASES[f"{_name}, torch, serial"] = lambda folder, a=_name: native(folder, a, kernels=False)
    CASES[f"{_name}, kernels, batched"] = lambda folder, a=_name: native(folder, a, vector="batched")
    CASES[f"{_name}, torch, batched"] = lambda folder, a=_name: native(
        folder, a, vector="batched", kernels=False
    )
CASES["PPO, torch, process"] = lambda folder: native(folder, "PPO", vector="process", kernels=False)
CASES["DQN, torch, process"] = lambda folder: native(folder, "DQN", vector="process", kernels=False)
for _name, _vector in (("PPO", "batched"), ("PPO", "serial"), ("DQN", "batched"), ("A2C", "batched")):
    CASES[f"Balatro, {_name}, {_vector}"] = lambda folder, a=_name, v=_vector: native(
        folder, a, **BALATRO, vector=v
    )
CASES["Balatro with a curriculum"] = lambda folder: native(
    folder, "PPO", **BALATRO, vector="batched", curriculum=CURRICULUM
)
CASES["curriculum, A2C, serial"] = lambda folder: native(
    folder,
    "A2C",
    env={"id": "odd_envs:Walk-v0"},
    curriculum={"window": 2, "success_threshold": 0.5, "maximum": 2.0},
)
CASES["curriculum, PPO, process"] = lambda folder: native(
    folder,
    "PPO",
    env={"id": "odd_envs:Walk-v0"},
    vector="process",
    curriculum={"window": 2, "success_threshold": 0.5, "maximum": 2.0},
)
for _name in SELF_PLAY:
    CASES[f"self-play with a league, {_name}"] = lambda folder, a=_name: self_play(folder, a)
for _name in SB3:
    CASES[f"sb3, {_name}"] = lambda folder, a=_name: sb3(folder, a)
CASES["sb3, MaskablePPO"] = lambda folder: sb3(folder, "MaskablePPO", env={"id": "odd_envs:MaskedWalk-v0"})


def run_script(script: str, *arguments: str) -> int:
    """In a process of its own: some kernels have threads, which do not live on in the forks of other tests."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    places = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": places}
    return subprocess.run([sys.executable, "-c", script, *arguments], env=environment).returncode


KILLED = """\
import os, signal, sys
from driver import drive
from ludus.training.checkpointing import SessionCheckpoints
from ludus.training.session import Session

run, config, share = sys.argv[1:]


def deadly(original):
    def call(run, *arguments):
        result = original(run, *arguments)
        steps = int(state.get("interval", 0) * float(share))
        if steps and run.num_timesteps >= steps:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call


def noticed(self, session, **how):  # the first checkpoint gives the number of steps per interval
    saved = save(self, session, **how)
    state.setdefault("interval", saved.step)
    return saved


state, save = {}, SessionCheckpoints.save
SessionCheckpoints.save = noticed
for name in ("_after_step", "record"):  # while it collects, or after an update, whichever comes first
    setattr(Session, name, deadly(getattr(Session, name)))
drive(run, config)
"""
RESUMED_AND_WHOLE = """\
import sys
from driver import drive
run, whole, config = sys.argv[1:]
drive(run, config)
drive(whole, config)
"""


@pytest.mark.parametrize("case", CASES)
def test_killed_and_resumed_run_ends_the_same(case: str, tmp_path: Path, record_fault: Any) -> None:
    if case.startswith("self-play"):
        pytest.importorskip("textarena")
    if case.startswith("sb3"):
        pytest.importorskip("sb3_contrib")
    config, run, whole = CASES[case](tmp_path), tmp_path / "run", tmp_path / "whole"
    share = random.Random(case).uniform(1.3, 2.3)  # of three intervals
    died = run_script(KILLED, str(run), str(config), str(share)) == -signal.SIGKILL
    reached = newest(run)
    ended = run_script(RESUMED_AND_WHOLE, str(run), str(whole), str(config)) == 0
    differing = ["everything"]
    if ended:
        found, expected = learned(run), learned(whole)
        differing = [part for part in expected if found[part] != expected[part]]
    record_fault("killed, resumed, and compared to the byte", 1, int(died and not differing))
    assert died and reached, "it was not killed, or had no checkpoint to resume from"
    assert differing == [], f"after a kill beyond {reached}"
