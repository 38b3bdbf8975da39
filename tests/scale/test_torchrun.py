"""`torchrun -m ludus train`: as many learners as processes, one run, and the end that one learner comes to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from test_language_training import config_of
from test_language_training import trained as trained_language
from tiny_runs import steps_of, tiny, trained

from ludus.config.loading import dump_yaml
from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory, list_runs


def torchrun(config: TrainerConfig, folder: Path) -> RunDirectory:
    path = folder / "config.yaml"
    path.write_text(dump_yaml(config))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "ludus", "train"]
    done = subprocess.run([*command, str(path), "--quiet"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (run,) = list_runs(config.save_dir)
    return run


CASES: dict[str, Any] = {
    "self-play": (config_of, trained_language, {}),
    "a network of PPO": (tiny, trained, {"kernels": False}),
}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_end_with_the_result_of_one(case: str, tmp_path: Path) -> None:
    make, train, fields = CASES[case]
    alone = train(make(tmp_path / "one", **fields))
    together = torchrun(make(tmp_path / "two", **fields), tmp_path)
    assert together.info()["status"] == "finished"
    assert steps_of(alone)[-1] == steps_of(together)[-1]
    one, two = (
        load_file(run.checkpoints_dir / f"{steps_of(run)[-1]:012d}" / "policy.safetensors")
        for run in (alone, together)
    )
    assert one.keys() == two.keys()
    for name in one:
        assert float((one[name] - two[name]).abs().max()) < 1e-4, name
