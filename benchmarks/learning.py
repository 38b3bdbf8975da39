"""Trains the presets of docs/reference/results.md over several seeds and prints the table that stands there.

    python benchmarks/learning.py [--only cartpole-ppo …] [--seeds 1 2 3] [--workers 2] [--threads 1]

Each run is a plain `ludus train PRESET seed=N` in a process of its own, evaluated by `ludus eval` twice: the last
policy, and the checkpoint that did best while training. Each leaves one JSON file; those that stand under the same
root are not repeated, and an interrupted run goes on from its newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ludus.errors import UserError


@dataclass(frozen=True)
class Aim:
    """What must hold: `reward`, reached by the mean over seeds or by this share of the seeds."""

    reward: float
    share: float | None = None

    def holds(self, rewards: list[float]) -> bool:
        if self.share is None:
            return float(np.mean(rewards)) >= self.reward
        return float(np.mean([reward >= self.reward for reward in rewards])) >= self.share

    def __str__(self) -> str:
        by = "mean" if self.share is None else f"{self.share:.0%} of seeds"
        return f"{self.reward:g}, {by}"


AIMS = {
    "cartpole-ppo": Aim(475, 1.0),
    "cartpole-dqn": Aim(475, 0.8),
    "cartpole-a2c": Aim(475, 0.8),
    "pendulum-sac": Aim(-180),
    "lunarlander-ppo": Aim(260),
    "acrobot-ppo": Aim(-80),
    "mountaincar-dqn": Aim(-110),
    "bipedalwalker-ppo": Aim(290),
    "bipedalwalker-sac": Aim(285),
}


def ludus(*arguments: str) -> dict:
    """Run a Ludus command with --json; its last line of stdout. RuntimeError when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "ludus", *arguments, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ludus {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def one(preset: str, seed: int, options: argparse.Namespace) -> dict:
    """The result of one training, from its file where it stands."""
    run = options.root / preset / f"seed-{seed}"
    result = options.root / preset / f"seed-{seed}.json"
    if result.exists():
        return json.loads(result.read_text())
    if run.exists() and not any(run.glob("checkpoints/0*")):
        shutil.rmtree(run)  # it was stopped before there was anything to go on from
    settings = [f"seed={seed}", f"run_dir={run}", "tracking.tensorboard=false"]
    if options.threads is not None:
        settings.append(f"threads={options.threads}")
    ludus("train", preset, *settings, *options.set, "--resume", "-q")
    episodes = ("--episodes", str(options.episodes), "-q")
    last = ludus("eval", f"{run}@latest", *episodes)
    best = ludus("eval", f"{run}@best", *episodes)
    told = json.loads((run / "run.json").read_text())
    row = {
        "preset": preset,
        "seed": seed,
        "reward": last["mean_reward"],
        "std": last["std_reward"],
        "best_reward": best["mean_reward"],
        "best_std": best["std_reward"],
        "episodes": options.episodes,
        "steps": told["steps"],
        "seconds": told["seconds"],
        "curve": [
            [row["step"], row["eval/mean_reward"]]
            for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
            if "eval/mean_reward" in row
        ],
    }
    result.write_text(json.dumps(row))
    print(
        f"{preset} seed {seed}: last {row['reward']:.1f}, best {row['best_reward']:.1f}"
        f" after {row['seconds']:,.0f} s",
        flush=True,
    )
    return row


def table(rows: list[dict]) -> str:
    """As it stands in docs/reference/results.md."""
    lines = [
        "| preset | steps | last policy, by seed | mean | best checkpoint, mean | aim | holds | time, median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for preset in dict.fromkeys(row["preset"] for row in rows):
        mine = sorted((row for row in rows if row["preset"] == preset), key=lambda row: row["seed"])
        rewards = [row["reward"] for row in mine]
        aim = AIMS.get(preset)
        lines.append(
            f"| `{preset}` | {mine[0]['steps']:,} | {', '.join(f'{reward:.1f}' for reward in rewards)}"
            f" | {np.mean(rewards):.1f} | {np.mean([row['best_reward'] for row in mine]):.1f}"
            f" | {aim or ''} | {'' if aim is None else 'yes' if aim.holds(rewards) else 'no'}"
            f" | {np.median([row['seconds'] for row in mine]):,.0f} s |"
        )
    return "\n".join(lines)


def do_all(
    do: Callable[..., dict], jobs: list[tuple], workers: int, table: Callable[[list[dict]], str]
) -> None:
    """Do the jobs, so many at a time, and print the table of what they gave. Those that fail are told at the end."""
    rows, failures = [], []
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(do, *job) for job in jobs]:
            try:
                rows.append(future.result())
            except (RuntimeError, UserError) as error:  # the others go on
                failures.append(str(error))
    print("\n" + table(rows))
    if failures:
        raise SystemExit("\n".join(failures))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="PRESET", default=list(AIMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time")
    parser.add_argument("--threads", type=int, help="threads of each; default: what Ludus takes, two at most")
    parser.add_argument("--episodes", type=int, default=100, help="of each evaluation")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="changes to the presets")
    parser.add_argument("--root", type=Path, default=Path("runs/learning"))
    options = parser.parse_args()
    jobs = [(preset, seed, options) for seed in options.seeds for preset in options.only]
    do_all(one, jobs, options.workers, table)


if __name__ == "__main__":
    main()
