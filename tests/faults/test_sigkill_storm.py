"""A run that saves constantly survives one SIGKILL after another and loses at most one checkpoint interval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import learned, newest, write_config

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

STEPS_PER_UPDATE = 32
EVERY = {"checkpoint": {"every": STEPS_PER_UPDATE, "keep": 3}, "tracking": {"every": 1, "tensorboard": False}}
SMALL = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "policy_net_arch": [8], "value_net_arch": [8]}


def storm(folder: Path, kills: int, seed: str, record_fault: Any) -> None:
    config = write_config(
        folder,
        "PPO",
        total_timesteps=10**9,
        threads=1,  # a process with threads of its own could not be forked
        hyperparams=SMALL,
        evaluation={"every": 10 * STEPS_PER_UPDATE, "episodes": 1},
        **EVERY,
    )
    run = folder / "run"
    script = Path(__file__).with_name("storm.py")
    done = subprocess.run(
        [sys.executable, str(script), str(run), str(config), str(kills), seed],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    lost = [report["last_step"] - (report["resumes_at"] or 0) for report in reports]
    resumable = sum(report["resumes_at"] is not None for report in reports)
    record_fault(
        "SIGKILL at a random moment", kills, resumable, f"{max(lost) // STEPS_PER_UPDATE} interval at most"
    )
    assert len(reports) == kills
    reached = 0
    for report in reports:
        assert report["killed"], "the run ended by itself"
        assert report["resumes_at"] >= report["in_place"] >= reached, "a checkpoint that was in place is gone"
        assert report["last_step"] - report["resumes_at"] <= STEPS_PER_UPDATE, (
            "more than one interval is lost"
        )
        reached = report["in_place"]
    assert reached > kills * STEPS_PER_UPDATE, "the storm left no time to train"

    total = newest(run) + 4 * STEPS_PER_UPDATE
    text = config.read_text().replace("total_timesteps: 1000000000", f"total_timesteps: {total}")
    config.write_text(text)
    resolved = run / "config.yaml"
    _, _, unsealed = resolved.read_text().partition("\n")
    resolved.write_text(unsealed.replace("1000000000", str(total)))
    drive(str(run), str(config))
    whole = folder / "whole"
    drive(str(whole), str(config))
    for part, value in learned(whole).items():
        assert learned(run)[part] == value, f"{part} differs after the storm"


def test_run_killed_ten_times_ends_with_the_same_bytes(tmp_path: Path, record_fault: Any) -> None:
    storm(tmp_path, kills=10, seed="ten", record_fault=record_fault)


@pytest.mark.faults
@pytest.mark.parametrize("seed", ["first", "second", "third", "fourth", "fifth"])
def test_run_killed_190_more_times_ends_with_the_same_bytes(
    tmp_path: Path, seed: str, record_fault: Any
) -> None:
    storm(tmp_path, kills=38, seed=seed, record_fault=record_fault)
