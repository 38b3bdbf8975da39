"""Collectors on Ray beside the `process` backend: the same PPO on the same envs, in turn, as ratios.

python benchmarks/collectors.py                       # BipedalWalker-v3, 2 collectors against 2 worker processes
python benchmarks/collectors.py --rounds 5 --updates 4

Each contestant is a whole trainer: it collects, publishes and learns. They take turns of --updates updates, so that
other work on the machine meets all of them. What an asynchronous collector has begun when its turn ends is finished
within the turn, and learnt from in its next.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ludus.config.schema import TrainerConfig
from ludus.scale.collectors import AsyncCollector
from ludus.training.factory import create_trainer
from ludus.training.native import NativeTrainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="BipedalWalker-v3")
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--n-steps", type=int, default=256)
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=4)
    race(parser.parse_args())


def race(given: argparse.Namespace) -> None:
    # a share of a CPU each, on Ray's books: both kinds are there at a time, and one of them plays
    scale = {"ray": "local", "collectors": given.collectors, "cpus_per_collector": 0.5}
    with tempfile.TemporaryDirectory() as folder:
        contestants = {
            "process": contestant(given, folder, None),
            "sync": contestant(given, folder, scale),
            "async": contestant(given, folder, scale | {"mode": "async"}),
        }
        try:
            seconds: dict[str, list[float]] = {name: [] for name in contestants}
            for trainer in contestants.values():
                play(trainer, 1)  # warm
            for number in range(given.rounds):
                names = list(contestants) if number % 2 == 0 else list(contestants)[::-1]
                for name in names:
                    seconds[name].append(play(contestants[name], given.updates))
        finally:
            for trainer in contestants.values():
                trainer.close()
    steps = given.updates * given.n_steps * given.n_envs
    print(f"{given.env} x {given.n_envs}, PPO, {given.rounds} rounds of {steps:,} steps each\n")
    print("| contestant | steps/s (median) | against process | against sync |")
    print("|---|---|---|---|")
    for name in contestants:
        ratios = [
            statistics.median(a / b for a, b in zip(seconds[other], seconds[name], strict=True))
            for other in ("process", "sync")
        ]
        print(
            f"| {name} | {steps / statistics.median(seconds[name]):,.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )


def contestant(given: argparse.Namespace, folder: str, scale: dict[str, Any] | None) -> NativeTrainer:
    config = TrainerConfig(
        env=given.env,
        n_envs=given.n_envs,
        vector="process" if scale is None else "serial",
        hyperparams={"n_steps": given.n_steps, "batch_size": 64, "n_epochs": 10},
        save_dir=folder,
        scale=scale,
    )
    trainer = create_trainer(None, config)
    assert isinstance(trainer, NativeTrainer)
    trainer.create_model()
    assert trainer.collector is not None
    trainer.collector.barrier(0)
    return trainer


def play(trainer: NativeTrainer, updates: int) -> float:
    """Seconds of `updates` updates, everything that they began included."""
    collector, learner = trainer.collector, trainer.learner
    assert collector is not None and learner is not None
    started = time.perf_counter()
    for _ in range(updates):
        learner.update(collector.collect(learner.policy), 0.0)
    if isinstance(collector, AsyncCollector):
        collector.rest()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
