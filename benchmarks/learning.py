"""Trains the presets of docs/results.md over several seeds and prints the table that stands there.

    python benchmarks/learning.py --seeds 1 2 3 4 5 --jobs 2 [--only cartpole-ppo] [--root runs/learning]

Each run is a plain `ludus train PRESET seed=N`, evaluated by `ludus eval RUN@latest --episodes 100`. Runs that
finished earlier under the same root are not repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

PRESETS = ("cartpole-ppo", "cartpole-dqn", "cartpole-a2c", "pendulum-sac", "lunarlander-ppo")


def ludus(*arguments: str) -> dict:
    """Run a Ludus command with --json; its last line of stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "ludus", *arguments, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"ludus {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def one(preset: str, seed: int, root: Path) -> dict:
    run = root / preset / f"seed-{seed}"
    result = root / preset / f"seed-{seed}.json"
    if result.exists():
        return json.loads(result.read_text())
    started = time.monotonic()
    trained = ludus("train", preset, f"seed={seed}", f"run_dir={run}", "-q")
    evaluated = ludus("eval", f"{run}@latest", "--episodes", "100", "-q")
    row = {
        "preset": preset,
        "seed": seed,
        "reward": evaluated["mean_reward"],
        "std": evaluated["std_reward"],
        "steps": trained["steps"],
        "fps": trained["fps"],
        "seconds": time.monotonic() - started,
    }
    result.write_text(json.dumps(row))
    print(f"{preset} seed {seed}: {row['reward']:.1f} at {row['fps']:,.0f} steps/s", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=PRESETS)
    parser.add_argument("--root", type=Path, default=Path("runs/learning"))
    options = parser.parse_args()
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(
            pool.map(
                lambda job: one(*job, options.root),
                [(preset, seed) for preset in options.only for seed in options.seeds],
            )
        )
    print("\n| preset | steps | mean reward of 100 episodes, by seed | mean | lowest | steps/s |")
    print("|---|---|---|---|---|---|")
    for preset in options.only:
        mine = [row for row in rows if row["preset"] == preset]
        rewards = [row["reward"] for row in mine]
        by_seed = ", ".join(f"{reward:.1f}" for reward in rewards)
        print(
            f"| {preset} | {mine[0]['steps']:,} | {by_seed} | {np.mean(rewards):.1f} | {min(rewards):.1f} "
            f"| {np.median([row['fps'] for row in mine]):,.0f} |"
        )


if __name__ == "__main__":
    main()
