"""Kills a run that saves constantly, again and again, at random moments: `python storm.py RUN CONFIG KILLS SEED`.

One process imports and compiles everything and forks a child for each life of the run. After every kill it prints
a JSON line: the newest checkpoint that was in place, the last step in metrics.jsonl, and the step from which the
run can be resumed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from driver import drive
from killable_runs import newest

from ludus.config.loading import load_config
from ludus.runs.checkpoints import CheckpointManager
from ludus.tracking.jsonl import read_jsonl
from ludus.training.factory import create_trainer


def last_step(run: Path) -> int:
    return max((int(row["step"]) for row in read_jsonl(run / "metrics.jsonl")), default=0)


def warm_up(run: Path, config: Path) -> None:
    """Load the compiled kernels once, for all the children."""
    short = load_config(config, [f"run_dir={run}-warm-up", "total_timesteps=64"]).config
    trainer = create_trainer(None, short)
    trainer.train()
    trainer.close()


def live_and_die(run: Path, config: Path, seconds: float) -> None:
    """Train in a child, and kill it after this long (but not before the very first checkpoint)."""
    child = os.fork()
    if child == 0:
        try:
            drive(str(run), str(config))
        finally:
            os._exit(1)  # it is not meant to end by itself
    time.sleep(seconds)
    while not newest(run):
        time.sleep(0.01)
    before = newest(run)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    resumed = CheckpointManager(run / "checkpoints").newest_intact()
    report = {
        "killed": status == signal.SIGKILL,
        "in_place": before,
        "last_step": last_step(run),
        "resumes_at": None if resumed is None else resumed.step,
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    directory, config_file, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rng = random.Random(seed)
    warm_up(directory, config_file)
    for _ in range(kills):
        live_and_die(directory, config_file, rng.uniform(0.05, 1.2))
