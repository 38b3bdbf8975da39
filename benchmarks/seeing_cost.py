"""What seeing a run costs: training that is watched, tracked and mirrored against the same training that is not.

    python benchmarks/seeing_cost.py [--pairs 10] [--steps 800000] [--env LunarLander-v3] [--json]

One process trains the same config again and again, by turns plain (metrics.jsonl only) and seen: TensorBoard, W&B
offline where it is installed, the terminal dashboard in a process of its own that looks at the run every second, and a
mirror in another folder, each as it is without settings. A training takes most of a minute, so that the mirror passes.
Each pair gives one ratio of steps per second; the figure is their median, with the lowest and the highest. Beside it
stands the same ratio in processor time, of all processes, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.errors import EXIT_TERMINATED

ALLOWED = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=800_000, help="of one training")
    parser.add_argument("--env", default="LunarLander-v3")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--watch", metavar="DIR", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.watch is not None:
        look_every_second(Path(arguments.watch))
        return
    # between two trainings, too, the watcher and the folder must not outlive this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder) / "warm", arguments.env, arguments.steps // 4, seen=True)  # compiles and imports
        pairs = [one_pair(Path(folder), number, arguments) for number in range(arguments.pairs)]
    ratios = sorted(seen.speed / plain.speed for plain, seen in pairs)
    cost = statistics.median(seen.processor / plain.processor for plain, seen in pairs)
    found = {
        "env": arguments.env,
        "steps": arguments.steps,
        "seen_by": seen_by(),
        "pairs": [{"plain": round(plain.speed), "seen": round(seen.speed)} for plain, seen in pairs],
        "ratio": round(statistics.median(ratios), 4),
        "lowest": round(ratios[0], 4),
        "highest": round(ratios[-1], 4),
        "processor_time": round(cost, 4),
        "within": statistics.median(ratios) >= 1 - ALLOWED,
    }
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"seen by {', '.join(found['seen_by'])}: {found['ratio']:.1%} of the plain speed")
    print(
        f"({arguments.pairs} pairs, {found['lowest']:.1%} to {found['highest']:.1%}; at least 95 % is promised)"
    )
    print(f"processor time of a step: {found['processor_time']:.1%} of the plain one")


def seen_by() -> list[str]:
    wandb = ["W&B offline"] if importlib.util.find_spec("wandb") else []
    mirror = ["a mirror"] if importlib.util.find_spec("fsspec") else []
    return ["TensorBoard", *wandb, "ludus watch", *mirror]


@dataclass(frozen=True)
class Measured:
    """One training: its steps per second, and the processor time that it and whoever saw it took."""

    speed: float
    processor: float


def one_pair(folder: Path, number: int, arguments: argparse.Namespace) -> tuple[Measured, Measured]:
    """Plain and seen; who is first changes from pair to pair."""
    found = {}
    for seen in (False, True) if number % 2 == 0 else (True, False):
        place, before = folder / f"{number}-{seen}", processor_time()
        speed = train(place, arguments.env, arguments.steps, seen=seen)
        found[seen] = Measured(speed, processor_time() - before)
    words = (f"{one.speed:,.0f} steps/s, {one.processor:.1f} s" for one in (found[False], found[True]))
    print(f"pair {number + 1}: {', seen '.join(words)}", file=sys.stderr, flush=True)
    return found[False], found[True]


def processor_time() -> float:
    """Seconds of all cores that this process and its ended children took."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def train(place: Path, env: str, steps: int, *, seen: bool) -> float:
    """One training; its steps per second."""
    from ludus.config.schema import TrainerConfig
    from ludus.training.factory import create_trainer

    tracking: dict[str, Any] = {"tensorboard": seen}
    if seen and importlib.util.find_spec("wandb"):
        tracking["wandb"] = {"project": "cost", "mode": "offline"}
    config = TrainerConfig(
        algorithm="PPO",
        env=env,
        n_envs=16,
        total_timesteps=steps,
        hyperparams={"n_steps": 128, "batch_size": 256, "n_epochs": 4},
        checkpoint={"every": max(steps // 4, 1)},
        evaluation={"every": None},
        tracking=tracking,
        mirror=f"file://{place.absolute()}-mirror" if seen and importlib.util.find_spec("fsspec") else None,
        save_dir=str(place),
    )
    place.mkdir(parents=True)
    watcher = subprocess.Popen([sys.executable, __file__, "--watch", str(place)]) if seen else None
    try:
        trainer = create_trainer(None, config)
        try:
            result = trainer.train()
            if result.exit_code:  # the training was asked to stop, and who asked meant all of them
                sys.exit(result.exit_code)
            return float(result.fps)
        finally:
            trainer.close()
    finally:
        if watcher is not None:
            watcher.terminate()
            watcher.wait()


def look_every_second(root: Path) -> None:
    """What `ludus watch` does, with a terminal that nobody sees."""
    from rich.console import Console

    from ludus.reports.terminal.screen import frame
    from ludus.reports.terminal.watched import Watched, choose_run
    from ludus.tracking.machine import step_back

    step_back()
    while (run := choose_run(str(root))) is None:
        time.sleep(0.2)
    watched = Watched(run)
    while True:
        watched.refresh()
        console = Console(file=io.StringIO(), width=120, height=40, force_terminal=True)
        console.print(frame(watched, 120, 40), height=40)
        time.sleep(1.0)


if __name__ == "__main__":
    main()
